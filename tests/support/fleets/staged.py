"""Fleets under promotion: a real git repository and ZooKeeper, and a real HTTP server that plays all services."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from support.branches import Branch
from support.metrics import probe_of
from support.waiting import wait_until
from zkdeployment.base.act import Act
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.promotion.branches import FleetBranches
from zkdeployment.promotion.daemon import Promoter
from zkdeployment.promotion.records import FleetReport, FleetState
from zkdeployment.promotion.services import FleetServices, ServiceClient
from zkdeployment.promotion.store import PromoterStore, direct, read_promotion
from zkdeployment.strategies.daemon import LeaderAdapters
from zkdeployment.strategies.store.records import FencedLead
from zkdeployment.strategies.strategy import MemberKind
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.promotion.store import PromotionSnapshot
    from zkdeployment.strategies.criteria import OutsideCriterion
    from zkdeployment.strategies.state import Directive, RolloutState


def staged_group(name: str, *after: str, tag: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a critical group in the form of its document, in which each fleet has to succeed."""
    selectors = [] if tag is None else [{"node_tags": [tag]}]
    return {
        "name": name,
        "critical": True,
        "depends_on": list(after),
        "selectors": selectors,
        "success_criteria": {"percent_successful_nodes": 100},
        **fields,
    }


#: The fleets whose names begin with ``eu`` come first, then all others.
CANARY, REST = staged_group("canary", tag="eu"), staged_group("rest", "canary")


@dataclass
class StagedFleet:
    """The behaviour of one fleet; tests change its fields.

    A fleet publishes the tip of its branch, and converges there at once, unless it ``stays`` at a commit.
    ``answer`` replaces the whole report. ``refusals`` are those of dry runs. A fleet ``is_away`` if its service
    does not answer.
    """

    stays: str | None = None
    state: FleetState | None = None
    refusals: tuple[str, ...] = ()
    answer: dict[str, Any] | None = None
    is_away: bool = False
    problem: str = ""


@dataclass
class StagedFleets:
    """All fleets: ``repository`` is the git server, ``url`` the server of all services."""

    repository: Branch
    session: Session
    connection: str
    url: str
    tokens: Path
    fleets: dict[str, StagedFleet] = field(default_factory=dict)
    promoters: int = 0
    #: The acts that the services performed: fleet, act with its option, and reason.
    performed: list[tuple[str, str, str]] = field(default_factory=list)

    def branch(self, name: str) -> str:
        """Return the tip of a fleet's branch, empty without the branch."""
        return self.repository.ask("for-each-ref", "--format=%(objectname)", f"refs/heads/fleets/{name}")

    def branches(self) -> dict[str, str]:
        """Return the tips of the branches of all fleets, by fleet."""
        return {name: self.branch(name) for name in self.fleets}

    def push(
        self,
        *groups: dict[str, Any],
        message: str = "a change",
        tree: str = "",
        renamed: Mapping[str, str] | None = None,
        **data: Any,
    ) -> str:
        """Push a commit with the documents of the fleets and of a promotion to main; return the commit.

        ``tree`` is the text of the tree, which else stays. ``renamed`` has the other names that fleets get.
        """
        listed = [
            {
                "name": (renamed or {}).get(name, name),
                "branch": f"fleets/{name}",
                "service": f"{self.url}/{name}",
                "tags": [name.split("-")[0]],
            }
            for name in self.fleets
        ]
        documents = [
            {"schema": "zkdeployment/Fleets/v1", "data": {"fleets": listed}},
            {"schema": "zkdeployment/Promotion/v1", "data": {"groups": list(groups), **data}},
        ]
        text = "\n---\n".join(map(json.dumps, documents))
        files: dict[str, str | bytes | None] = {"fleets.yaml": text}
        if tree:
            files["tree.zk"] = f"{tree}\n"
        return self.repository.push(files, message=message)

    def change(self, text: str, message: str = "a change") -> str:
        """Push a commit that changes no document; return the commit."""
        return self.repository.push({"tree.zk": f"{text}\n"}, message=message)

    def own_commit(self, name: str) -> str:
        """Push a commit of a fleet's own to its branch, as its rollback does; return the commit."""
        clone = self.repository.clone
        clone.git("fetch", "--quiet", "origin")
        clone.git("checkout", "--quiet", "--detach", f"origin/fleets/{name}")
        commit = clone.commit({f"own-{name}": "x"}, message="roll back")
        clone.git("push", "--quiet", "origin", f"HEAD:refs/heads/fleets/{name}")
        clone.git("checkout", "--quiet", "main")
        return commit

    def set_branch(self, name: str, commit: str) -> None:
        """Set the branch of a fleet."""
        self.repository.ask("update-ref", f"refs/heads/fleets/{name}", commit)

    def moves(self) -> list[tuple[str, str, str]]:
        """Return all pushes to branches of fleets in order: the fleet, the old commit and the new one."""
        log = self.tokens.parent / "pushes"
        lines = log.read_text().splitlines() if log.exists() else []
        found = [line.split() for line in lines if " refs/heads/fleets/" in line]
        return [(ref.removeprefix("refs/heads/fleets/"), old, new) for old, new, ref in found]

    def report(self, name: str) -> dict[str, Any]:
        """Return what the service of a fleet answers."""
        fleet = self.fleets[name]
        if fleet.answer is not None:
            return fleet.answer
        published = fleet.stays or self.branch(name) or None
        report = FleetReport(fleet.state or FleetState.CONVERGED, published, 3, 3, problem=fleet.problem)
        return {"schema": "zkdeployment/fleet/v1", **report.to_json()}

    def judgement(self, name: str, place: str, revision: str) -> dict[str, Any]:
        """Return what the service of a fleet answers about a revision: its plan, or the refusals of a dry run."""
        if place == "api/v1/plan/short":
            published = self.branch(name) or None
            lines = {"published": published, "diff": ["+ /new"], "lines": [f"- {name} would change"]}
            return {
                "schema": "zkdeployment/plan-short/v1",
                "revision": revision,
                **lines,
                "changes": published != revision,
            }
        refusals = list(self.fleets[name].refusals)
        return {"schema": "zkdeployment/refusals/v1", "revision": revision, "refusals": refusals}

    @property
    def records(self) -> PromotionSnapshot:
        """All records of promotions."""
        return read_promotion(self.session)

    @property
    def promotion(self) -> RolloutState:
        """The newest promotion."""
        state = self.records.state
        assert state is not None, "there is no promotion"
        return state

    def have_converged(self) -> bool:
        """Return whether the promoter has recorded that all fleets have converged."""
        found = [standing.state for standing in self.records.standings.values()]
        return found == [FleetState.CONVERGED] * len(self.fleets)

    def act(self, directive: Directive, group: str | None = None) -> None:
        """Record an act of an operator."""
        direct(self.session, directive, Act("op", directive.value, "why", 1.0), group)

    @contextmanager
    def promoter(
        self,
        reach: Callable[[str], None] = lambda _place: None,
        *,
        directory: str = "mirror",
        criteria: Sequence[OutsideCriterion] = (),
    ) -> Iterator[RunningPromoter]:
        """Yield a promoter with a session of its own."""
        self.promoters += 1
        clock, defects = SystemClock(), list[str]()
        with Session(self.connection, session_timeout=20) as session:
            control = Control(clock)
            mirror = self.tokens.parent / directory
            adapters = LeaderAdapters(
                lead=FencedLead(session, MemberKind.FLEET, reach, identity=f"promoter {self.promoters}"),
                clock=clock,
                control=control,
                notifier=SystemdNotifier({}),
                probe=probe_of(session, None),
                connect=session.open,
                criteria=criteria,
                record_failure=lambda message: defects.append(message) if message else None,
            )
            promoter = Promoter(
                PromoterStore(session, adapters.lead, control.wake),
                FleetBranches.opened(str(self.repository.bare), mirror, main="main"),
                FleetServices(ServiceClient(self.tokens), clock, control.wake, interval=0.0),
                adapters,
                interval=0.0,
                reach=reach,
            )
            yield RunningPromoter(self, promoter, control, defects)


