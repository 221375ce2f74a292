from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import make_host as host
from support.builders import make_known_host
from support.intents import CLUSTER, GROUP
from support.strategies import group, strategy
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.errors import TreeError
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import KnownHost
from zkdeployment.base.publication import OrderEntry, Origin, Published
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.collection import PublishedDocuments
from zkdeployment.documents.edits import render_document
from zkdeployment.publishing.records import (
    MOST_VERSIONS,
    ForcedBy,
    Publication,
    PublicationRecord,
    PublicationRequest,
    ServiceVersion,
    SyncOptions,
)
from zkdeployment.publishing.rules.changes import (
    Baseline,
    PreparedPublication,
    changed_versions,
    draft,
    is_repetition_of,
    require_publishable,
)
from zkdeployment.publishing.rules.convergence import PublicationSnapshot
from zkdeployment.publishing.rules.decision import Publish
from zkdeployment.publishing.rules.review import review
from zkdeployment.strategies.documents import StrategyChange
from zkdeployment.tree.values import LiveTree, Tree, TreeChange

TREE = """\
/who
  /web : shop
    version = '1.0'
    /deploy
      /h1
"""


def reviewed(text: str, layer: str | None = None):
    layers = [] if layer is None else [SourceFile("b.zkx", layer.encode())]
    return review([SourceFile("a.zk", text.encode()), *layers])


def drafted(
    text: str, live: LiveTree, hosts: tuple[Host, ...] = (), *, managed: tuple[str, ...] = (), **more: bool
):
    snapshot = PublicationSnapshot(Cluster("r1"), Published("r1", managed=frozenset(managed)), hosts=hosts)
    return draft(reviewed(text), over(live), snapshot, revision="r2", **more)


EMPTY = LiveTree(Tree({}))


def over(live: LiveTree) -> Baseline:
    return Baseline.of_live_tree(live, None, PublishedDocuments())


def test_a_first_publication_creates_the_tree_and_its_targets():
    made = drafted(TREE, EMPTY)
    assert made.revision == "r2"
    assert list(made.change.create) == ["/who", "/who/web", "/who/web/deploy", "/who/web/deploy/h1"]
    assert [(name, assignments[0].path) for name, assignments in made.targets.items()] == [("h1", "/who/web")]
    assert made.sentence == "nodes: 4 added; targets: 1 changed"
    assert list(made.describe())[-1] == "target h1"


def test_only_differences_are_written_against_the_versions_that_were_read():
    live = Tree(
        {
            "/who": {},
            "/who/web": {"type": "shop", "version": "0.9"},
            "/who/web/deploy": {},
            "/who/web/deploy/h1": {},
            "/who/web/deploy/h2": {},
            "/other": {"x": 1},
        }
    )
    versions = dict.fromkeys(live.nodes, 3)
    made = drafted(TREE, LiveTree(live, versions))
    assert made.change == TreeChange(
        update={"/who/web": {"type": "shop", "version": "1.0"}}, delete=frozenset({"/who/web/deploy/h2"})
    )
    assert made.affected == ("h1", "h2")
    assert list(made.describe()) == [
        "/who/web change property version from '0.9' to '1.0'",
        "delete /who/web/deploy/h2",
        "target h1",
        "target h2",
    ]
    assert made.sentence == "nodes: 1 changed, 1 deleted; targets: 2 changed"


def test_a_tree_that_is_live_changes_nothing():
    live = drafted(TREE, EMPTY).change.create
    assert drafted(TREE, LiveTree(Tree(live))).sentence == "nodes: no change; targets: 0 changed"


def test_nodes_with_ephemeral_ones_below_stay():
    live = Tree({"/who": {}, "/who/old": {"type": "x"}, "/who/old/providers": {}})
    made = drafted(TREE, LiveTree(live, dict.fromkeys(live.nodes, 0), frozenset({"/who/old/providers"})))
    assert made.change.delete == frozenset()


