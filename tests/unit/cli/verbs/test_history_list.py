"""The list of publications, on terminals of several widths."""

import io

import pytest
from rich.console import Console

from zkdeployment.base.deployment import HostResult
from zkdeployment.base.publication import Origin
from zkdeployment.cli.verbs.history import render, render_publication
from zkdeployment.publishing.records import PublicationRecord

REVISION = "4f2a9c0d1e" * 4
HEADS = ["REVISION", "PUBLISHED", "TOOK", "DONE", "SUBJECT"]
SUBJECT = "web 1.4, which has a subject of many words"


def printed(shown, width=200):
    text = io.StringIO()
    Console(file=text, width=width).print(shown, soft_wrap=True)
    return text.getvalue()


def shown(width, *records):
    return printed(render(records), width)


def record(*, failed=0, author="Ann"):
    results = {str(number): HostResult(str(number), "h", 2.0, 1.0, error="broken") for number in range(failed)}
    origin = Origin(author=f"{author} <x@example.com>", subject=SUBJECT, time=1.0)
    return PublicationRecord(REVISION, 1.0, origin=origin, hosts=3, results=results)


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("records", [[record()], [record(failed=2), record(author="Bob the Builder")]])
def test_revisions_and_times_are_whole(width, records):
    text = shown(width, *records)
    assert REVISION[:12] in text
    assert "1970-01-01 " in text
    assert max(map(len, text.splitlines())) <= width


def test_a_publication_that_changed_nothing_for_hosts_counts_none():
    empty = PublicationRecord(REVISION, 1.0, 20, 10, hosts=3)

    row = next(line for line in shown(200, empty, record(failed=1)).splitlines() if REVISION[:12] in line)
    assert row.split()[3:7] == ["0", "0", "0", "-"]
    text = " ".join(printed(render_publication(empty, (), ())).split())
    assert "hosts nothing changed for hosts: they keep what publication 10 deployed, 3 registered when" in text


def test_a_narrow_terminal_has_no_columns_in_which_all_publications_are_alike():
    assert shown(80, record(), record()).splitlines()[1].split() == HEADS
    assert "FAILED" in shown(80, record(), record(failed=1))
