from __future__ import annotations

import pytest

from zkdeployment.errors import TreeError
from zkdeployment.model.cluster import INITIAL, Cluster, Revision
from zkdeployment.model.host import Host, Identity
from zkdeployment.model.inventory import KnownHost
from zkdeployment.model.publication import LiveNode, LiveTree, Published, TreeChange
from zkdeployment.model.source_files import SourceFile
from zkdeployment.model.tree import Tree
from zkdeployment.planning import publishing
from zkdeployment.planning.publishing import (
    PublicationVerdict,
    PublishedState,
    draft,
    draft_over_text,
    is_stopped,
)
from zkdeployment.planning.review import review

TREE = """\
/who
  /web : shop
    version = '1.0'
    /deploy
      /h1
"""


def host(host_id: str, version: str | None, role: str | None = None) -> Host:
    return Host(Identity(host_id, f"{host_id}.example.com", role), version=version)


def decide(cluster: Cluster | None, hosts: list[Host], *, published: Revision | None, **how) -> PublicationVerdict:
    return publishing.judge(PublishedState(cluster, Published(published), hosts), **how)


AT_R1, AT_R0, NEW = host("a", "r1"), host("b", "r0"), host("c", None)


@pytest.mark.parametrize(
    ("cluster", "hosts", "published", "force", "verdict"),
    [
        (None, [], None, False, PublicationVerdict.PUBLISH),
        (Cluster(INITIAL), [], None, False, PublicationVerdict.PUBLISH),
        (Cluster(INITIAL), [NEW], None, False, PublicationVerdict.NOT_CONVERGED),
        (Cluster("r1"), [AT_R1], "r1", False, PublicationVerdict.PUBLISH),
        (Cluster("r1"), [AT_R1, AT_R0], "r1", False, PublicationVerdict.NOT_CONVERGED),
        (Cluster("r1"), [AT_R1, NEW], "r1", False, PublicationVerdict.NOT_CONVERGED),
        (Cluster("r1"), [AT_R1, AT_R0], "r1", True, PublicationVerdict.PUBLISH),
        (Cluster("r2"), [AT_R1], "r2", False, PublicationVerdict.UP_TO_DATE),
        (Cluster("r2"), [AT_R1], "r2", True, PublicationVerdict.PUBLISH),
        (Cluster("r2"), [AT_R1], None, False, PublicationVerdict.PUBLISH),
        (Cluster("r2"), [AT_R1], "r1", False, PublicationVerdict.PUBLISH),
        (Cluster("r1", importing="r2"), [AT_R0], None, False, PublicationVerdict.PUBLISH),
        (Cluster("r2", importing="r2"), [AT_R0], None, False, PublicationVerdict.PUBLISH),
        (Cluster(None), [], "r1", False, PublicationVerdict.ALL_STOP),
        (Cluster(None), [], "r2", False, PublicationVerdict.ALL_STOP),
        (Cluster(None, importing="r2"), [], None, False, PublicationVerdict.ALL_STOP),
        (Cluster(None), [AT_R0], "r1", True, PublicationVerdict.PUBLISH),
        (Cluster(False), [AT_R0], "r1", False, PublicationVerdict.PUBLISH),
        (Cluster(False), [AT_R0], "r2", False, PublicationVerdict.PUBLISH),
    ],
)
def test_whether_the_tip_r2_is_published(
    cluster: Cluster | None, hosts: list[Host], published: str | None, force: bool, verdict: PublicationVerdict
):
    assert decide(cluster, hosts, tip="r2", published=published, force=force) is verdict


def test_a_hold_on_record_lasts_until_there_is_something_new():
    assert decide(Cluster(False), [AT_R0], tip="r1", published="r1", firm=True) is PublicationVerdict.UP_TO_DATE
    assert decide(Cluster(False), [AT_R0], tip="r2", published="r1", firm=True) is PublicationVerdict.PUBLISH
    assert decide(Cluster(False), [AT_R0], tip="r1", published=None, firm=True) is PublicationVerdict.PUBLISH
    assert (
        decide(Cluster(False), [AT_R0], tip="r1", published="r1", firm=True, force=True)
        is PublicationVerdict.PUBLISH
    )
    interrupted = Cluster(False, importing="r1")
    assert decide(interrupted, [AT_R0], tip="r1", published="r1", firm=True) is PublicationVerdict.PUBLISH


