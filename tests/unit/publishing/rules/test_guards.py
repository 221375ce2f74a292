from __future__ import annotations

import pytest

from zkdeployment.base.cluster import Cluster
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Identity
from zkdeployment.base.publication import Origin, Published
from zkdeployment.publishing.records import PublicationRequest, RequestState
from zkdeployment.publishing.rules.convergence import PublishedState
from zkdeployment.publishing.rules.verdicts import (
    date_refusal,
    predecessor,
    removal_refusal,
    request_refusal,
    rewind_refusal,
)

A, B, C = "a" * 40, "b" * 40, "c" * 40


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


class TestRewinding:
    def test_a_descendant_may_come(self):
        assert rewind_refusal(B, A, descends=True) is None

    def test_both_revisions_and_the_way_out_are_named(self):
        message = rewind_refusal(B, A, descends=False)
        assert message is not None
        assert all(word in message for word in (A, B, "--allow-rewind"))


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


class TestDates:
    def test_a_signed_commit_may_not_be_older_than_the_published_commit(self):
        message = date_refusal(B, Origin("me", "x", 90.0, "me SHA256:x"), Origin("you", "y", 100.0))
        assert message is not None
        assert "10 s before" in message
        assert date_refusal(B, Origin("me", "x", 100.0, "me SHA256:x"), Origin("you", "y", 100.0)) is None

    def test_without_signatures_clocks_do_not_matter(self):
        assert date_refusal(B, Origin("me", "x", 0.0), Origin("you", "y", 100.0)) is None


def deployed(*services: str, n: int = 1) -> tuple[Assignment, ...]:
    return tuple(Assignment(f"/who/{service}", n, "x", "x") for service in services)


def on_hosts(number: int, service: str = "web", n: int = 1) -> dict[str, tuple[Assignment, ...]]:
    return {f"h{host}": deployed(service, n=n) for host in range(number)}


def hosts(number: int, role: str | None = None) -> list[Identity]:
    return [Identity(f"h{host}", f"app{host}", role) for host in range(number)]


class TestRemoval:
    @pytest.mark.parametrize(
        ("number", "gone", "refused"),
        [(10, 3, False), (10, 4, True), (3, 1, False), (3, 2, True), (2, 2, True), (1, 1, False)],
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
            " /who/s3: 1, /who/s4: 1, …), more than 30%; if that is meant, use --allow-mass-removal"
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
        assert removal_refusal(A, by_id, by_name, hosts(0))

    def test_another_type_is_no_end_and_controllers_are_no_deployments(self):
        before = {**on_hosts(2), "/roles/web": deployed("ctl"), "/roles/db": deployed("ctl")}
        other = (Assignment("/who/web", 1, "y", "y"),)
        assert removal_refusal(A, before, {"h0": other, "h1": other}, hosts(2)) is None

    def test_services_of_pruned_top_level_nodes_do_not_count(self):
        assert removal_refusal(A, on_hosts(2), {}, hosts(0), pruned={"/who", "/who/web"}) is None
        assert removal_refusal(A, on_hosts(2), {}, hosts(0), pruned={"/who/web"})