@dataclass
class RunningPromoter:
    """A promoter whose cycles a test runs; ``defects`` are its unexpected errors, which fail the test."""

    fleets: StagedFleets
    promoter: Promoter
    control: Control
    defects: list[str]

    def cycle(self) -> None:
        """Run a cycle, and wait a moment for answers of services."""
        self.promoter.run_cycle()
        assert self.defects == []
        self.control.wait(0.02)

    def until(self, condition: Callable[[], object], awaited: str) -> None:
        """Run cycles until a condition holds."""

        def holds() -> object:
            self.cycle()
            return condition()

        wait_until(holds, awaited)

    def until_ended(self, revision: str | None = None) -> RolloutState:
        """Run cycles until a promotion has ended, of a revision if one is given; return it."""

        def has_ended() -> bool:
            state = self.fleets.records.state
            return state is not None and state.ended is not None and revision in {None, state.revision}

        self.until(has_ended, "the promotion has ended")
        return self.fleets.promotion

    def cycles(self, number: int = 6) -> None:
        """Run some cycles, in which all services answer."""
        for _ in range(number):
            self.cycle()


@contextmanager
def staged_fleets(directory: Path, connection: str, session: Session, *names: str) -> Iterator[StagedFleets]:
    """Yield fleets with a server that plays their services."""
    tokens = directory / "tokens"
    tokens.mkdir()
    for name in names:
        (tokens / name).write_text("promoter:key 127.0.0.1\n")
        (tokens / name).chmod(0o600)
    repository = Branch(directory)
    repository.hook("post-receive", f"cat >> {directory / 'pushes'}")
    fleets = StagedFleets(repository, session, connection, "", tokens, {name: StagedFleet() for name in names})

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            _, name, place = parts.path.split("/", 2)
            if fleets.fleets[name].is_away:
                self.answer(503, {"detail": "ZooKeeper is away"})
            elif place == "api/v1/fleet":
                self.answer(200, fleets.report(name))
            elif place == "api/v1/events":
                self.answer(404, {"detail": "these services have no event streams"})
            else:
                self.answer(200, fleets.judgement(name, place, parse_qs(parts.query)["revision"][0]))

        def do_POST(self) -> None:
            _, name, place = self.path.split("/", 2)
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if fleets.fleets[name].is_away:
                self.answer(503, {"detail": "ZooKeeper is away"})
            else:
                act = place.removeprefix("api/v1/") + " --latest" * content.get("latest", False)
                fleets.performed.append((name, act, content["reason"]))
                fleets.performed.sort()
                self.answer(200, {})

        def answer(self, status: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    fleets.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield fleets
    finally:
        server.shutdown()
        server.server_close()
