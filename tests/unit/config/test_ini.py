from __future__ import annotations

from dataclasses import dataclass

import pytest

from zkdeployment.config.forms import TEXT, SectionSettings, parse, setting


@dataclass
class MainSection(SectionSettings):
    SECTION = "main"
    host_id: str | None = setting(TEXT)
    host_name: str | None = setting(TEXT)
    after: str | None = setting(TEXT)


@dataclass
class OtherSection(SectionSettings):
    SECTION = "sync"
    url: str | None = setting(TEXT)


KNOWN: dict[str, type[SectionSettings]] = {"main": MainSection, "sync": OtherSection}


def test_tables_of_other_sections_are_loaded_only_for_files_that_have_them():
    def load():
        raise AssertionError

    assert parse("[main]\nhost-id = a\n", MainSection, load) == ({"main": {"host-id": "a"}}, [])


def test_values_are_returned_by_section_without_empty_ones():
    values, problems = parse("[main]\nhost-id = a\nafter =\n[sync]\nurl: x\n", MainSection, lambda: KNOWN)
    assert values == {"main": {"host-id": "a"}, "sync": {"url": "x"}}
    assert problems == []


def test_nothing_is_interpolated():
    values, problems = parse("[main]\nafter = date +%Y %(host-id)s $HOME\n", MainSection, lambda: KNOWN)
    assert values["main"]["after"] == "date +%Y %(host-id)s $HOME"
    assert problems == []


def test_comments_are_ignored():
    values, _ = parse("# one\n; two\n[main]\nhost-id = a   # three\nurl-ish = x\n", MainSection, lambda: KNOWN)
    assert values["main"] == {"host-id": "a"}


def test_a_hash_inside_a_word_does_not_begin_a_comment():
    values, _ = parse("[main]\nhost-id = a#b\n", MainSection, lambda: KNOWN)
    assert values["main"] == {"host-id": "a#b"}


def test_a_value_may_span_lines():
    values, _ = parse("[main]\nafter = one\n   two\n\n   three\n", MainSection, lambda: KNOWN)
    assert values["main"]["after"] == "one\ntwo\n\nthree"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[main]\nhostid = a\n", "unknown key hostid in [main]; did you mean host-id?"),
        ("[main]\nzzz = a\n", "unknown key zzz in [main]; expected one of after, host-id, host-name"),
        ("[main]\nurl = a\n", "unknown key url in [main]; it belongs in [sync]"),
        ("[Main]\nhost-id = a\n", "unknown section [Main]; did you mean main?"),
        ("[DEFAULT]\nhost-id = a\n", "unknown section [DEFAULT]; expected one of main, sync"),
        ("[main]\nhost-id = a\nhost-id = b\n", "line 3: duplicate key host-id in [main]"),
        ("[main]\n[sync]\n[main]\n", "line 3: duplicate section [main]"),
        ("host-id = a\n", r"line 1: expected a section like [main], found 'host-id = a\n'"),
        ("[main]\nhost-id\n", r"line 2: expected key = value, found 'host-id\n'"),
    ],
)
def test_a_problem_has_its_place(text: str, problem: str):
    assert parse(text, MainSection, lambda: KNOWN)[1] == [problem]


def test_all_problems_are_reported_at_once():
    text = "[main]\nhost-id = a\nhost-id = b\nhost-id = c\nhostname = x\nwhat\n[snyc]\n"
    assert parse(text, MainSection, lambda: KNOWN)[1] == [
        "line 3: duplicate key host-id in [main]",
        "line 4: duplicate key host-id in [main]",
        r"line 6: expected key = value, found 'what\n'",
        "unknown key hostname in [main]; did you mean host-name?",
        "unknown section [snyc]; did you mean sync?",
    ]