def test_targets_of_foreign_nodes_are_compiled_too():
    live = Tree(
        {
            "/foreign": {"type": "tool", "version": "2"},
            "/foreign/deploy": {},
            "/foreign/deploy/h1": {},
        }
    )
    targets = drafted(TREE, LiveTree(live, dict.fromkeys(live.nodes, 0))).targets
    assert [assignment.package for assignment in targets["h1"]] == ["tool", "shop"]


def test_bare_role_lock_nodes_of_the_text_are_asked_for():
    made = drafted(TREE + "/role-locks\n  /web\n", EMPTY)
    assert made.roles == {"web"}
    assert "/role-locks" not in made.change.create


def test_a_conflict_with_a_foreign_node_is_an_error_with_its_place():
    live = Tree(
        {"/foreign": {"type": "shop", "version": "2"}, "/foreign/deploy": {}, "/foreign/deploy/h1": {}},
    )
    with pytest.raises(TreeError, match="is not published, for 1 error:") as error:
        drafted(TREE, LiveTree(live, dict.fromkeys(live.nodes, 0)))
    assert "/foreign" in str(error.value)
    assert "shop" in str(error.value)


def test_a_conflict_that_only_a_registered_host_has_is_an_error():
    with pytest.raises(TreeError, match="r2 is not published"):
        drafted(TREE, EMPTY, (host("h1", "r1", role="db"),))


def test_a_conflict_of_an_absent_host_is_an_error_with_the_command_to_forget_the_host():
    text = "".join(
        f"/{name} : foo\n  version = '{version}'\n  /deploy\n    /{target}\n"
        for name, version, target in (("a", 1, "h1"), ("b", 2, "app1"))
    )
    absent = PublicationSnapshot(Cluster("r1"), absent=[make_known_host(1)])
    with pytest.raises(
        TreeError, match=r"foo 2 for /b and foo 1 .*; app1 \(h1\) is absent; .*'zkdeployment forget h1'"
    ):
        draft(reviewed(text), over(EMPTY), absent, revision="r2")
    elsewhere = PublicationSnapshot(Cluster("r1"), absent=[KnownHost(Identity("h2", "app1"))])
    assert draft(reviewed(text), over(EMPTY), elsewhere, revision="r2").affected == ("app1", "h1")


def test_warnings_are_kept():
    made = drafted(TREE + "/x\n  y -> /elsewhere\n", EMPTY)
    assert [str(problem) for problem in made.warnings]


def test_new_targets_that_no_known_host_serves_cause_a_warning_once():
    text = "/who\n  /myfoo : foo\n    version = '1.0'\n    /deploy\n      /h1\n      /app9\n"
    snapshot = PublicationSnapshot(Cluster("r1"), hosts=[Host(Identity("h1", "app1"))])
    made = draft(reviewed(text), over(EMPTY), snapshot, revision="r2")
    assert [problem.message for problem in made.warnings] == [
        "no host runs what the tree deploys to app9; correct the name, or install the host"
    ]
    again = draft(reviewed(text + "/x\n"), Baseline.of_text(reviewed(text)), snapshot, revision="r2")
    assert again.warnings == ()
    system = "/os : system\n  release = '1'\n  /deploy\n    /wbe\n/roles\n  /db : ctl\n    version = '1'\n"
    made = draft(reviewed(system), over(EMPTY), snapshot, revision="r2")
    assert [problem.message for problem in made.warnings] == [
        "no host runs what the tree deploys to wbe; correct the name, or install the host"
    ]


def test_a_top_level_node_that_deploys_but_no_longer_has_a_file_causes_a_warning():
    live = {**drafted(TREE, EMPTY).change.create, "/data": {"x": 1}}
    made = drafted("/new\n", LiveTree(Tree(live), dict.fromkeys(live, 0)))
    assert made.change.delete == frozenset()
    assert [problem.path for problem in made.warnings] == ["/who"]
    assert "/who is in no file and stays unchanged" in str(made.warnings[0])
    emptied = drafted("/who\n", LiveTree(Tree(live), dict.fromkeys(live, 0)))
    assert emptied.warnings == ()
    assert emptied.affected == ("h1",)


def live_of(text: str, **more: dict[str, object]) -> LiveTree:
    nodes = {**drafted(text, EMPTY).change.create, **more}
    return LiveTree(Tree(nodes), dict.fromkeys(nodes, 0))


