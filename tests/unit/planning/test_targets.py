import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.errors import TreeError
from zkdeployment.model.deployment import Assignment, DesiredState
from zkdeployment.model.host import Identity
from zkdeployment.model.tree import Tree
from zkdeployment.planning.targets import (
    assignment_from_json,
    assignments_for,
    assignments_from_json,
    compile_targets,
    host_problems,
    recompile_targets,
    wanted_for,
    wanted_from_tree,
)
from zkdeployment.tree.diff import diff

FOO = {"type": "foo", "version": "1.4"}


def tree(nodes):
    """Build a tree from some of its nodes; their parents are made as in the text form."""
    found = {}
    for path, properties in nodes.items():
        parts = path[1:].split("/")
        for end in range(1, len(parts)):
            found.setdefault("/" + "/".join(parts[:end]), {})
        found[path] = properties
    return Tree(found)


def compiled(nodes, **kwargs):
    targets, problems = compile_targets(tree(nodes), **kwargs)
    assert problems == ()
    return targets


def problems_of(nodes, **kwargs):
    targets, problems = compile_targets(tree(nodes), **kwargs)
    assert targets == {}
    assert all(problem.path for problem in problems)
    return [str(problem) for problem in problems]


def foo(path="/who/myfoo", n=1, version="1.4", **fields):
    return Assignment(path=path, n=n, package="foo", application="foo", version=version, **fields)


def controller(path="/roles/web", package="controller", version="1", **fields):
    return Assignment(
        **{"path": path, "n": 1, "package": package, "application": package} | fields, version=version
    )


