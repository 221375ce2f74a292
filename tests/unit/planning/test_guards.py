from __future__ import annotations

import pytest

from zkdeployment.model.cluster import Cluster
from zkdeployment.model.origin import Origin
from zkdeployment.model.publication import Published, TreeChange
from zkdeployment.model.tree import Tree
from zkdeployment.planning.guards import date_refusal, predecessor, removal_refusal, rewind_refusal
from zkdeployment.planning.publishing import Standing

A, B, C = "a" * 40, "b" * 40, "c" * 40


def services(number: int) -> Tree:
    nodes: dict[str, dict[str, object]] = {"/who": {}, "/who/other": {"type": "x 1"}, "/deploy": {}}
    for i in range(number):
        nodes |= {f"/who/s{i}": {"type": "x"}, f"/who/s{i}/deploy": {}, f"/who/s{i}/deploy/h1": {}}
    return Tree(nodes)  # type: ignore[arg-type]


def removing(*names: str) -> TreeChange:
    paths = {f"/who/{name}{rest}" for name in names for rest in ("", "/deploy", "/deploy/h1")}
    return TreeChange(delete=frozenset(paths))


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
    def test_it_is_what_was_published_last_or_is_being_published(self, cluster, published, expected):
        assert predecessor(Standing(cluster, Published(revision=published))) == expected

    @pytest.mark.parametrize(
        ("cluster", "expected"),
        [(None, A), (Cluster(None), A), (Cluster("by hand"), A), (Cluster(B), B), (Cluster(None, importing=B), B)],
    )
    def test_what_was_published_last_is_known_also_after_an_import_by_hand(self, cluster, expected):
        assert predecessor(Standing(cluster, Published(ordered=A))) == expected


class TestRewinding:
    def test_a_descendant_may_come(self):
        assert rewind_refusal(B, A, descends=True) is None

    def test_both_revisions_and_the_way_out_are_named(self):
        words = rewind_refusal(B, A, descends=False)
        assert words is not None
        assert all(word in words for word in (A, B, "--allow-rewind"))


class TestDates:
    def test_a_signed_commit_may_not_be_older_than_what_is_published(self):
        words = date_refusal(B, Origin("me", "x", 90.0, "me SHA256:x"), Origin("you", "y", 100.0))
        assert words is not None
        assert "10 s before" in words
        assert date_refusal(B, Origin("me", "x", 100.0, "me SHA256:x"), Origin("you", "y", 100.0)) is None

    def test_without_signatures_clocks_do_not_matter(self):
        assert date_refusal(B, Origin("me", "x", 0.0), Origin("you", "y", 100.0)) is None


class TestRemoval:
    @pytest.mark.parametrize(
        ("number", "gone", "refused"),
        [(10, 3, False), (10, 4, True), (3, 1, False), (3, 2, True), (2, 2, True), (1, 1, False)],
    )
    def test_more_than_three_in_ten_may_not_go_at_once(self, number: int, gone: int, refused: bool):
        change = removing(*(f"s{i}" for i in range(gone)))
        assert (removal_refusal(A, services(number), change) is not None) is refused

    def test_count_and_some_of_them_are_named(self):
        words = removal_refusal(A, services(10), removing(*(f"s{i}" for i in range(7))))
        assert words == (
            f"{A} is not published: it would remove 7 of 10 service nodes (/who/s0, /who/s1, /who/s2, /who/s3,"
            " /who/s4, …), more than 30%; if that is meant, use --allow-mass-removal"
        )

    @pytest.mark.parametrize(
        "change",
        [
            TreeChange(delete=frozenset({f"/who/s{i}/deploy{end}" for i in (0, 1) for end in ("", "/h1")})),
            TreeChange(update={f"/who/s{i}": {"version": "1"} for i in (0, 1)}),
        ],
        ids=["deploy", "type"],
    )
    def test_a_service_ends_also_with_what_makes_it_one(self, change: TreeChange):
        assert removal_refusal(A, services(2), change)

    def test_what_stays_a_service_and_what_is_none_does_not_count(self):
        change = TreeChange(
            update={f"/who/s{i}": {"type =>": "/who/other type"} for i in (0, 1)} | {"/who/other": {}},
            delete=frozenset({"/who/s0/deploy/h1"}),
        )
        assert removal_refusal(A, services(2), change) is None
        assert removal_refusal(A, services(0), TreeChange(delete=frozenset({"/who/other"}))) is None

    def test_a_top_level_node_goes_only_because_somebody_asked_for_it(self):
        gone = removing("s0", "s1").delete | {"/who", "/who/other"}
        assert removal_refusal(A, services(2), TreeChange(delete=gone)) is None