class TestOrphanedTopLevelNodes:
    live = live_of(TREE + "/data\n  x = 1\n")

    def test_it_is_reported_and_stays(self):
        made = drafted("/new\n", self.live, managed=("/who", "/data"))
        assert made.change.delete == frozenset()
        data, who = map(str, made.warnings)
        stays = "is in no file any more and stays unchanged"
        ending = ", with all it deploys; to end that, put it into one, empty"
        assert data == f"warning: /data {stays}; 'zkdeployment sync --prune' removes it"
        assert who == f"warning: /who {stays}{ending}; 'zkdeployment sync --prune' removes it"
        assert made.managed == {"/new", "/who", "/data"}

    def test_pruning_removes_it_with_all_below(self):
        made = drafted("/new\n", self.live, managed=("/who", "/data"), prune=True)
        assert made.change.delete == self.live.tree.nodes.keys()
        assert made.managed == {"/new"}
        assert made.affected == ("h1",)
        assert made.warnings == ()

    def test_unmanaged_nodes_are_never_pruned(self):
        made = drafted("/new\n", self.live, managed=("/data",), prune=True)
        assert made.change.delete == {"/data"}
        assert made.managed == {"/new"}

    @pytest.mark.parametrize(("managed", "verb"), [("/who", "sync --prune"), ("/other", "tree rm")])
    def test_a_signed_publication_names_the_verb_that_removes_their_services(self, managed: str, verb: str):
        snapshot = PublicationSnapshot(Cluster("r1"), Published("r1", managed=frozenset({managed})))
        signed = review([SourceFile("a.zk", b"/new\n")], signed=True)
        with pytest.raises(TreeError, match=f"/who/web: .*or remove them with 'zkdeployment {verb}'$"):
            draft(signed, over(self.live), snapshot, revision="r2")

    def test_nodes_above_ephemeral_nodes_are_not_pruned(self):
        live = LiveTree(self.live.tree, self.live.versions, frozenset({"/who", "/who/web"}))
        made = drafted("/new\n", live, managed=("/who", "/data"), prune=True)
        assert made.change.delete == {"/data", "/who/web/deploy", "/who/web/deploy/h1"}
        assert made.managed == {"/new", "/who"}

    def test_nodes_that_a_layer_still_names_are_not_pruned(self):
        snapshot = PublicationSnapshot(Cluster("r1"), Published("r1", managed=frozenset({"/data"})))
        made = draft(reviewed("/new\n", "/data\n"), over(self.live), snapshot, revision="r2", prune=True)
        assert made.change.delete == frozenset()
        assert made.managed == {"/new", "/data"}

    def test_nodes_of_an_unfinished_publication_are_removed_unless_a_file_has_them(self):
        live = live_of(TREE + "/data\n/half\n  /x : foo-1\n    /deploy\n      /h1\n")
        left = Published(None, managed=frozenset({"/who", "/data", "/half"}), begun=frozenset({"/who", "/half"}))
        made = draft(
            reviewed(TREE), over(live), PublicationSnapshot(Cluster("r1", importing="r2"), left), revision="r3"
        )
        gone = {"/half", "/half/x", "/half/x/deploy", "/half/x/deploy/h1"}
        assert made.change.delete == gone
        assert [service.path for service in made.targets["h1"]] == ["/who/web"]
        assert (made.managed, made.leftovers) == ({"/who", "/data"}, frozenset())

    def test_leftovers_above_ephemeral_nodes_are_recorded(self):
        live = LiveTree(live_of(TREE + "/half\n  /x\n").tree, {}, frozenset({"/half", "/half/x"}))
        left = Published(None, managed=frozenset({"/half"}), begun=frozenset({"/half"}))
        made = draft(
            reviewed(TREE), over(live), PublicationSnapshot(Cluster("r1", importing="r2"), left), revision="r3"
        )
        assert made.leftovers == {"/half"}


