import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.trees import FOO, SYSTEM_NODE, compile_nodes, controller_of_role, foo_assignment, tree_of
from zkdeployment.base.deployment import Assignment, Rerun
from zkdeployment.publishing.targets.compiler import compile_targets, recompile_targets
from zkdeployment.tree.diff import diff
from zkdeployment.tree.values import Tree, properties_digest


def problems_of(nodes, **kwargs):
    targets, problems = compile_targets(tree_of(nodes), **kwargs)
    assert targets == {}
    assert all(problem.path for problem in problems)
    return [str(problem) for problem in problems]


def test_every_name_under_a_services_deploy_node_is_a_target():
    targets = compile_nodes(
        {
            "/who/myfoo": {"type": "foo bar", "version": "1.4", "patches": ["fix 2"], "fuzz": 1},
            "/who/myfoo/providers/a:80": {},
            "/who/myfoo/deploy/host2": {"n": 2},
            "/who/myfoo/deploy/host1": {},
            "/a": {"type": "foo-1.4"},
            "/a/deploy/host1": {"n =>": "/numbers two"},
            "/numbers": {"two": 2},
            "/roles/web/deploy/host1": {},
        }
    )
    who = foo_assignment(subtype="bar", patches={"fix": "2"})
    assert targets == {
        "host1": (Assignment("/a", 2, "foo-1.4", "foo"), who),
        "host2": (foo_assignment(n=2, subtype="bar", patches={"fix": "2"}),),
    }
    assert list(targets) == ["host1", "host2"]


def test_only_the_requested_names_are_compiled_and_checked():
    nodes = {
        "/good": FOO,
        "/good/deploy/host1": {},
        "/bad": {"type": "a b c"},
        "/bad/deploy/host2": {},
        "/roles/web": {"type": "controller", "version": "1"},
    }
    assert compile_nodes(nodes, only={"host1"}) == {"host1": (foo_assignment("/good"),)}
    assert len(problems_of(nodes, only={"host2"})) == 1
    assert compile_nodes(nodes, only={"web"}) == {}
    assert compile_nodes(nodes, only={"/roles/web"}) == {"/roles/web": (controller_of_role(),)}


def test_services_and_nodes_above_them_may_be_called_deploy():
    assert compile_nodes({"/who/deploy": FOO, "/who/deploy/deploy/h": {}, "/who/deploy/providers": {}}) == {
        "h": (foo_assignment("/who/deploy"),)
    }
    assert compile_nodes({"/deploy/who": FOO, "/deploy/who/deploy/h": {}}) == {
        "h": (foo_assignment("/deploy/who"),)
    }
    assert compile_nodes({"/deploy": FOO, "/deploy/deploy/h": {}}) == {"h": (foo_assignment("/deploy"),)}
    assert compile_nodes({"/env/deploy/eu/who": FOO, "/env/deploy/eu/who/deploy/h": {}}) == {
        "h": (foo_assignment("/env/deploy/eu/who"),)
    }
    two = compile_nodes({"/env/deploy/eu/who": FOO, "/env/deploy/eu/who/deploy/h": {}, "/env/deploy/eu2/x": FOO})
    assert list(two) == ["h"]
    assert compile_nodes({"/who": FOO, "/who/deploy/deploy": {}}) == {"deploy": (foo_assignment("/who"),)}


def test_a_service_without_type_is_reported_once_with_its_path():
    assert problems_of({"/who/x/deploy/h1": {}, "/who/x/deploy/h2": {}, "/other": {"type": "y"}}) == [
        "/who/x: no type: it has a deploy node, so expected a package name and perhaps a subtype"
    ]