def test_every_name_under_a_services_deploy_node_is_a_target():
    targets = compiled(
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
    who = foo(subtype="bar", patches={"fix": "2"})
    assert targets == {
        "host1": (Assignment("/a", 2, "foo-1.4", "foo"), who),
        "host2": (foo(n=2, subtype="bar", patches={"fix": "2"}),),
    }
    assert list(targets) == ["host1", "host2"]


def test_only_the_names_asked_for_are_compiled_and_judged():
    nodes = {
        "/good": FOO,
        "/good/deploy/host1": {},
        "/bad": {"type": "a b c"},
        "/bad/deploy/host2": {},
        "/roles/web": {"type": "controller", "version": "1"},
    }
    assert compiled(nodes, only={"host1"}) == {"host1": (foo("/good"),)}
    assert len(problems_of(nodes, only={"host2"})) == 1
    assert compiled(nodes, only={"web"}) == {}
    assert compiled(nodes, only={"/roles/web"}) == {"/roles/web": (controller(),)}


def test_services_and_nodes_above_them_may_be_called_deploy():
    assert compiled({"/who/deploy": FOO, "/who/deploy/deploy/h": {}, "/who/deploy/providers": {}}) == {
        "h": (foo("/who/deploy"),)
    }
    assert compiled({"/deploy/who": FOO, "/deploy/who/deploy/h": {}}) == {"h": (foo("/deploy/who"),)}
    assert compiled({"/deploy": FOO, "/deploy/deploy/h": {}}) == {"h": (foo("/deploy"),)}
    assert compiled({"/env/deploy/eu/who": FOO, "/env/deploy/eu/who/deploy/h": {}}) == {
        "h": (foo("/env/deploy/eu/who"),)
    }
    two = compiled({"/env/deploy/eu/who": FOO, "/env/deploy/eu/who/deploy/h": {}, "/env/deploy/eu2/x": FOO})
    assert list(two) == ["h"]
    assert compiled({"/who": FOO, "/who/deploy/deploy": {}}) == {"deploy": (foo("/who"),)}


def test_a_service_without_type_is_reported_once_with_its_path():
    assert problems_of({"/who/x/deploy/h1": {}, "/who/x/deploy/h2": {}, "/other": {"type": "y"}}) == [
        "/who/x: no type: it has a deploy node, so expected a package name and perhaps a subtype"
    ]


def test_each_problem_of_a_tree_is_reported_once():
    found = problems_of(
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
    assert len(found) == len(starts)
    for problem, start in zip(found, starts, strict=True):
        assert problem.startswith(start)
    assert found[-1] == (
        "/roles/web: type of a role controller is 'controller extra', expected a package name alone"
    )


@pytest.mark.parametrize(
    ("properties", "words"),
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
def test_errors_of_a_role_controller_are_reported(properties, words):
    (problem,) = problems_of({"/roles/web": properties})
    assert problem.startswith("/roles/web: ")
    assert words in problem


def test_a_controller_may_take_its_version_by_a_link():
    nodes = {"/roles/web": {"type": "ctl", "version =>": "/d ctl"}, "/d": {"ctl": 7}}
    assert compiled(nodes) == {"/roles/web": (controller(package="ctl", application="ctl", version="7"),)}


def test_a_hosts_role_brings_its_controller_and_no_other():
    nodes = tree(
        {
            "/a": FOO,
            "/a/deploy/web": {},
            "/roles/web": {"type": "controller", "version": "1"},
            "/roles/db": {"type": "a b c"},
        }
    )
    targets, _ = compile_targets(nodes)
    assert wanted_from_tree(WEB, nodes) == wanted_for(WEB, targets) == DesiredState((foo("/a"),), controller())
    assert wanted_for(HOST, targets).controller is None


def test_a_controllers_package_in_another_version_is_a_conflict():
    nodes = {"/a": FOO, "/a/deploy/web": {}, "/roles/web": {"type": "foo", "version": "9"}}
    expected = "foo 9 for /roles/web and foo 1.4 for /a on the same host"
    targets, (problem,) = compile_targets(tree(nodes))
    assert expected in str(problem)
    with pytest.raises(TreeError, match=expected):
        wanted_for(WEB, targets)


def test_roles_without_type_and_what_is_below_them_are_left_alone():
    assert compiled({"/roles/web": {"note": "x"}, "/roles/web/sub": {"type": "x"}}) == {}


def test_one_package_in_two_versions_is_a_conflict_that_names_both_paths():
    nodes = {f"/{name}/deploy/{host}": {} for name in "abc" for host in ("h1", "h2")}
    nodes |= {"/a": FOO, "/b": {"type": "foo", "version": "1.5"}, "/c": {"type": "bar-1", "patches": ["foo 1.6"]}}
    _, problems = compile_targets(tree(nodes))
    assert [str(problem) for problem in problems] == [
        "foo 1.5 for /b and foo 1.4 for /a on the same host",
        "foo 1.6 for /c and foo 1.4 for /a on the same host",
    ]
    assert [problem.path for problem in problems] == ["/b", "/c"]


@pytest.mark.parametrize(
    ("other", "paths"),
    [
        ({"/b": FOO, "/b/deploy/h": {}}, ["/a", "/b"]),
        ({"/b": {"type": "foo-1.5"}, "/b/deploy/h": {}}, ["/a", "/b"]),
        ({"/b": {"type": "foo", "version": "1.5"}, "/b/deploy/other": {}}, ["/a"]),
        ({"/b": {"type": "foo", "version": "1.5"}, "/b/deploy/h": {"n": 0}}, ["/a", "/b"]),
        ({"/b": {"type": "bar-1", "patches": ["foo 1.4"]}, "/b/deploy/h": {}}, ["/a", "/b"]),
    ],
)
def test_what_is_no_conflict(other, paths):
    assert [one.path for one in compiled({"/a": FOO, "/a/deploy/h": {}} | other)["h"]] == paths


def test_a_package_of_any_version_and_the_same_in_an_exact_one_go_together():
    nodes = {"/a": {"type": "foo-1"}, "/b": {"type": "bar-1", "patches": ["foo-1 2"]}}
    both = compiled(nodes | {"/a/deploy/h": {}, "/b/deploy/h": {}})["h"]
    assert [(one.path, one.package, one.version) for one in both] == [("/a", "foo-1", None), ("/b", "bar-1", None)]


HOST = Identity("0015", "app1.example.com")
WEB = Identity("0015", "app1.example.com", "web")


def test_without_a_role_the_id_and_the_name_count():
    targets = {
        HOST.id: (foo("/b"), foo("/d")),
        HOST.name: (foo("/a"), foo("/c")),
        "web": (foo("/w"),),
        "other": (foo("/o"),),
    }
    assert [one.path for one in assignments_for(HOST, targets)] == ["/a", "/b", "/c", "/d"]
    assert host_problems(targets, [HOST]) == ()


def test_with_a_role_only_the_role_counts():
    assert assignments_for(WEB, {"web": (foo("/a"),), "other": (foo("/o"),)}) == (foo("/a"),)
    assert assignments_for(WEB, {}) == ()


def test_a_host_whose_name_is_its_id_or_its_role_is_targeted_once():
    same = Identity("h1", "h1")
    assert assignments_for(same, {"h1": (foo("/a"),)}) == (foo("/a"),)
    assert assignments_for(Identity("h1", "h1", "h1"), {"h1": (foo("/a"),)}) == (foo("/a"),)


def test_a_host_with_a_role_may_not_be_targeted_itself():
    targets = {"0015": (foo("/a"),), "app1.example.com": (foo("/b"),), "web": (foo("/c"),)}
    with pytest.raises(TreeError) as caught:
        assignments_for(WEB, targets)
    why = "is for app1.example.com (0015), which has the role web: only deploy/web counts"
    assert str(caught.value) == f"/b/deploy/app1.example.com {why}; /a/deploy/0015 {why}"


def test_a_service_deployed_to_both_id_and_name_is_an_error_that_names_both():
    targets = {"0015": (foo("/a"),), "app1.example.com": (foo("/a"),)}
    with pytest.raises(TreeError, match=r"/a is deployed to both app1\.example\.com and 0015"):
        assignments_for(HOST, targets)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            {"type": "foo", "version": "git:/srv/foo#1"},
            {"type": "foo", "version": "git:/srv/foo#2"},
            "foo git:/srv/foo#2 for /b and foo git:/srv/foo#1 for /a on the same host",
        ),
        (
            {"type": "foo", "version": "1.4"},
            {"type": "foo", "version": "svn:/srv/foo"},
            "foo svn:/srv/foo for /b and foo 1.4 for /a on the same host",
        ),
        (
            {"type": "foo-1"},
            {"type": "foo-1", "version": "svn:/srv/foo"},
            "foo-1 svn:/srv/foo for /b and foo-1 for /a on the same host",
        ),
        (
            {"type": "foo", "version": "svn:/srv/foo"},
            {"type": "bar", "version": "1", "patches": ["foo 2"]},
            "foo 2 for /b and foo svn:/srv/foo for /a on the same host",
        ),
    ],
)
def test_one_directory_holds_one_checkout_or_one_package(first, second, message):
    nodes = {"/a": first, "/a/deploy/h": {}, "/b": second, "/b/deploy/h": {}}
    (problem,) = compile_targets(tree(nodes))[1]
    assert str(problem) == message
    turned = {"/a": second, "/a/deploy/h": {}, "/b": first, "/b/deploy/h": {}}
    assert len(compile_targets(tree(turned))[1]) == 1


