"""The output of running scripts: asked for by a service that shows it, written by the agent of the host."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from kazoo.security import make_acl

from support.agents import called
from support.waiting import ManualClock, wait_until
from support.zookeeper import renew_session, sent_requests
from zkdeployment.agent.scripts import ScriptOutput
from zkdeployment.agent.store.live_output import LiveOutputWriter
from zkdeployment.base.errors import UnreachableError
from zkdeployment.base.stop import MAX_LIVE_BYTES
from zkdeployment.fleet.feed import live_outputs
from zkdeployment.fleet.feed.live_outputs import LiveOutputs
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NODE = "/zkdeployment/live-output/h1"


class RunningScript:
    """A script of the host ``h1`` whose output grows, and the agent that watches the script."""

    def __init__(self, session, output: ScriptOutput) -> None:
        self.clock = ManualClock()
        self._writer = LiveOutputWriter(session, self.clock, "h1")
        self._output = output

    def prints(self, text: str) -> None:
        """Append to the output, then let a second pass."""
        with self._output.file.open("a") as file:
            file.write(text)
        self.passes(1.0)

    def passes(self, seconds: float, *, is_over: bool = False) -> None:
        """Let the agent look at the output after some time."""
        self.clock.time += seconds
        self._writer.show("r1", "deploy /who 0", self._output, is_over)


@contextmanager
def running(session, directory: Path) -> Iterator[RunningScript]:
    with ScriptOutput(directory / "output.log") as output:
        yield RunningScript(session, output)


@pytest.fixture
def script(session, tmp_path) -> Iterator[RunningScript]:
    with running(session, tmp_path) as script:
        yield script


@pytest.fixture
def page(other) -> LiveOutputs:
    return LiveOutputs(other)


def shown(page: LiveOutputs) -> str | None:
    output = page.ask("h1")
    return None if output is None else output.text


def asked(page: LiveOutputs, script: RunningScript) -> None:
    """Ask for the output, and let the agent hear of it."""
    assert page.ask("h1") is None

    def is_answered() -> bool:
        script.passes(0.0)
        return page.ask("h1") is not None

    wait_until(is_answered, "the host answers")


def test_output_at_which_nobody_looks_costs_one_request_for_the_first_script_of_a_session(
    session, script, client, monkeypatch
):
    sent = sent_requests(session, monkeypatch)
    assert sent == []
    for number in range(20):
        script.prints(f"line {number}\n")
    assert len(sent) == 1
    assert client.exists("/zkdeployment/live-output") is None


def test_a_page_shows_what_a_running_script_prints(script, page, session, monkeypatch):
    script.prints("unpacking\n")
    asked(page, script)
    output = page.ask("h1")
    assert (output.host_id, output.revision, output.step, output.text) == (
        "h1",
        "r1",
        "deploy /who 0",
        "unpacking\n",
    )
    script.prints("starting\n")
    assert shown(page) == "unpacking\nstarting\n"
    sent = sent_requests(session, monkeypatch)
    for _ in range(4):
        script.passes(0.9)  # the output does not grow
    assert sent == []
    script.passes(2.0)
    script.prints("done\n")
    script.prints("more\n")
    assert len(sent) == 3, "one write a second, and one that finds out whether somebody still looks"


def test_the_last_lines_of_a_script_are_shown_at_once(script, page):
    asked(page, script)
    script.passes(5.0)
    with script._output.file.open("a") as file:
        file.write("done\n")
    script.passes(0.1)
    assert shown(page) == ""
    script.passes(0.0, is_over=True)
    assert shown(page) == "done\n"


def test_shown_output_is_bounded_and_has_no_secrets(script, page):
    script.prints("--password first-line\n" + "x" * 100 + "\n")
    script.prints("".join(f"{number:0100}\n" for number in range(100)) + "token=abc123 \x1b[31mred\n")
    asked(page, script)
    text = shown(page)
    assert len(text.encode()) <= MAX_LIVE_BYTES
    assert text.startswith(f"{60:0100}\n"[:3])
    assert text.endswith("token=*** \\x1b[31mred\n")
    script.prints("y" * 3 * MAX_LIVE_BYTES)
    assert shown(page) == "", "a line without its beginning may hide a secret"


def test_after_nobody_has_looked_for_a_while_the_agent_writes_no_more(script, page, session, client, monkeypatch):
    asked(page, script)
    page.withdraw_outdated()
    assert client.exists(NODE) is not None
    monkeypatch.setattr(live_outputs, "LINGER", -1.0)
    page.withdraw_outdated()
    assert client.exists(NODE) is None
    script.prints("nobody sees this\n")
    script.prints("nor this\n")
    sent = sent_requests(session, monkeypatch)
    script.prints("nor that\n")
    script.prints("or these\n")
    assert sent == []
    monkeypatch.undo()
    asked(page, script)
    assert shown(page).endswith("or these\n")


def test_two_services_share_a_request_and_each_may_end_it(script, page, session, monkeypatch):
    second = LiveOutputs(session)
    asked(page, script)
    assert second.ask("h1") is not None
    monkeypatch.setattr(live_outputs, "LINGER", -1.0)
    page.withdraw_outdated()
    assert second.ask("h1") is None
    script.prints("for the second\n")

    def is_shown() -> bool:
        script.passes(1.0)
        return shown(second) == "for the second\n"

    wait_until(is_shown, "the host answers the second service")


def test_a_service_that_ends_leaves_no_request(other, page, script, client):
    asked(page, script)
    other.close()
    wait_until(lambda: client.exists(NODE) is None, "the request ends with the session of the service")
    script.prints("nobody sees this\n")


def test_a_host_with_a_new_session_answers_again(session, page, script):
    asked(page, script)
    renew_session(session)
    script.prints("after the session\n")
    assert shown(page) == "after the session\n"


def test_a_script_is_watched_while_zookeeper_is_away(session, script, page):
    asked(page, script)
    session.close()
    script.prints("nobody sees this\n")


def test_a_request_is_noticed_although_zookeeper_answered_once_too_late(script, page, monkeypatch):
    calls, exists = [], Session.exists

    def late(session: Session, path: str, watch: object) -> bool:
        calls.append(path)
        if len(calls) == 2:
            raise UnreachableError("no answer in time")
        return exists(session, path, watch)

    monkeypatch.setattr(Session, "exists", late)
    script.prints("unpacking\n")
    assert page.ask("h1") is None
    wait_until(lambda: script.passes(0.0) or len(calls) == 2, "the agent notices the request")
    script.passes(0.5)
    assert len(calls) == 2, "a script is watched: one attempt a second"
    script.passes(0.5)
    assert shown(page) == "unpacking\n"


def test_a_service_without_the_rights_to_ask_shows_no_output_and_continues(page, client, monkeypatch):
    client.ensure_path("/zkdeployment/live-output")
    only_read = [make_acl("world", "anyone", read=True, admin=True)]
    client.set_acls("/zkdeployment/live-output", only_read)
    assert page.ask("h1") is None
    monkeypatch.setattr(live_outputs, "LINGER", -1.0)
    page.withdraw_outdated()
    client.set_acls("/zkdeployment/live-output", [make_acl("world", "anyone", all=True)])
    assert page.ask("h1") is None
    client.set_acls("/zkdeployment/live-output", only_read)
    page.withdraw_outdated()
    assert client.exists(NODE) is not None


def test_a_service_asks_only_so_many_hosts(page, client, monkeypatch):
    monkeypatch.setattr(live_outputs, "MOST_REQUESTS", 3)
    for number in range(5):
        assert page.ask(f"h{number}") is None
    assert sorted(client.get_children("/zkdeployment/live-output")) == ["h0", "h1", "h2"]


def test_an_agent_asks_once_for_all_scripts_of_a_session_and_an_idle_agent_never(fleet, monkeypatch):
    asked, exists = [], Session.exists

    def noted(session: Session, path: str, watch: object) -> bool:
        asked.append(path)
        return exists(session, path, watch)

    monkeypatch.setattr(Session, "exists", noted)
    host = fleet.ready_host(n=2)
    fleet.set_version("initial")
    with host.agent():
        host.wait_for_version("initial")
        assert NODE not in asked
        fleet.set_version("r1")
        host.wait_for_version("r1")
        assert fleet.calls() == called("/who/myfoo 0", "/who/myfoo 1")
        fleet.set_version("r2")
        host.wait_for_version("r2")
    assert asked.count(NODE) == 1
