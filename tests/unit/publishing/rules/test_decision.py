"""Whether the tip of a branch is published, and which publications are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import pytest

from support.strategies import begun_rollout, group, plain_hosts, strategy
from zkdeployment.base.cluster import INITIAL, Cluster
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.publication import Origin, Published
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.collection import PublishedDocuments
from zkdeployment.publishing.records import GuardOverrides, PublicationRequest, RequestState, SyncOptions
from zkdeployment.publishing.rules.changes import Baseline, draft
from zkdeployment.publishing.rules.convergence import PublicationSnapshot, PublishedState
from zkdeployment.publishing.rules.decision import (
    Ancestry,
    PublicationFacts,
    Publish,
    Refuse,
    UpToDate,
    Wait,
    decide,
    draft_refusal,
    predecessor,
    removal_refusal,
    request_refusal,
)
from zkdeployment.publishing.rules.review import Review, review
from zkdeployment.tree.values import LiveTree

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.base.cluster import Revision

A, B, C = "a" * 40, "b" * 40, "c" * 40

ORIGIN = Origin("me", "x", 90.0)
SIGNED = replace(ORIGIN, signer="me SHA256:x")


def unread(*_arguments: object) -> NoReturn:
    raise AssertionError("this decision does not depend on what it reads")


def observed(
    snapshot: PublicationSnapshot, tip: Revision = "r2", ancestry: Ancestry | None = None, **values: bool
) -> PublicationFacts:
    """Return the facts about a fleet; the ancestry of the tip is never read if there is none."""
    read: Callable[[Revision | None], Ancestry] = unread if ancestry is None else lambda _before: ancestry
    return PublicationFacts(snapshot, tip, lambda: snapshot, read, **values)


def host(host_id: str, version: str | None) -> Host:
    return Host(Identity(host_id, f"{host_id}.example.com"), version=version)


def decision_on(
    tip: Revision,
    cluster: Cluster | None,
    hosts: list[Host],
    *,
    published: Revision | None,
    force: bool = False,
    held: bool = False,
) -> type:
    snapshot = PublicationSnapshot(cluster, Published(published), hosts=hosts, held_by_operator=held)
    return type(decide(observed(snapshot, tip, Ancestry(ORIGIN)), SyncOptions(force=force)))


AT_R1, AT_R0, NEW = host("a", "r1"), host("b", "r0"), host("c", None)


@pytest.mark.parametrize(
    ("cluster", "hosts", "published", "force", "decision"),
    [
        (None, [], None, False, Publish),
        (Cluster(INITIAL), [], None, False, Publish),
        (Cluster(INITIAL), [NEW], None, False, Wait),
        (Cluster("r1"), [AT_R1], "r1", False, Publish),
        (Cluster("r1"), [AT_R1, AT_R0], "r1", False, Wait),
        (Cluster("r1"), [AT_R1, NEW], "r1", False, Wait),
        (Cluster("r1"), [AT_R1, AT_R0], "r1", True, Publish),
        (Cluster("r2"), [AT_R1], "r2", False, UpToDate),
        (Cluster("r2"), [AT_R1], "r2", True, Publish),
        (Cluster("r2"), [AT_R1], None, False, Publish),
        (Cluster("r2"), [AT_R1], "r1", False, Publish),
        (Cluster("r1", importing="r2"), [AT_R0], None, False, Publish),
        (Cluster("r2", importing="r2"), [AT_R0], "r2", False, Publish),
        (Cluster("r2", importing="r2"), [AT_R0], None, False, Publish),
        (Cluster(None), [AT_R0], "r1", True, Publish),
        (Cluster(False), [AT_R0], "r1", False, Publish),
        (Cluster(False), [AT_R0], "r2", False, Publish),
    ],
)
def test_whether_the_tip_r2_is_published(
    cluster: Cluster | None, hosts: list[Host], published: str | None, force: bool, decision: type
):
    assert decision_on("r2", cluster, hosts, published=published, force=force) is decision


@pytest.mark.parametrize(("hosts", "decision"), [([], Publish), ([AT_R1], Wait)])
def test_a_published_tip_that_does_not_stand_is_published_again_when_hosts_have_it(hosts, decision):
    snapshot = PublicationSnapshot(Cluster("r2"), Published("r2"), hosts=hosts)
    decided = decide(observed(snapshot, ancestry=Ancestry(ORIGIN), stands=False), SyncOptions())
    assert isinstance(decided, decision)
    assert not isinstance(decided, Publish) or (decided.whole and not decided.optional)


@pytest.mark.parametrize(
    ("cluster", "tip", "published", "force", "decision"),
    [
        (Cluster(False), "r1", "r1", False, UpToDate),
        (Cluster(False), "r2", "r1", False, Publish),
        (Cluster(False), "r1", None, False, Publish),
        (Cluster(False), "r1", "r1", True, Publish),
        (Cluster(False, importing="r1"), "r1", "r1", False, Publish),
    ],
)
def test_a_hold_of_an_operator_lasts_until_there_is_a_new_tip(cluster, tip, published, force, decision):
    assert decision_on(tip, cluster, [AT_R0], published=published, force=force, held=True) is decision


@pytest.mark.parametrize(
    ("cluster", "tip", "published", "up_to_date"),
    [
        (Cluster("r2"), "r2", "r2", True),
        (Cluster(7), 7, 7, True),
        (Cluster(7), 8, 7, False),
        (Cluster("r2"), "r2", "r1", False),
        (Cluster("r2"), "r2", None, False),
        (Cluster("r2", importing="r2"), "r2", "r2", False),
        (Cluster(False), "r2", "r2", False),
        (None, "r2", "r2", False),
    ],
)
def test_a_tip_is_up_to_date_if_its_publication_was_completed(cluster, tip, published, up_to_date):
    assert (decision_on(tip, cluster, [], published=published) is UpToDate) is up_to_date


def test_in_an_idle_cycle_neither_hosts_nor_history_are_read():
    idle = PublicationFacts(PublishedState(Cluster(A), Published(A)), A, unread, unread)
    assert decide(idle, SyncOptions()) == UpToDate()


def test_the_history_is_not_read_while_the_tip_waits():
    waiting = PublicationSnapshot(Cluster("r1"), Published("r1"), hosts=[AT_R0])
    assert decide(observed(waiting), SyncOptions()) == Wait(
        "not converged, so r2 is not published: expected version r1, but b.example.com (b) has r0;"
        " wait for these hosts or use --force"
    )


@pytest.mark.parametrize(
    ("options", "optional"), [(SyncOptions(prune=True), True), (SyncOptions(force=True, prune=True), False)]
)
def test_a_published_tip_is_pruned_only_if_something_changes_unless_it_is_forced(options, optional):
    snapshot = PublicationSnapshot(Cluster("r2"), Published("r2"))
    decision = decide(observed(snapshot, ancestry=Ancestry(ORIGIN)), options)
    assert decision == Publish(
        "r2", ORIGIN, snapshot, options, whole=True, optional=optional, may_repeat=True, rollout=None
    )


@pytest.mark.parametrize(
    ("force", "is_last", "ended", "may_repeat"),
    [
        (False, True, 9.0, True),
        (False, False, 9.0, False),
        (True, True, 9.0, False),
        (True, True, None, True),
        (True, False, None, False),
    ],
    ids=["same", "last one unknown", "forced after the rollout", "forced during the rollout", "forced, unknown"],
)
def test_hosts_try_a_publication_again_that_is_forced_after_its_rollout_failed(force, is_last, ended, may_repeat):
    """Host ``c`` lacks the publication of the rollout."""
    rollout = replace(begun_rollout(strategy(group("all")), plain_hosts("c")), revision="r2", ended=ended)
    published = Published("r2", sequence=7, strategy="deployment-strategy", ordered="r2")
    snapshot = PublicationSnapshot(Cluster("r2"), published, hosts=[NEW], rollout=rollout)
    if not force:
        snapshot = replace(snapshot, cluster=Cluster(False))
    decision = decide(observed(snapshot, ancestry=Ancestry(ORIGIN), is_last=is_last), SyncOptions(force=force))
    assert isinstance(decision, Publish)
    assert decision.may_repeat is may_repeat
    assert decision.rollout == ("7-1" if ended is None else None)


class TestAncestry:
    @staticmethod
    def decided(ancestry: Ancestry, overrides: GuardOverrides = GuardOverrides(), tip: Revision = B) -> object:  # noqa: B008  it cannot be changed
        snapshot = PublicationSnapshot(Cluster(A), Published(A))
        return decide(observed(snapshot, tip, ancestry), SyncOptions(force=True, overrides=overrides))

    def test_a_descendant_is_published(self):
        assert isinstance(self.decided(Ancestry(ORIGIN)), Publish)

    def test_another_history_is_refused_with_both_revisions_even_if_forced(self):
        assert self.decided(Ancestry(ORIGIN, descends=False)) == Refuse(
            f"{B} is not published: it does not descend from {A}, which is published; history was rewritten, or"
            " another branch or repository is read. If that is meant, use"
            " 'zkdeployment resume --latest --allow-rewind'"
        )

    def test_a_signed_commit_may_not_be_older_than_the_published_commit(self):
        assert self.decided(Ancestry(SIGNED, previous=Origin("you", "y", 100.0))) == Refuse(
            f"{B} is not published: it was signed by me SHA256:x, but its date is 10 s before that of the"
            " published commit; commit again"
        )
        assert isinstance(self.decided(Ancestry(SIGNED, previous=Origin("you", "y", 90.0))), Publish)

    def test_without_signatures_clocks_do_not_matter(self):
        assert isinstance(self.decided(Ancestry(ORIGIN, previous=Origin("you", "y", 100.0))), Publish)

    @pytest.mark.parametrize(
        ("tip", "overrides", "before"),
        [(B, GuardOverrides(), A), (B, GuardOverrides(rewind=True), None), (A, GuardOverrides(), None)],
        ids=["another tip", "a rewind is allowed", "the same tip"],
    )
    def test_the_tip_is_compared_with_its_predecessor_unless_a_rewind_is_allowed(self, tip, overrides, before):
        asked: list[Revision | None] = []

        def read(revision: Revision | None) -> Ancestry:
            asked.append(revision)
            return Ancestry(ORIGIN)

        snapshot = PublicationSnapshot(Cluster(A), Published(A))
        decide(
            PublicationFacts(snapshot, tip, lambda: snapshot, read), SyncOptions(force=True, overrides=overrides)
        )
        assert asked == [before]


class TestPredecessor:
    @pytest.mark.parametrize(
        ("cluster", "published", "expected"),
        [
            (None, None, None),
            (Cluster("initial"), None, None),
            (Cluster(A), A, A),
            (Cluster(None), A, A),
            (Cluster(False), A, A),
            (Cluster(A), B, B),
            (Cluster(A), None, A),
            (Cluster(A, importing=B), None, B),
            (Cluster("by hand"), None, None),
            (Cluster(7), 6, 6),
            (Cluster(7), None, 7),
        ],
    )
    def test_it_is_the_interrupted_or_the_published_revision(self, cluster, published, expected):
        assert predecessor(PublishedState(cluster, Published(revision=published))) == expected

    @pytest.mark.parametrize(
        ("cluster", "expected"),
        [(None, A), (Cluster(None), A), (Cluster("by hand"), A), (Cluster(B), B), (Cluster(None, importing=B), B)],
    )
    def test_the_last_ordered_revision_is_known_after_a_manual_import(self, cluster, expected):
        assert predecessor(PublishedState(cluster, Published(ordered=A))) == expected


class TestRequests:
    @staticmethod
    def refusal(
        request: RequestState | None,
        cluster: Cluster | None,
        stops: int = 3,
        age: float = 1.0,
        limit: float = 60.0,
    ) -> str | None:
        asked = PublicationRequest("1", "ann@adm1", "", 0.0, state=request, age_limit=limit, written=100.0)
        return request_refusal(asked, PublishedState(cluster, stops=stops), 100.0 + age)

    @pytest.mark.parametrize(
        ("state", "cluster"),
        [
            (RequestState(None, 3), Cluster(None)),
            (RequestState(None, 3), Cluster(None, importing=B)),
            (RequestState(False, 3), Cluster(False)),
            (RequestState(A, 3), Cluster(A)),
            (RequestState("initial", 3), None),
        ],
    )
    def test_one_that_answers_to_the_state_of_the_fleet_is_served(self, state, cluster):
        assert self.refusal(state, cluster) is None

    @pytest.mark.parametrize(
        ("state", "cluster", "message"),
        [
            (RequestState(None, 2), Cluster(None), "was stopped again after ann@adm1 had asked"),
            (RequestState(A, 3), Cluster(None), f"expected {A}, found null (stopped)"),
            (RequestState(None, 2), Cluster(A), f"expected null (stopped), found {A}"),
            (RequestState(7, 3), Cluster(False), "expected 7, found false (held)"),
            (None, Cluster(A), "the request of ann@adm1 lacks 'state'"),
        ],
    )
    def test_one_that_answers_to_another_state_is_not(self, state, cluster, message):
        assert message in str(self.refusal(state, cluster))

    def test_an_old_one_is_not_served(self):
        state = RequestState(None, 3)
        assert self.refusal(state, Cluster(None), age=60.0) is None
        assert "within 60 s, but it is 61 s old" in str(self.refusal(state, Cluster(None), age=61.0))
        assert "expired" in str(self.refusal(None, Cluster(None), age=61.0))


def deployed(*services: str, n: int = 1) -> tuple[Assignment, ...]:
    return tuple(Assignment(f"/who/{service}", n, "x", "x") for service in services)


def on_hosts(number: int, service: str = "web", n: int = 1) -> dict[str, tuple[Assignment, ...]]:
    return {f"h{host}": deployed(service, n=n) for host in range(number)}


def hosts(number: int, role: str | None = None) -> list[Identity]:
    return [Identity(f"h{host}", f"app{host}", role) for host in range(number)]


class TestRemoval:
    @pytest.mark.parametrize(
        ("number", "gone", "refused"),
        [(10, 3, False), (10, 4, True), (9, 8, False), (9, 9, True), (2, 1, False), (2, 2, True), (1, 1, False)],
    )
    @pytest.mark.parametrize("known", [0, 20])
    def test_more_than_three_in_ten_may_not_end_at_once(self, number: int, gone: int, refused: bool, known: int):
        before = on_hosts(number)
        fewer = {name: packages for name, packages in before.items() if name not in on_hosts(gone)}
        emptied = before | dict.fromkeys(on_hosts(gone), ())
        stopped = before | on_hosts(gone, n=0)
        for after in (fewer, emptied, stopped):
            assert (removal_refusal(A, before, after, hosts(known)) is not None) is refused

    def test_count_and_some_of_the_services_are_named(self):
        before = {"h1": deployed(*(f"s{i}" for i in range(10))), "h2": deployed("s0")}
        message = removal_refusal(A, before, {"h1": deployed("s7", "s8", "s9")}, hosts(0))
        assert message == (
            f"{A} is not published: it would end 8 of 11 deployments (/who/s0: 2, /who/s1: 1, /who/s2: 1,"
            " /who/s3: 1, /who/s4: 1, …), more than 30%; if that is a mistake, push a repair, or undo the push"
            " with 'zkdeployment rollback'; if it is meant, use"
            " 'zkdeployment resume --latest --allow-mass-removal'"
        )

    def test_fewer_instances_of_a_service_count(self):
        before, after = {"h1": deployed("web", n=10)}, {"h1": deployed("web", n=6)}
        assert removal_refusal(A, before, after, hosts(0))
        assert removal_refusal(A, before, {"h1": deployed("web", n=7)}, hosts(0)) is None

    def test_a_role_counts_as_many_times_as_it_has_hosts(self):
        before = {"web": deployed("web"), **{f"other{i}": deployed("db") for i in range(10)}}
        after = before | {"web": ()}
        assert removal_refusal(A, before, after, hosts(0)) is None
        assert "20 of 30 deployments" in str(removal_refusal(A, before, after, hosts(20, "web")))

    def test_deployments_to_the_same_hosts_by_another_name_do_not_end(self):
        by_id, by_name = on_hosts(10), {f"app{number}": deployed("web") for number in range(10)}
        assert removal_refusal(A, by_id, by_name, hosts(10)) is None
        assert removal_refusal(A, by_id, by_name, hosts(0)) is None

    @pytest.mark.parametrize("others", [0, 5, 50])
    def test_a_service_that_moves_to_other_known_hosts_ends_no_deployments(self, others: int):
        rest = {f"other{number}": deployed("db") for number in range(others)}
        before, after = on_hosts(4) | rest, {f"h{number}": deployed("web") for number in range(4, 8)} | rest
        assert removal_refusal(A, before, after, hosts(8)) is None
        roles = [*hosts(4, "old"), *(Identity(f"n{number}", f"new{number}", "new") for number in range(3))]
        assert removal_refusal(A, {"old": deployed("web")} | rest, {"new": deployed("web")} | rest, roles) is None

    @pytest.mark.parametrize("unknown", ["app{}.example.com", "lost{}"])
    def test_a_service_that_moves_from_known_hosts_to_unknown_targets_ends(self, unknown: str):
        after = {unknown.format(number): deployed("web") for number in range(4)}
        assert "end 4 of 4 deployments (/who/web: 4)" in str(removal_refusal(A, on_hosts(4), after, hosts(4)))
        assert removal_refusal(A, after, on_hosts(4), hosts(4)) is None

    def test_a_service_that_ends_whole_in_a_small_fleet_is_refused_beside_one_that_moves(self):
        before = {**on_hosts(4), **{f"h{number}": deployed("db") for number in range(4, 8)}}
        after = {f"h{number}": deployed("web") for number in range(4, 8)}
        assert "end 4 of 8 deployments (/who/db: 4)" in str(removal_refusal(A, before, after, hosts(8)))

    def test_another_type_is_not_an_end_and_controllers_are_not_deployments(self):
        before = {**on_hosts(2), "/roles/web": deployed("ctl"), "/roles/db": deployed("ctl")}
        other = (Assignment("/who/web", 1, "y", "y"),)
        assert removal_refusal(A, before, {"h0": other, "h1": other}, hosts(2)) is None

    def test_services_of_pruned_top_level_nodes_do_not_count(self):
        assert removal_refusal(A, on_hosts(2), {}, hosts(0), pruned={"/who", "/who/web"}) is None
        assert removal_refusal(A, on_hosts(2), {}, hosts(0), pruned={"/who/web"})


def with_services(number: int) -> Review:
    services = (f"  /s{one} : shop\n    version = '1'\n    /deploy\n      /h{one}\n" for one in range(number))
    return review([SourceFile("a.zk", f"/who\n{''.join(services)}".encode())])


@pytest.mark.parametrize(
    ("ordered", "live", "tip", "version", "refused"),
    [(4, 9, 4, "r1", None), (10, 8, 6, "r1", "4 of 10 deployments"), (4, 9, 4, "by hand", "5 of 9 deployments")],
    ids=["nothing of it ran", "in two steps", "hosts deploy the live tree"],
)
def test_after_an_interruption_the_deployments_count_that_hosts_were_ordered_to_have(
    ordered: int, live: int, tip: int, version: str, refused: str | None
):
    baseline = Baseline.of_live_tree(LiveTree(with_services(live).linted.tree), None, PublishedDocuments())
    baseline = replace(baseline, completed=with_services(ordered).targets)
    snapshot = PublicationSnapshot(Cluster(version, importing="r2"), Published(ordered="r1"))
    drafted = draft(with_services(tip), baseline, snapshot, revision="r3")
    refusal = draft_refusal(drafted, snapshot)
    assert refusal is None if refused is None else refused in str(refusal)