def test_one_checkout_may_serve_several_services():
    same = {"type": "foo", "version": "git:/srv/foo#1"}
    targets = compiled({"/a": same, "/a/deploy/h": {}, "/b": same, "/b/deploy/h": {}})
    assert [one.version for one in targets["h"]] == ["git:/srv/foo#1"] * 2


def test_conflicts_between_a_hosts_id_and_its_name_are_found():
    targets = {"0015": (foo("/a"),), "app1.example.com": (foo("/b", version="1.5"),)}
    with pytest.raises(TreeError, match=r"^foo 1\.5 for /b and foo 1\.4 for /a on the same host$"):
        assignments_for(HOST, targets)


def test_all_hosts_are_checked_and_each_problem_is_reported_once():
    targets = {
        "web": (foo("/a"), foo("/b", version="1.5")),
        "h1": (foo("/c"),),
    }
    hosts = [
        Identity("h1", "h1.example.com", "web"),
        Identity("h2", "h2.example.com", "web"),
        Identity("h3", "h3"),
    ]
    assert [problem.path for problem in host_problems(targets, hosts)] == ["/c/deploy/h1", "/b"]


def test_the_tree_gives_an_agent_the_same_as_the_targets():
    nodes = tree({"/a": FOO, "/a/deploy/0015": {"n": 2}, "/bad": {"type": "x"}, "/bad/deploy/other": {}})
    targets, _ = compile_targets(nodes)
    assert wanted_from_tree(HOST, nodes).assignments == assignments_for(HOST, targets) == (foo("/a", n=2),)


