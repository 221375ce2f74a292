"""Reverse lookups of the names of nodes."""

from __future__ import annotations

import threading

from zkdeployment.pools.mechanisms.ansible import reverse_names


def test_only_valid_names_that_are_found_in_time_count():
    never = threading.Event()

    def lookup(address: str) -> str:
        if address == "192.0.2.4":
            never.wait()
        names = {"192.0.2.1": "one.example.com.", "192.0.2.2": "{{ code }}"}
        if address not in names:
            raise OSError("unknown host")
        return names[address]

    addresses = [f"192.0.2.{number}" for number in (1, 2, 3, 4)]
    assert reverse_names(addresses, limit=0.05, lookup=lookup) == {"192.0.2.1": "one.example.com"}
    never.set()