def test_revisions_may_be_numbers():
    assert decide(Cluster(7), [], tip=7, published=7) is PublicationVerdict.UP_TO_DATE
    assert decide(Cluster(7), [], tip=8, published=7) is PublicationVerdict.PUBLISH


def test_pruning_is_looked_into_at_the_published_tip_too():
    assert decide(Cluster("r2"), [], tip="r2", published="r2", prune=True) is PublicationVerdict.PUBLISH
    assert decide(Cluster("r2"), [AT_R1], tip="r2", published="r2", prune=True) is PublicationVerdict.NOT_CONVERGED
    assert decide(Cluster(None), [], tip="r2", published="r2", prune=True) is PublicationVerdict.ALL_STOP


def test_all_stop_is_known_before_there_is_a_tip():
    assert is_stopped(Cluster(None))
    assert not is_stopped(Cluster(None), force=True)
    assert not is_stopped(Cluster(False))
    assert not is_stopped(None)


def reviewed(text: str, layer: str | None = None):
    layers = [] if layer is None else [SourceFile("b.zkx", layer.encode())]
    return review([SourceFile("a.zk", text.encode()), *layers])


def drafted(
    text: str, live: LiveTree, hosts: tuple[Host, ...] = (), *, managed: tuple[str, ...] = (), **more: bool
):
    published_state = PublishedState(Cluster("r1"), Published("r1", managed=frozenset(managed)), hosts)
    return draft(reviewed(text), live, published_state, revision="r2", **more)


EMPTY = LiveTree(Tree({}))


def test_a_first_publication_creates_the_tree_and_its_targets():
    made = drafted(TREE, EMPTY)
    publication = made.publication
    assert publication.revision == "r2"
    assert publication.expected == Cluster("r1")
    assert list(publication.change.create) == ["/who", "/who/web", "/who/web/deploy", "/who/web/deploy/h1"]
    assert [(name, found[0].path) for name, found in publication.targets.items()] == [("h1", "/who/web")]
    assert made.sentence == "nodes: 4 added; targets: 1 changed"
    assert list(made.describe())[-1] == "target h1"


def test_only_what_differs_is_written_against_the_versions_that_were_read():
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
    assert made.publication.change == TreeChange(
        update={"/who/web": {"type": "shop", "version": "1.0"}}, delete=frozenset({"/who/web/deploy/h2"})
    )
    assert made.publication.versions == {"/who/web": 3, "/who/web/deploy/h2": 3}
    assert made.affected == ("h1", "h2")
    assert list(made.describe()) == [
        "/who/web change property version from '0.9' to '1.0'",
        "delete /who/web/deploy/h2",
        "target h1",
        "target h2",
    ]
    assert made.sentence == "nodes: 1 changed, 1 deleted; targets: 2 changed"


def test_a_tree_that_is_live_changes_nothing():
    live = drafted(TREE, EMPTY).publication.change.create
    assert drafted(TREE, LiveTree(Tree(live))).sentence == "nodes: no change; targets: 0 changed"


def test_nodes_with_ephemeral_ones_below_stay():
    live = Tree({"/who": {}, "/who/old": {"type": "x"}, "/who/old/providers": {}})
    made = drafted(TREE, LiveTree(live, dict.fromkeys(live.nodes, 0), frozenset({"/who/old/providers"})))
    assert made.publication.change.delete == frozenset()


def test_targets_of_foreign_nodes_are_compiled_too():
    live = Tree(
        {
            "/foreign": {"type": "tool", "version": "2"},
            "/foreign/deploy": {},
            "/foreign/deploy/h1": {},
        }
    )
    targets = drafted(TREE, LiveTree(live, dict.fromkeys(live.nodes, 0))).publication.targets
    assert [assignment.package for assignment in targets["h1"]] == ["tool", "shop"]


def test_bare_role_lock_nodes_of_the_text_are_asked_for():
    publication = drafted(TREE + "/role-locks\n  /web\n", EMPTY).publication
    assert publication.roles == {"web"}
    assert "/role-locks" not in publication.change.create


def test_all_errors_of_the_text_are_said():
    with pytest.raises(TreeError) as error:
        drafted("/who\n  x = \n  y = open('f')\n", EMPTY)
    first, *problems = str(error.value).splitlines()
    assert first == "the tree of revision r2 is not published, for 2 errors:"
    assert [problem.split(":")[:2] for problem in problems] == [["  a.zk", "2"], ["  a.zk", "3"]]


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


