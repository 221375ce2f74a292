"""A check for Nagios."""

from __future__ import annotations

from zkdeployment.checks.nagios.check import NagiosCheck

CHECK = NagiosCheck(
    instance="01234567-89ab-5cde-8f01-23456789abcd",
    config_id="c1",
    configuration="front-http",
    host_id="h1",
    host_name="h1.example.com",
    address="192.0.2.1",
    path="/p1/shop/front",
    number=0,
    command="check_http",
    arguments=("-p", "8080"),
    interval=60,
)
