"""Targets without what intents withhold: compiled, compiled again after a change, and walked by an agent."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.trees import SYSTEM_NODE, tree_of
from zkdeployment.base.errors import TreeError
from zkdeployment.base.host import Identity
from zkdeployment.documents.collection import PublishedDocuments
from zkdeployment.intents.documents import GROUP, ClusterIntents, DeploymentIntentGroup, FleetStop, IntentState
from zkdeployment.intents.rules.governance import IntentGovernance, read_intents
from zkdeployment.publishing.governance import NO_GOVERNANCE
from zkdeployment.publishing.targets.compilation import Recompilation, compile_tree, withheld_after
from zkdeployment.publishing.targets.compiler import (
    compile_targets,
    host_problems,
    wanted_for,
    wanted_from_tree,
    withheld_from_json,
    withheld_to_json,
)
from zkdeployment.tree.diff import diff
from zkdeployment.tree.parse import parse
from zkdeployment.tree.values import TreeChange

BLUE_AND_GREEN = """\
/blue : shop
  version = '1'
  /deploy
    /web
/green : shop
  version = '2'
  /deploy
    /web
"""
HOSTS = (Identity("h1", "h2"), Identity("h1", "h2", "web"), Identity("h2", "h3"))

SERVICES = st.dictionaries(
    st.sampled_from(["/a", "/a/b", "/b", "/c"]),
    st.sampled_from(
        [{"type": "foo", "version": "1"}, {"type": "foo", "version": "2"}, {"type": "bar"}, SYSTEM_NODE]
    ),
    min_size=1,
)
TREES = SERVICES.flatmap(
    lambda nodes: st.dictionaries(
        st.tuples(st.sampled_from([*nodes]), st.sampled_from(["h1", "h2", "web"])).map("/deploy/".join),
        st.sampled_from([{}, {"n": 2}]),
    ).map(lambda targets: tree_of(nodes | targets))
)
STATES = st.sampled_from([IntentState.CREATED, IntentState.INSTANTIATED, IntentState.TERMINATED])
GROUPS = st.builds(
    lambda path, state: DeploymentIntentGroup("p", "a", "v", path[1:], "x", {"app": (path,)}, state),
    st.sampled_from(["/a", "/a/b", "/b"]),
    STATES,
)
CLUSTERS = st.builds(
    lambda path, target, is_applied: ClusterIntents(
        "ams",
        target,
        {"net": (path,)},
        IntentState.APPLIED if is_applied else IntentState.CREATED,
    ),
    st.sampled_from(["/a", "/c"]),
    st.sampled_from(["h1", "web"]),
    st.booleans(),
)
INTENTS = st.lists(GROUPS | CLUSTERS, max_size=3, unique_by=lambda intent: intent.subject)


def group(state, *paths):
    return DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", {"app": paths}, state)


@pytest.mark.parametrize(("rule", "named"), [(FleetStop.GROUP, "p1/store/v1/shop"), (FleetStop.FLEET, None)])
def test_targets_name_the_group_of_a_service_whose_failures_stop_only_that_group(rule, named):
    tree = parse("t.zk", BLUE_AND_GREEN.replace("green : shop", "green : other")).tree
    shop = replace(group(IntentState.INSTANTIATED, "/blue"), fleet_stop=rule)
    compilation = compile_tree(tree, IntentGovernance((shop,)))
    found = {one.path: one.group for one in compilation.targets["web"]}
    assert found == {"/blue": named, "/green": None}
    assert {one.group for one in compilation.whole["web"]} == {None}


@given(TREES, INTENTS)
def test_an_agent_that_walks_the_tree_wants_what_was_compiled(tree, intents):
    compilation = compile_tree(tree, IntentGovernance(tuple(intents)))
    withheld = withheld_from_json(json.loads(json.dumps(withheld_to_json(compilation.withheld))))
    assert withheld == compilation.withheld
    for host in HOSTS:
        if not compilation.problems and not host_problems(compilation.targets, [host]):
            assert wanted_from_tree(host, tree, withheld) == wanted_for(host, compilation.targets)
    if not intents:
        assert (compilation.targets, compilation.problems) == compile_targets(tree)


@given(TREES, TREES, INTENTS, INTENTS)
def test_a_compilation_that_builds_on_the_last_one_has_the_same_result(before, after, old, new):
    last = compile_tree(before, IntentGovernance(tuple(old)))
    again = compile_tree(
        after, IntentGovernance(tuple(new)), since=Recompilation(before, last, diff(before, after).paths)
    )
    fresh = compile_tree(after, IntentGovernance(tuple(new)))
    assert (again.whole, again.targets, again.withheld) == (fresh.whole, fresh.targets, fresh.withheld)
    assert set(again.problems) == set(fresh.problems)


def test_a_withheld_service_is_not_in_conflict_with_other_services():
    tree = parse("t.zk", BLUE_AND_GREEN).tree
    host = Identity("1", "app1", "web")
    assert compile_tree(tree).problems
    compilation = compile_tree(tree, IntentGovernance((group(IntentState.APPROVED, "/green"),)))
    assert compilation.problems == ()
    wanted = wanted_from_tree(host, tree, compilation.withheld)
    assert [assignment.path for assignment in wanted.assignments] == ["/blue"]
    assert compile_tree(tree, IntentGovernance((group(IntentState.INSTANTIATED, "/green"),))).problems
    with pytest.raises(TreeError):
        wanted_from_tree(host, tree)


def test_the_withheld_services_after_a_change_follow_the_published_intents():
    tree = parse("t.zk", BLUE_AND_GREEN).tree
    change = TreeChange(create={"/green/deploy/db": {}})
    assert withheld_after(tree, change, NO_GOVERNANCE) is None
    intent = group(IntentState.CREATED, "/green")
    documents = PublishedDocuments({(GROUP.name, intent.subject): intent.to_document()})
    assert withheld_after(tree, change, IntentGovernance(read_intents(documents))) == {
        ("/green", "web"),
        ("/green", "db"),
    }
