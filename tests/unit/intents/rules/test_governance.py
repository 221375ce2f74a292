"""Which services intents govern, which of them are withheld, and what lint refuses."""

from dataclasses import replace

from support.trees import tree_of
from zkdeployment.intents.documents import ClusterIntents, DeploymentIntentGroup, IntentState
from zkdeployment.intents.rules.governance import (
    IntentGovernance,
    governance_faults,
    governed_services,
    idle_paths,
    withheld_services,
)
from zkdeployment.publishing.targets.compilation import compile_tree
from zkdeployment.publishing.targets.compiler import (
    compile_targets,
    withheld_from_json,
    withheld_to_json,
    without_withheld,
)
from zkdeployment.tree.parse import parse

TREE = """\
/p1
  /shop
    /front : front
      version = '1'
      /deploy
        /web
          n = 2
        /host1
    /db : db
      version = '1'
      /deploy
        /db-server
/net
  /vlan12 : vlan
    version = '1'
    /deploy
      /web
      /host1
/roles
  /web : controller
    version = '1'
"""
SHOP = DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", {"all": ("/p1/shop",)})
WEB = ClusterIntents("ams", "web", {"vlan12": ("/net/vlan12",)})


def compiled():
    tree = parse("t.zk", TREE).tree
    targets, problems = compile_targets(tree)
    assert problems == ()
    return tree, targets


def keys(services):
    return [(service.app, *service.key) for service in services]


def test_a_group_governs_its_subtrees_for_all_targets_and_a_cluster_its_nodes_for_one():
    _, targets = compiled()
    governed = governed_services([SHOP, WEB], targets)
    assert keys(governed[SHOP.subject]) == [
        ("all", "/p1/shop/db", "db-server"),
        ("all", "/p1/shop/front", "host1"),
        ("all", "/p1/shop/front", "web"),
    ]
    assert keys(governed[WEB.subject]) == [("vlan12", "/net/vlan12", "web")]


def test_intents_neither_govern_nor_withhold_system_nodes():
    nodes = {"/p1/shop/os": {"type": "system", "release": "1"}, "/p1/shop/os/deploy/web": {}}
    tree = tree_of({**parse("t.zk", TREE).tree.nodes, **nodes})
    with_system = compile_tree(tree, IntentGovernance((SHOP, WEB)))
    assert with_system.withheld == compile_tree(compiled()[0], IntentGovernance((SHOP, WEB))).withheld
    assert [entry.path for entry in with_system.targets["/system/web"]] == ["/p1/shop/os"]
    alone = {"/p1": {}, "/p1/os": {"type": "system"}, "/p1/os/deploy": {}, "/p1/os/deploy/web": {}}
    assert idle_paths(replace(SHOP, apps={"all": ("/p1",)}), alone) == ("/p1",)


def test_the_services_of_inactive_intents_are_withheld_and_all_others_are_not():
    _, targets = compiled()
    intents = [SHOP, replace(WEB, state=IntentState.APPLIED)]
    withheld = withheld_services(intents, governed_services(intents, targets))
    assert withheld == {("/p1/shop/db", "db-server"), ("/p1/shop/front", "host1"), ("/p1/shop/front", "web")}
    left = without_withheld(targets, withheld)
    assert {name: [assignment.path for assignment in listed] for name, listed in left.items()} == {
        "/roles/web": ["/roles/web"],
        "host1": ["/net/vlan12"],
        "web": ["/net/vlan12"],
    }
    assert without_withheld(targets, frozenset()) == targets
    assert withheld_from_json(withheld_to_json(withheld)) == withheld


def test_intents_without_a_conflict_have_no_faults():
    assert list(governance_faults([SHOP, WEB], *compiled())) == []


def test_a_path_without_a_node_is_a_fault_of_its_place():
    lost = replace(SHOP, apps={"front": ("/p1/shop/front", "/p1/shop/lost")})
    (fault,) = governance_faults([lost], *compiled())
    assert (fault.subject, fault.app, fault.position) == (SHOP.subject, "front", 1)
    assert fault.message == "there is no node /p1/shop/lost; expected the path of a node of the tree"


def test_a_service_under_two_intents_is_a_fault_only_if_they_share_a_target():
    other = replace(SHOP, name="other", apps={"x": ("/p1/shop/front",)})
    (fault,) = governance_faults([SHOP, other], *compiled())
    assert (fault.subject, fault.app) == (other.subject, "x")
    assert "is governed by p1/store/v1/shop, too" in fault.message
    here, there = (ClusterIntents("ams", name, {"v": ("/net/vlan12",)}) for name in ("web", "host1"))
    assert list(governance_faults([here, there], *compiled())) == []
    (fault,) = governance_faults([here, replace(here, provider="fra")], *compiled())
    assert fault.message.startswith("/net/vlan12 for web is governed by ams/web, too")


def test_services_below_governed_paths_need_an_intent_for_each_target():
    _, whole = compiled()

    def ungoverned(*paths, intents=()):
        return [problem.message for problem in IntentGovernance(intents).ungoverned_problems(paths, whole)]

    need = "(governed-paths); name the path in an app of a deployment intent group, or in the network intents of a"
    assert ungoverned("/net", intents=(SHOP, WEB)) == [
        f"/net/vlan12 has no intent for host1: expected one for every service at and below /net {need} cluster"
    ]
    assert ungoverned("/p1", intents=(SHOP, WEB)) == []
    (front,) = ungoverned("/p1/shop/front")
    assert "/p1/shop/front has no intent for host1: expected one for every service at and below /p1/shop" in front
    assert len(ungoverned("/")) == 3
    assert ungoverned("/p", "/p1/sho") == ungoverned() == []