class TestWhetherTheLiveTreeIsTheText:
    def test_it_is_after_a_first_publication(self):
        assert drafted(TREE, EMPTY).exact == reviewed(TREE).fingerprint

    def test_foreign_nodes_without_deployments_do_not_count(self):
        assert drafted(TREE, LiveTree(Tree({"/foreign": {"x": 1}}), {"/foreign": 0})).exact is not None

    def test_nodes_of_others_that_deploy_something_count(self):
        nodes = {"/foreign": {"type": "tool-2"}, "/foreign/deploy": {}, "/foreign/deploy/h7": {}}
        assert drafted(TREE, LiveTree(Tree(nodes), dict.fromkeys(nodes, 0))).exact is None

    def test_links_that_lead_out_of_the_text_count(self):
        live = LiveTree(Tree({"/versions": {"shop": "1.0"}}), {"/versions": 0})
        made = drafted(TREE.replace("version = '1.0'", "version => /versions shop"), live)
        assert made.targets["h1"][0].version == "1.0"
        assert made.exact is None

    def test_nodes_kept_for_ephemeral_nodes_count(self):
        live = live_of(TREE)
        made = drafted("/who\n", LiveTree(live.tree, live.versions, frozenset({"/who/web"})))
        assert made.exact is None

    def test_nodes_that_a_layer_left_count(self):
        snapshot = PublicationSnapshot(Cluster("r1"))
        live = LiveTree(Tree({"/extra": {"a": 1}}), {"/extra": 0})
        assert draft(reviewed(TREE, "/extra\n  b = 2\n"), over(live), snapshot, revision="r2").exact is None
        made = draft(reviewed(TREE, "/extra\n  a = 2\n"), over(live), snapshot, revision="r2")
        assert made.exact is not None


class TestOverText:
    snapshot = PublicationSnapshot(Cluster("r1"), Published("r1"))

    def test_it_is_the_same_as_over_the_live_tree(self):
        last, new = reviewed(TREE), reviewed(TREE.replace("1.0", "1.1") + "/role-locks\n  /web\n")
        made = draft(new, Baseline.of_text(last), self.snapshot, revision="r2")
        whole = draft(new, over(live_of(TREE)), self.snapshot, revision="r2")
        assert made.change == whole.change
        assert made.targets == whole.targets
        assert made.roles == whole.roles
        assert made.exact == whole.exact == new.fingerprint
        assert (made.affected, made.sentence) == (whole.affected, whole.sentence)


ORIGIN = Origin("ann", "a subject", 5.0)


def decision_on(snapshot: PublicationSnapshot, options: SyncOptions = SyncOptions()) -> Publish:  # noqa: B008  it cannot be changed
    return Publish("r2", ORIGIN, snapshot, options, whole=True, optional=False, may_repeat=True)


class TestAPreparedPublication:
    snapshot = PublicationSnapshot(
        Cluster("r1"), Published("r1"), stops=4, hosts=[host("h1", "r1"), host("h2", "r1")]
    )

    def prepared(self, *, partial: bool) -> PreparedPublication:
        made = draft(reviewed(TREE.replace("1.0", "1.1")), over(live_of(TREE)), self.snapshot, revision="r2")
        return PreparedPublication(made, {"/who/web": 7, "/who": 3}, partial=partial)

    def built(self, *, partial: bool = False, options: SyncOptions = SyncOptions()) -> Publication:  # noqa: B008  it cannot be changed
        decision = decision_on(self.snapshot, options)
        return self.prepared(partial=partial).build(decision, sequence=9, now=100.0)

    def test_depends_on_the_snapshot_and_on_the_versions_of_the_nodes_that_change(self):
        publication = self.built()
        assert (publication.expected, publication.stops) == (Cluster("r1"), 4)
        assert publication.published == Published("r1")
        assert publication.versions == {"/who/web": 7}
        assert publication.touched is None

    def test_over_a_text_only_the_affected_targets_can_differ(self):
        publication = self.built(partial=True)
        assert publication.touched == {"h1"}

    def test_records_who_asked_for_it_and_carries_out_the_request(self):
        forced = ForcedBy("me@here", "it burns")
        request = PublicationRequest("id-1", "me@here", "it burns", 90.0)
        options = SyncOptions(force=True, forced=forced, request=request)
        publication = self.built(options=options)
        assert (publication.sequence, publication.request) == (9, "id-1")
        versions = (ServiceVersion("/who/web", "1.1"),)
        assert publication.record == PublicationRecord(
            "r2", 100.0, origin=ORIGIN, forced=forced, nodes=1, versions=versions
        )