def test_an_agent_refuses_errors_that_concern_its_host():
    nodes = tree({"/a": {"type": "foo"}, "/a/deploy/0015": {}, "/b": {"type": "x y z"}, "/b/deploy/0015": {}})
    with pytest.raises(TreeError, match=r"/a: no version: .*; /b: type 'x y z' has 3 words"):
        wanted_from_tree(HOST, nodes)


TREES = st.dictionaries(
    st.sampled_from(["/a", "/a/b", "/a/deploy", "/deploy/c", "/a/b/deploy", "/roles/h1"]),
    st.sampled_from(
        [{}, FOO, {"type": "foo", "version": 2}, {"type": "x"}, {"type": "x-1", "patches": ["foo 3"]}]
    ),
).flatmap(
    lambda nodes: st.dictionaries(
        st.tuples(st.sampled_from([*nodes, "/z"]), st.sampled_from(["h1", "h2", "web"])).map("/deploy/".join),
        st.sampled_from([{}, {"n": 0}, {"n": 2}, {"n": "x"}]),
    ).map(lambda targets: tree(nodes | targets))
)


@given(TREES)
def test_an_agent_and_the_syncer_agree_on_every_tree(subject):
    targets, problems = compile_targets(subject)
    for name in ("h1", "h2", "web"):
        own, found = compile_targets(subject, only={name})
        assert own.get(name, ()) == targets.get(name, ())
        assert set(found) <= set(problems)
        published = [one.to_json() for one in targets.get(name, ())]
        assert assignments_from_json(json.loads(json.dumps(published))) == own.get(name, ())
    for host in (Identity("h1", "h2"), Identity("h1", "h2", "web")):
        if not problems and not host_problems(targets, [host]):
            assert wanted_from_tree(host, subject) == wanted_for(host, targets)


LINKS = st.sampled_from([{"type =>": "/a"}, {"type": "foo", "version =>": "/a/b"}, {"version =>": "/z version"}])
PATHS = ["/a", "/a/b", "/a/deploy", "/a/deploy/h1/x", "/b", "/b/deploy/deploy", "/roles/h1", "/roles/web", "/z"]
PLACES = [f"{path}/deploy/{name}" for path in PATHS for name in ("h1", "h2", "web")]
SERVICES = st.sampled_from([{}, FOO, {"type": "foo", "version": 2}, {"type": "bar-1"}])
COUNTS = st.sampled_from([{}, {"n": 1}, {"n": True}, {"n": 2}, {"n =>": "/z"}])
FLEETS = st.builds(
    lambda services, counts: tree(services | counts),
    st.dictionaries(st.sampled_from(PATHS), SERVICES | LINKS),
    st.dictionaries(st.sampled_from(PLACES), COUNTS),
)


def without(subject, gone):
    """Remove nodes with all below them."""
    return Tree(
        {
            path: properties
            for path, properties in subject.nodes.items()
            if not any(f"{path}/".startswith(f"{one}/") for one in gone)
        }
    )


def check_recompiled(before, after):
    last, problems = compile_targets(before)
    assert not problems
    linked = {path for path, properties in after.nodes.items() if any(name.endswith("=>") for name in properties)}
    again = recompile_targets(after, linked | diff(before, after).paths, last)
    assert again == compile_targets(after)
    return again


@given(FLEETS, FLEETS, st.sets(st.sampled_from([*PATHS, *PLACES])))
def test_recompiling_changed_services_equals_compiling_the_whole_tree(before, added, gone):
    while problems := compile_targets(before)[1]:
        before = without(before, {problem.path for problem in problems})
    check_recompiled(before, tree({**without(before, gone).nodes, **added.nodes}))


