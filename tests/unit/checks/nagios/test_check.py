"""Checks from the details of deployments: accepted and refused details."""

import pytest

from support.checks.instances import CHECK
from zkdeployment.base.errors import UnusableCheckError
from zkdeployment.checks.nagios.check import check_from_text, check_to_text, is_instance, read_check

INSTANCE = "01234567-89ab-5cde-8f01-23456789abcd"
DETAILS = {
    "configuration": "front-http",
    "config_id": "c1",
    "version": 0,
    "monitoring": "nagios1",
    "host": {"id": "h1", "name": "h1.example.com", "address": "192.0.2.1"},
    "path": "/p1/shop/front",
    "number": 0,
    "command": "check_http",
    "arguments": ["-p", "8080"],
    "thresholds": [{"level": "warning", "predicate": ">=", "value": 0.5}],
    "interval": 60,
    "properties": {"port": 8080},
    "task": "rollout",
}


def test_a_check_is_read_from_the_details():
    assert read_check(INSTANCE, DETAILS) == CHECK


def test_a_host_without_an_address_is_reached_by_its_name():
    details = DETAILS | {"host": {"id": "h1", "name": "h1.example.com", "address": None}}
    assert read_check(INSTANCE, details).address == "h1.example.com"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"host": None}, "expected the object host in the details, found none"),
        ({"host": {"id": "h1", "name": 5}}, "expected a text as name in the details, found '5'"),
        ({"arguments": "-p 1"}, "expected a list of texts as arguments"),
        ({"arguments": [1]}, "expected a list of texts as arguments"),
        ({"number": None}, "expected numbers as number and interval"),
        ({"path": ""}, "expected a text as path in the details, found ''"),
        ({"interval": 0}, "expected an interval of more than 0 and less than 100000 days, found 0"),
        ({"interval": float("nan")}, "found nan"),
        ({"command": "../bin/sh"}, "expected the bare name of a plugin as command, found '../bin/sh'"),
        ({"command": "check_http\n"}, "expected the bare name of a plugin as command, found 'check_http\\n'"),
        (
            {"host": {"id": "h", "name": "h", "address": "1;2"}},
            "expected a name or an address of the host, found '1;2'",
        ),
        ({"arguments": ["a", "b\0c"]}, "argument 2 contains a NUL character, which no program accepts"),
        ({"arguments": ["\ud800"]}, "argument 1 is not valid Unicode: '\\ud800'"),
        ({"arguments": ["ä" * 50_001]}, "argument 1 is too long: expected at most 100000 bytes, found 100002"),
        ({"arguments": ["a" * 99_999] * 11}, "the arguments are too long: expected at most 1000000 bytes"),
    ],
)
def test_details_that_nagios_cannot_use_are_refused_with_the_reason(change, words):
    with pytest.raises(UnusableCheckError) as caught:
        read_check(INSTANCE, DETAILS | change)
    assert words in str(caught.value)


@pytest.mark.parametrize("argument", ["a\nb", "ü\u2028", "'", "$USER1$!;{}", "\x7f"])
def test_a_check_as_text_is_one_line_of_ascii_that_is_read_again(argument):
    check = read_check(INSTANCE, DETAILS | {"arguments": [argument]})
    text = check_to_text(check)
    assert text.isascii()
    assert text.isprintable()
    assert check_from_text(INSTANCE, text) == check


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "[" * 100_000])
def test_other_texts_are_not_checks(text):
    assert check_from_text(INSTANCE, text) is None


@pytest.mark.parametrize("text", ["", "x", INSTANCE.upper(), f"{INSTANCE}\n", f"../{INSTANCE}"])
def test_other_texts_are_not_instances(text):
    assert is_instance(INSTANCE)
    assert not is_instance(text)