def assigned(path, version, n=1):
    return Assignment(path, n, f"{path[1:]}-app", "app", version=version)


def test_a_record_has_the_versions_of_the_services_that_change():
    before = {"a": (assigned("/x", "1"), assigned("/y", "1")), "b": (assigned("/x", "1"), assigned("/z", "3"))}
    after = {"a": (assigned("/x", "2"), assigned("/y", "1")), "b": (assigned("/x", "2"), assigned("/w", None))}
    after |= {"/roles/a": (assigned("/roles/a", "9"),), "c": (assigned("/off", "1", 0),)}
    assert changed_versions(before, after, before.keys() | after.keys()) == (
        ServiceVersion("/w", "w-app"),
        ServiceVersion("/x", "2"),
        ServiceVersion("/z", ""),
    )
    many = {"a": tuple(assigned(f"/s{number:03}", "1") for number in range(MOST_VERSIONS + 1))}
    assert [each.path for each in changed_versions({}, many, many)][-1] == f"/s{MOST_VERSIONS - 1:03}"
    assert changed_versions(before, before, before) == ()


#: For each of three services: its version before and after, and its instances on the targets a, b and c before and
#: after; ``None``: the target does not have the service.
SERVICE = st.tuples(
    *[st.sampled_from(["1", "2"])] * 2, *[st.lists(st.sampled_from([None, 0, 1, 2]), min_size=3, max_size=3)] * 2
)


@given(st.lists(SERVICE, min_size=3, max_size=3))
def test_the_affected_targets_are_enough_to_find_the_versions_that_change(services):
    def targets(version, instances):
        made = {
            name: tuple(
                assigned(f"/s{number}", service[version], n)
                for number, service in enumerate(services)
                if (n := service[instances][place]) is not None
            )
            for place, name in enumerate("abc")
        }
        return {name: assignments for name, assignments in made.items() if assignments}

    before, after = targets(0, 2), targets(1, 3)
    affected = {name for name in "abc" if before.get(name) != after.get(name)}
    expected = [
        ServiceVersion(f"/s{number}", new)
        for number, service in enumerate(services)
        if (new := service[1] if any(service[3]) else "") != (service[0] if any(service[2]) else "")
    ]
    assert changed_versions(before, after, affected) == tuple(expected)


def test_all_errors_of_a_text_forbid_its_publication():
    with pytest.raises(TreeError) as error:
        require_publishable(reviewed("/who\n  x = \n  y = open('f')\n").problems, "r2")
    first, *problems = str(error.value).splitlines()
    assert first == "the tree of revision r2 is not published, for 2 errors:"
    assert [problem.split(":")[:2] for problem in problems] == [["  a.zk", "2"], ["  a.zk", "3"]]


QUARANTINE = """\
schema: zkdeployment/Quarantine/v1
metadata: {name: shop, version: 2.0}
data: {reason: loses orders, by: alice, time: 2026-11-22}
"""


def with_documents(tree: str, *documents: str):
    files = [SourceFile(f"{number}.yaml", text.encode()) for number, text in enumerate(documents)]
    return review([SourceFile("a.zk", tree.encode()), *files])


def test_documents_are_part_of_a_draft_and_concern_no_host():
    last, now = with_documents(TREE), with_documents(TREE, QUARANTINE)
    made = draft(now, Baseline.of_text(last), PublicationSnapshot(Cluster("r1")), revision="r2")
    assert made.sentence == "nodes: no change; targets: 0 changed; documents: 1 changed"
    assert list(made.describe()) == ["add quarantine shop 2.0"]
    assert made.documents.to_json() == [{"change": "add", "kind": "quarantine", "subject": ["shop", "2.0"]}]
    assert not made.concerns_hosts
    back = draft(last, Baseline.of_text(now), PublicationSnapshot(Cluster("r1")), revision="r3")
    assert list(back.describe()) == ["delete quarantine shop 2.0"]