def test_each_problem_of_a_tree_is_reported_once():
    problems = problems_of(
        {
            "/a": {"type": "foo"},
            "/a/deploy/h1": {},
            "/a/deploy/h2": {"n": -1},
            "/b": {"type =>": "/nowhere type"},
            "/b/deploy/h1": {"n =>": "/b"},
            "/c:d": FOO,
            "/c:d/deploy/h1": {},
            "/roles/web": {"type": "controller extra", "version": "1"},
        }
    )
    starts = [
        "/a: no version",
        "/a/deploy/h2: n is -1",
        "/b: ",
        "/b/deploy/h1",
        "/c:d: 'c:d' is not a name",
        "/roles",
    ]
    assert len(problems) == len(starts)
    for problem, start in zip(problems, starts, strict=True):
        assert problem.startswith(start)
    assert problems[-1] == (
        "/roles/web: type of a role controller is 'controller extra', expected a package name alone"
    )


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"type": "ctl"}, "no version: expected the version of the role controller ctl"),
        ({"type": 5, "version": "1"}, "type is 5"),
        ({"type": "../x", "version": "1"}, "is not a package name"),
        ({"type": "ctl", "version": "a b"}, "is not a version"),
        ({"type": "ctl", "version": "git://host/ctl"}, "expected git://REPO#VERSION, found no #"),
        ({"type": "ctl", "version": True}, "version is True"),
        ({"type =>": "/nowhere type", "version": "1"}, "nowhere"),
    ],
)
def test_errors_of_a_role_controller_are_reported(properties, message):
    (problem,) = problems_of({"/roles/web": properties})
    assert problem.startswith("/roles/web: ")
    assert message in problem


def test_a_controller_may_take_its_version_by_a_link():
    nodes = {"/roles/web": {"type": "ctl", "version =>": "/d ctl"}, "/d": {"ctl": 7}}
    assert compile_nodes(nodes) == {"/roles/web": (controller_of_role(package="ctl", version="7"),)}


def test_roles_without_a_type_and_nodes_below_roles_have_no_controller():
    assert compile_nodes({"/roles/web": {"note": "x"}, "/roles/web/sub": {"type": "x"}}) == {}


LINKS = st.sampled_from([{"type =>": "/a"}, {"type": "foo", "version =>": "/a/b"}, {"version =>": "/z version"}])


PATHS = [
    "/a",
    "/a/b",
    "/a/deploy",
    "/a/deploy/h1/x",
    "/b",
    "/b/deploy/deploy",
    "/roles/h1",
    "/roles/web",
    "/y",
    "/z",
]


PLACES = [f"{path}/deploy/{name}" for path in PATHS for name in ("h1", "h2", "web")]


SERVICES = st.sampled_from(
    [
        {},
        FOO,
        {"type": "foo", "version": 2},
        {"type": "bar-1"},
        SYSTEM_NODE,
        {**SYSTEM_NODE, "exclude": ["bar*"]},
        {"type": "system"},
        {**FOO, "rerun": "changed", "port": 1},
        {**FOO, "rerun": "changed", "port =>": "/z n"},
        {**FOO, "rerun =>": "/y", "port =>": "../y port"},
    ]
)


COUNTS = st.sampled_from([{}, {"n": 1}, {"n": True}, {"n": 2}, {"n =>": "/z"}])


FLEETS = st.builds(
    lambda services, counts: tree_of(services | counts),
    st.dictionaries(st.sampled_from(PATHS), SERVICES | LINKS),
    st.dictionaries(st.sampled_from(PLACES), COUNTS),
)


def without(subject, gone):
    """Remove nodes with all below them."""
    return Tree(
        {
            path: properties
            for path, properties in subject.nodes.items()
            if not any(f"{path}/".startswith(f"{path_gone}/") for path_gone in gone)
        }
    )


def check_recompiled(before, after, **options):
    last, problems = compile_targets(before, **options)
    assert not problems
    linked = {path for path, properties in after.nodes.items() if any(name.endswith("=>") for name in properties)}
    targets, problems, renewed = recompile_targets(
        after, before, linked | diff(before, after).paths, last, **options
    )
    whole_targets, whole_problems = compile_targets(after, **options)
    assert targets == whole_targets
    assert set(problems) == set(whole_problems)  # reviews sort them by place
    assert {name for name in {*targets, *last} if targets.get(name) != last.get(name)} <= renewed
    return targets, problems