def test_a_conflict_that_only_an_absent_host_has_is_an_error_that_says_how_to_forget_the_host():
    text = "".join(
        f"/{name} : foo\n  version = '{version}'\n  /deploy\n    /{target}\n"
        for name, version, target in (("a", 1, "h1"), ("b", 2, "app1"))
    )
    absent = PublishedState(Cluster("r1"), absent=[KnownHost(Identity("h1", "app1"))])
    with pytest.raises(
        TreeError, match=r"foo 2 for /b and foo 1 .*; app1 \(h1\) is absent; .*'zkdeployment forget h1'"
    ):
        draft(reviewed(text), EMPTY, absent, revision="r2")
    elsewhere = PublishedState(Cluster("r1"), absent=[KnownHost(Identity("h2", "app1"))])
    assert draft(reviewed(text), EMPTY, elsewhere, revision="r2").affected == ("app1", "h1")


def test_warnings_are_kept():
    made = drafted(TREE + "/x\n  y -> /elsewhere\n", EMPTY)
    assert [str(problem) for problem in made.warnings]


def test_a_top_level_node_that_deploys_and_has_no_file_any_more_is_warned_of():
    live = {**drafted(TREE, EMPTY).publication.change.create, "/data": {"x": 1}}
    made = drafted("/new\n", LiveTree(Tree(live), dict.fromkeys(live, 0)))
    assert made.publication.change.delete == frozenset()
    assert [problem.path for problem in made.warnings] == ["/who"]
    assert "/who is in no file and stays as it is" in str(made.warnings[0])
    emptied = drafted("/who\n", LiveTree(Tree(live), dict.fromkeys(live, 0)))
    assert emptied.warnings == ()
    assert emptied.affected == ("h1",)


def live_of(text: str, **more: dict[str, object]) -> LiveTree:
    nodes = {**drafted(text, EMPTY).publication.change.create, **more}
    return LiveTree(Tree(nodes), dict.fromkeys(nodes, 0))


class TestWhatLostItsFile:
    live = live_of(TREE + "/data\n  x = 1\n")

    def test_it_is_reported_and_stays(self):
        made = drafted("/new\n", self.live, managed=("/who", "/data"))
        assert made.publication.change.delete == frozenset()
        data, who = map(str, made.warnings)
        stays = "is in no file any more and stays as it is"
        ending = ", with all it deploys; to end that, put it into one, empty"
        assert data == f"warning: /data {stays}; 'zkdeployment sync --prune' removes it"
        assert who == f"warning: /who {stays}{ending}; 'zkdeployment sync --prune' removes it"
        assert made.publication.managed == {"/new", "/who", "/data"}

    def test_pruning_removes_it_with_all_below(self):
        made = drafted("/new\n", self.live, managed=("/who", "/data"), prune=True)
        assert made.publication.change.delete == self.live.tree.nodes.keys()
        assert made.publication.managed == {"/new"}
        assert made.affected == ("h1",)
        assert made.warnings == ()

    def test_what_no_publication_managed_is_never_pruned(self):
        made = drafted("/new\n", self.live, managed=("/data",), prune=True)
        assert made.publication.change.delete == {"/data"}
        assert made.publication.managed == {"/new"}

    def test_what_is_above_ephemeral_nodes_is_not_pruned(self):
        live = LiveTree(self.live.tree, self.live.versions, frozenset({"/who", "/who/web"}))
        made = drafted("/new\n", live, managed=("/who", "/data"), prune=True)
        assert made.publication.change.delete == {"/data", "/who/web/deploy", "/who/web/deploy/h1"}
        assert made.publication.managed == {"/new", "/who"}

    def test_what_a_layer_still_names_is_not_pruned(self):
        published_state = PublishedState(Cluster("r1"), Published("r1", managed=frozenset({"/data"})))
        made = draft(reviewed("/new\n", "/data\n"), self.live, published_state, revision="r2", prune=True)
        assert made.publication.change.delete == frozenset()
        assert made.publication.managed == {"/new", "/data"}

    def test_what_only_an_unfinished_publication_made_is_removed_unless_a_file_has_it(self):
        live = live_of(TREE + "/data\n/half\n  /x : foo-1\n    /deploy\n      /h1\n")
        left = Published(None, managed=frozenset({"/who", "/data", "/half"}), begun=frozenset({"/who", "/half"}))
        made = draft(reviewed(TREE), live, PublishedState(Cluster("r1", importing="r2"), left), revision="r3")
        gone = {"/half", "/half/x", "/half/x/deploy", "/half/x/deploy/h1"}
        assert made.publication.change.delete == gone
        assert [service.path for service in made.publication.targets["h1"]] == ["/who/web"]
        assert (made.publication.managed, made.publication.leftovers) == ({"/who", "/data"}, frozenset())

    def test_what_of_it_is_above_ephemeral_nodes_is_kept_in_mind(self):
        live = LiveTree(live_of(TREE + "/half\n  /x\n").tree, {}, frozenset({"/half", "/half/x"}))
        left = Published(None, managed=frozenset({"/half"}), begun=frozenset({"/half"}))
        made = draft(reviewed(TREE), live, PublishedState(Cluster("r1", importing="r2"), left), revision="r3")
        assert made.publication.leftovers == {"/half"}

    def test_pruning_at_the_revision_that_hosts_have_says_that_they_take_it_up_later(self):
        published_state = PublishedState(Cluster("r2"), Published("r2", managed=frozenset({"/who"})))
        made = draft(reviewed("/new\n"), self.live, published_state, revision="r2", prune=True)
        assert "r2 is what hosts have already" in str(made.warnings[0])