def test_a_change_concerns_those_who_link_to_it():
    service = {"/a": {"type": "foo", "version =>": "/z"}, "/a/deploy/h1": {}}
    targets, _ = check_recompiled(
        tree(service | {"/z": {"version": "1"}}), tree(service | {"/z": {"version": "2"}})
    )
    assert targets["h1"] == (foo("/a", version="2"),)


def test_a_change_of_a_controller_concerns_the_services_of_its_role():
    service = {"/a": {"type": "foo", "version": "1"}, "/a/deploy/web": {}}
    _, problems = check_recompiled(
        tree(service | {"/roles/web": {"type": "bar", "version": "1"}}),
        tree(service | {"/roles/web": {"type": "foo", "version": "2"}}),
    )
    assert "on the same host" in str(problems[0])


def test_unchanged_services_are_not_compiled_again():
    before = tree({"/a": FOO, "/a/deploy/h1": {}, "/b": {"type": "b-1"}, "/b/deploy/h1": {}, "/b/deploy/h2": {}})
    last, _ = compile_targets(before)
    after = Tree({**before.nodes, "/a": {"type": "foo", "version": "2"}})
    targets, _ = recompile_targets(after, {"/a"}, last)
    assert targets["h1"] == (foo("/a", version="2"), last["h1"][1])
    assert targets["h1"][1] is last["h1"][1]
    assert targets["h2"] is last["h2"]


NAMES = st.sampled_from(["foo", "foo.bar", "f00_1", "a+b", "Z"])
VERSIONS = st.sampled_from(["1", "1.4", "1.4-2", "2:1.4", "1~rc1", "nan"])
CHECKOUTS = st.sampled_from(["git://host/repo#1", "svn:/srv/repo/trunk"])


@st.composite
def assignments(draw):
    package = draw(NAMES)
    patches = draw(st.dictionaries(NAMES.map(lambda name: f"x{name}"), VERSIONS, max_size=2))
    version = draw(st.none() | VERSIONS | (CHECKOUTS if not patches else st.none()))
    return Assignment(
        path="/" + "/".join(draw(st.lists(NAMES, min_size=1, max_size=3))),
        n=draw(st.integers(0, 5)),
        package=package if version is not None else f"{package}-1",
        application=package,
        subtype=draw(st.none() | NAMES),
        version=version,
        patches=patches,
    )


@given(st.lists(assignments(), max_size=3))
def test_published_assignments_are_read_back(wanted):
    text = json.dumps([one.to_json() for one in wanted])
    assert assignments_from_json(json.loads(text)) == tuple(wanted)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"path": "/../x"}, "is not a name of a service node"),
        ({"path": 5}, "path is 5"),
        ({"n": -1}, "n is -1"),
        ({"n": True}, "n is True"),
        ({"package": "../foo"}, "is not a package name"),
        ({"application": "../foo"}, "is not a package name"),
        ({"application": "bar"}, "names bar, expected foo"),
        ({"version": None, "package": "foo-1", "application": "bar"}, "names bar, expected foo"),
        ({"version": None}, "has no dash"),
        ({"version": "a b"}, "is not a version"),
        ({"version": "git:-x#1"}, "expected a repository, found"),
        ({"version": "hg:/x#1"}, "unknown scheme"),
        ({"version": "git:/srv/foo#1", "patches": ["fix 1"]}, "only packages can have patches"),
        ({"subtype": "-r"}, "is not a subtype"),
        ({"patches": ["x"]}, "patches holds 'x'"),
        ({"more": 1}, "found application, more, n, package"),
    ],
)
def test_published_assignments_are_checked_again(change, words):
    with pytest.raises(TreeError, match=words):
        assignment_from_json(foo().to_json() | change)


@pytest.mark.parametrize("value", [None, [], "x", {"path": "/a"}])
def test_an_invalid_assignment_is_refused(value):
    with pytest.raises(TreeError, match=r"a published assignment must have .*; publish again"):
        assignment_from_json(value)


def test_an_invalid_list_of_assignments_is_refused():
    with pytest.raises(TreeError, match="expected a list"):
        assignments_from_json({"string_value": "x"})