@given(FLEETS, FLEETS, st.sets(st.sampled_from([*PATHS, *PLACES])), st.booleans())
def test_recompiling_changed_services_equals_compiling_the_whole_tree(before, added, gone, with_properties):
    while problems := compile_targets(before, with_properties=with_properties)[1]:
        before = without(before, {problem.path for problem in problems})
    after = tree_of({**without(before, gone).nodes, **added.nodes})
    check_recompiled(before, after, with_properties=with_properties)


def test_a_service_is_compiled_again_when_the_target_of_its_link_changes():
    service = {"/a": {"type": "foo", "version =>": "/z"}, "/a/deploy/h1": {}}
    targets, _ = check_recompiled(
        tree_of(service | {"/z": {"version": "1"}}), tree_of(service | {"/z": {"version": "2"}})
    )
    assert targets["h1"] == (foo_assignment("/a", version="2"),)


def test_the_digest_of_a_service_changes_with_the_target_of_its_link():
    service = {"/a": {**FOO, "rerun": "changed", "port =>": "/z"}, "/a/deploy/h1": {}}
    before, after = (tree_of(service | {"/z": {"port": port}}) for port in (1, 2))
    targets, _ = check_recompiled(before, after)
    (assignment,) = targets["h1"]
    assert assignment.rerun is Rerun.CHANGED
    assert assignment.properties == properties_digest({**FOO, "rerun": "changed", "port": 2})
    assert assignment != compile_targets(before)[0]["h1"][0]


def test_all_assignments_have_digests_when_they_are_asked_for_and_others_only_to_run_when_changed():
    nodes = {
        "/a": FOO,
        "/a/deploy/web": {},
        "/b": {"type": "b-1", "rerun": "changed"},
        "/b/deploy/web": {},
        "/roles/web": {"type": "ctl", "version": "1", "drain =>": "/a version"},
    }
    digests = [properties_digest(nodes["/a"]), properties_digest(nodes["/b"])]
    assert [assignment.properties for assignment in compile_nodes(nodes)["web"]] == [None, digests[1]]
    targets = compile_nodes(nodes, with_properties=True)
    assert [assignment.properties for assignment in targets["web"]] == digests
    controller = {"type": "ctl", "version": "1", "drain": "1.4"}
    assert targets["/roles/web"][0].properties == properties_digest(controller)


def test_a_service_whose_digest_is_wanted_must_have_links_that_lead_somewhere():
    service = {"/a": {**FOO, "rerun": "changed", "port =>": "/nowhere"}, "/a/deploy/h1": {}}
    assert problems_of(service) == [
        "/a: rerun = 'changed' needs the values of all property links: there is no node /nowhere"
    ]
    assert problems_of({"/a": {**FOO, "rerun": "never"}, "/a/deploy/h1": {}}) == [
        "/a: rerun is 'never', expected 'always' or 'changed'"
    ]


def test_a_changed_controller_is_compared_with_the_services_of_its_role():
    service = {"/a": {"type": "foo", "version": "1"}, "/a/deploy/web": {}}
    _, problems = check_recompiled(
        tree_of(service | {"/roles/web": {"type": "bar", "version": "1"}}),
        tree_of(service | {"/roles/web": {"type": "foo", "version": "2"}}),
    )
    assert "on the same host" in str(problems[0])


def test_unchanged_services_are_not_compiled_again():
    before = tree_of(
        {"/a": FOO, "/a/deploy/h1": {}, "/b": {"type": "b-1"}, "/b/deploy/h1": {}, "/b/deploy/h2": {}}
    )
    last, _ = compile_targets(before)
    after = Tree({**before.nodes, "/a": {"type": "foo", "version": "2"}})
    targets, _, renewed = recompile_targets(after, before, {"/a"}, last)
    assert targets["h1"] == (foo_assignment("/a", version="2"), last["h1"][1])
    assert targets["h1"][1] is last["h1"][1]
    assert targets["h2"] is last["h2"]
    assert renewed == {"h1"}