class TestWhetherTheLiveTreeIsTheText:
    def test_it_is_after_a_first_publication(self):
        assert drafted(TREE, EMPTY).publication.exact == reviewed(TREE).fingerprint

    def test_nodes_of_others_that_deploy_nothing_do_not_count(self):
        assert drafted(TREE, LiveTree(Tree({"/foreign": {"x": 1}}), {"/foreign": 0})).publication.exact is not None

    def test_nodes_of_others_that_deploy_something_count(self):
        nodes = {"/foreign": {"type": "tool-2"}, "/foreign/deploy": {}, "/foreign/deploy/h7": {}}
        assert drafted(TREE, LiveTree(Tree(nodes), dict.fromkeys(nodes, 0))).publication.exact is None

    def test_links_that_lead_out_of_the_text_count(self):
        live = LiveTree(Tree({"/versions": {"shop": "1.0"}}), {"/versions": 0})
        made = drafted(TREE.replace("version = '1.0'", "version => /versions shop"), live)
        assert made.publication.targets["h1"][0].version == "1.0"
        assert made.publication.exact is None

    def test_what_ephemeral_nodes_keep_counts(self):
        live = live_of(TREE)
        made = drafted("/who\n", LiveTree(live.tree, live.versions, frozenset({"/who/web"})))
        assert made.publication.exact is None

    def test_what_a_layer_left_counts(self):
        published_state = PublishedState(Cluster("r1"))
        live = LiveTree(Tree({"/extra": {"a": 1}}), {"/extra": 0})
        assert (
            draft(reviewed(TREE, "/extra\n  b = 2\n"), live, published_state, revision="r2").publication.exact
            is None
        )
        made = draft(reviewed(TREE, "/extra\n  a = 2\n"), live, published_state, revision="r2")
        assert made.publication.exact is not None


class TestOverText:
    published_state = PublishedState(Cluster("r1"), Published("r1"))

    def test_it_is_the_same_as_over_the_live_tree(self):
        last, new = reviewed(TREE), reviewed(TREE.replace("1.0", "1.1") + "/role-locks\n  /web\n")
        made = draft_over_text(new, last, self.published_state, revision="r2")
        whole = draft(new, live_of(TREE), self.published_state, revision="r2")
        assert made.publication.change == whole.publication.change
        assert made.publication.targets == whole.publication.targets
        assert made.publication.roles == whole.publication.roles
        assert made.publication.exact == whole.publication.exact == new.fingerprint
        assert (made.affected, made.sentence) == (whole.affected, whole.sentence)

    def test_it_depends_on_the_versions_that_were_found_and_on_its_own_targets_alone(self):
        new = reviewed(TREE.replace("1.0", "1.1"))
        made = draft_over_text(new, reviewed(TREE), self.published_state, revision="r2")
        publication = made.over({"/who/web": LiveNode({}, 7), "/who": LiveNode({}, 3)}).publication
        assert publication.versions == {"/who/web": 7}
        assert publication.touched == {"h1"}

    def test_errors_of_the_text_are_errors(self):
        with pytest.raises(TreeError, match="for 1 error"):
            draft_over_text(reviewed("/who\n  x = \n"), reviewed(TREE), self.published_state, revision="r2")