def test_the_intents_of_a_draft_are_counted_without_other_documents():
    group, cluster = (render_document(intent.to_document()) for intent in (GROUP, CLUSTER))
    made = draft(
        with_documents(TREE, QUARANTINE, group, cluster), over(EMPTY), PublicationSnapshot(None), revision="r1"
    )
    assert (len(made.documents.after), made.governance.after.size) == (3, 2)


def test_a_version_is_refused_by_the_documents_before_and_by_those_after_the_change():
    snapshot = PublicationSnapshot(Cluster("r1"))
    before, bad = Baseline.of_text(with_documents(TREE, QUARANTINE)), TREE.replace("1.0", "2.0")
    with pytest.raises(
        TreeError, match=r"a\.zk:2:3: /who/web: shop 2\.0 is quarantined by alice since 2026-11-22: loses"
    ):
        draft(with_documents(bad, QUARANTINE), before, snapshot, revision="r2")
    with pytest.raises(TreeError, match="removes the quarantine and wants the version at once"):
        draft(with_documents(bad), before, snapshot, revision="r2")
    assert draft(with_documents(bad), Baseline.of_text(with_documents(TREE)), snapshot, revision="r2").affected


def test_a_draft_repeats_the_publication_before_it_only_if_that_is_known_to_be_complete():
    last, now = with_documents(TREE), with_documents(TREE, QUARANTINE)
    published = PublicationSnapshot(Cluster("r1"), Published("r1", sequence=5))
    made = draft(now, Baseline.of_text(last), published, revision="r2")
    assert is_repetition_of(last, now, made, published)
    assert not is_repetition_of(None, now, made, published)
    governed = strategy(group("x"))
    under_strategy = replace(made, strategy=StrategyChange(governed, governed))
    assert not is_repetition_of(last, now, under_strategy, published), "its rollout is not known to be completed"
    assert not is_repetition_of(last, now, made, PublicationSnapshot(Cluster("r1"), Published(sequence=5)))
    changed = with_documents(TREE.replace("1.0", "1.1"))
    other = draft(changed, Baseline.of_text(last), published, revision="r2")
    assert not is_repetition_of(last, changed, other, published)
    # The live tree equals the new text already, by hand; hosts have deployed the old text.
    by_hand = Baseline.of_live_tree(LiveTree(changed.linted.tree), None, PublishedDocuments())
    assert not is_repetition_of(last, changed, draft(changed, by_hand, published, revision="r2"), published)


def test_the_order_between_services_is_part_of_the_publication():
    before = "/who\n  /db : shop\n    version = '1'\n    undeploy = 'last'\n    /deploy\n      /h1\n"
    after = before.replace("/h1", "/h2") + "  /web : shop\n    version = '1'\n    deploy_after = ['/who/db']\n"
    after += "    /deploy\n      /h1\n"
    live = LiveTree(reviewed(before).linted.tree)
    hosts = (host("h1", "r1"), host("h2", "r1"))
    made = drafted(after, live, hosts)
    assert made.order.entries == {"/who/db": OrderEntry(("h2",), ("h2",))}
    assert made.order.waiting == {"/who/db": {("h1", "/who/db"), ("h1", "/who/web")}}
    decision = decision_on(PublicationSnapshot(Cluster("r1"), hosts=hosts))
    publication = PreparedPublication(made).build(decision, sequence=7, now=7.0)
    assert publication.order == made.order.entries


def test_hosts_gain_services_that_only_an_interrupted_publication_has_written():
    before = "/who\n  /db : shop\n    version = '1'\n    undeploy = 'last'\n    /deploy\n      /h1\n"
    after = before.replace("/h1", "/h2")
    completed = reviewed(before).targets
    baseline = replace(over(LiveTree(reviewed(after).linted.tree)), completed=completed)
    snapshot = PublicationSnapshot(Cluster("r1"), Published(), hosts=(host("h1", "r1"), host("h2", "r1")))
    made = draft(reviewed(after), baseline, snapshot, revision="r2")
    assert made.order.entries == {"/who/db": OrderEntry(("h2",), ("h2",))}
