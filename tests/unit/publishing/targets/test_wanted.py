import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.trees import FOO, HOST, SYSTEM_NODE, WEB, controller_of_role, foo_assignment, tree_of
from zkdeployment.base.deployment import DesiredState
from zkdeployment.base.errors import TreeError
from zkdeployment.base.host import Identity
from zkdeployment.publishing.targets.compiler import (
    assignments_for,
    compile_targets,
    host_problems,
    wanted_for,
    wanted_from_tree,
)
from zkdeployment.publishing.targets.services import assignments_from_json
from zkdeployment.publishing.targets.systems import system_target


def test_a_host_gets_the_controller_of_its_role_and_no_other():
    nodes = tree_of(
        {
            "/a": FOO,
            "/a/deploy/web": {},
            "/roles/web": {"type": "controller", "version": "1"},
            "/roles/db": {"type": "a b c"},
        }
    )
    targets, _ = compile_targets(nodes)
    assert (
        wanted_from_tree(WEB, nodes)
        == wanted_for(WEB, targets)
        == DesiredState((foo_assignment("/a"),), controller_of_role())
    )
    assert wanted_for(HOST, targets).controller is None


def test_a_host_without_a_role_gets_the_assignments_of_its_id_and_its_name():
    targets = {
        HOST.id: (foo_assignment("/b"), foo_assignment("/d")),
        HOST.name: (foo_assignment("/a"), foo_assignment("/c")),
        "web": (foo_assignment("/w"),),
        "other": (foo_assignment("/o"),),
    }
    assert [assignment.path for assignment in assignments_for(HOST, targets)] == ["/a", "/b", "/c", "/d"]
    assert host_problems(targets, [HOST]) == ()


def test_a_host_with_a_role_gets_the_assignments_of_the_role_only():
    assert assignments_for(WEB, {"web": (foo_assignment("/a"),), "other": (foo_assignment("/o"),)}) == (
        foo_assignment("/a"),
    )
    assert assignments_for(WEB, {}) == ()


def test_a_host_whose_name_is_its_id_or_its_role_is_targeted_once():
    same = Identity("h1", "h1")
    assert assignments_for(same, {"h1": (foo_assignment("/a"),)}) == (foo_assignment("/a"),)
    assert assignments_for(Identity("h1", "h1", "h1"), {"h1": (foo_assignment("/a"),)}) == (foo_assignment("/a"),)


def test_the_tree_and_the_targets_give_an_agent_the_same_assignments():
    nodes = tree_of({"/a": FOO, "/a/deploy/0015": {"n": 2}, "/bad": {"type": "x"}, "/bad/deploy/other": {}})
    targets, _ = compile_targets(nodes)
    assert (
        wanted_from_tree(HOST, nodes).assignments == assignments_for(HOST, targets) == (foo_assignment("/a", n=2),)
    )


def test_an_agent_refuses_a_tree_with_errors_that_concern_its_host():
    nodes = tree_of({"/a": {"type": "foo"}, "/a/deploy/0015": {}, "/b": {"type": "x y z"}, "/b/deploy/0015": {}})
    with pytest.raises(TreeError, match=r"/a: no version: .*; /b: type 'x y z' has 3 words"):
        wanted_from_tree(HOST, nodes)


TREES = st.dictionaries(
    st.sampled_from(["/a", "/a/b", "/a/deploy", "/deploy/c", "/a/b/deploy", "/roles/h1"]),
    st.sampled_from(
        [
            *({}, FOO, {"type": "foo", "version": 2}, {"type": "x"}, {"type": "x-1", "patches": ["foo 3"]}),
            *(SYSTEM_NODE, {"type": "system", "release": "2", "exclude": ["x*"]}, {"type": "system"}),
        ]
    ),
).flatmap(
    lambda nodes: st.dictionaries(
        st.tuples(st.sampled_from([*nodes, "/z"]), st.sampled_from(["h1", "h2", "web"])).map("/deploy/".join),
        st.sampled_from([{}, {"n": 0}, {"n": 2}, {"n": "x"}]),
    ).map(lambda targets: tree_of(nodes | targets))
)


@given(TREES)
def test_an_agent_and_the_syncer_agree_on_every_tree(subject):
    targets, problems = compile_targets(subject)
    for name in ("h1", "h2", "web"):
        own, own_problems = compile_targets(subject, only={name})
        assert set(own_problems) <= set(problems)
        for key in (name, system_target(name)):
            assert own.get(key, ()) == targets.get(key, ())
            published = [assignment.to_json() for assignment in targets.get(key, ())]
            assert assignments_from_json(json.loads(json.dumps(published))) == own.get(key, ())
    for host in (Identity("h1", "h2"), Identity("h1", "h2", "web")):
        if not problems and not host_problems(targets, [host]):
            assert wanted_from_tree(host, subject) == wanted_for(host, targets)
