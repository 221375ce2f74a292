import pytest

from support.trees import FOO, HOST, WEB, compile_nodes, foo_assignment, tree_of
from zkdeployment.base.errors import TreeError
from zkdeployment.base.host import Identity
from zkdeployment.publishing.targets.compiler import assignments_for, compile_targets, host_problems, wanted_for


def test_a_controllers_package_in_another_version_is_a_conflict():
    nodes = {"/a": FOO, "/a/deploy/web": {}, "/roles/web": {"type": "foo", "version": "9"}}
    expected = "foo 9 for /roles/web and foo 1.4 for /a on the same host"
    targets, (problem,) = compile_targets(tree_of(nodes))
    assert expected in str(problem)
    with pytest.raises(TreeError, match=expected):
        wanted_for(WEB, targets)


def test_one_package_in_two_versions_is_a_conflict_that_names_both_paths():
    nodes = {f"/{name}/deploy/{host}": {} for name in "abc" for host in ("h1", "h2")}
    nodes |= {"/a": FOO, "/b": {"type": "foo", "version": "1.5"}, "/c": {"type": "bar-1", "patches": ["foo 1.6"]}}
    _, problems = compile_targets(tree_of(nodes))
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
def test_assignments_that_do_not_exclude_each_other_are_accepted(other, paths):
    assert [assignment.path for assignment in compile_nodes({"/a": FOO, "/a/deploy/h": {}} | other)["h"]] == paths


def test_an_exact_version_of_a_package_also_satisfies_any_version():
    nodes = {"/a": {"type": "foo-1"}, "/b": {"type": "bar-1", "patches": ["foo-1 2"]}}
    both = compile_nodes(nodes | {"/a/deploy/h": {}, "/b/deploy/h": {}})["h"]
    assert [(assignment.path, assignment.package, assignment.version) for assignment in both] == [
        ("/a", "foo-1", None),
        ("/b", "bar-1", None),
    ]


def test_a_host_with_a_role_may_not_be_targeted_itself():
    targets = {
        "0015": (foo_assignment("/a"),),
        "app1.example.com": (foo_assignment("/b"),),
        "web": (foo_assignment("/c"),),
    }
    with pytest.raises(TreeError) as caught:
        assignments_for(WEB, targets)
    why = "is for app1.example.com (0015), which has the role web: only deploy/web counts"
    assert str(caught.value) == f"/b/deploy/app1.example.com {why}; /a/deploy/0015 {why}"


def test_a_service_deployed_to_both_id_and_name_is_an_error_that_names_both():
    targets = {"0015": (foo_assignment("/a"),), "app1.example.com": (foo_assignment("/a"),)}
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
    (problem,) = compile_targets(tree_of(nodes))[1]
    assert str(problem) == message
    turned = {"/a": second, "/a/deploy/h": {}, "/b": first, "/b/deploy/h": {}}
    assert len(compile_targets(tree_of(turned))[1]) == 1


def test_one_checkout_may_serve_several_services():
    same = {"type": "foo", "version": "git:/srv/foo#1"}
    targets = compile_nodes({"/a": same, "/a/deploy/h": {}, "/b": same, "/b/deploy/h": {}})
    assert [assignment.version for assignment in targets["h"]] == ["git:/srv/foo#1"] * 2


def test_conflicts_between_a_hosts_id_and_its_name_are_found():
    targets = {"0015": (foo_assignment("/a"),), "app1.example.com": (foo_assignment("/b", version="1.5"),)}
    with pytest.raises(TreeError, match=r"^foo 1\.5 for /b and foo 1\.4 for /a on the same host$"):
        assignments_for(HOST, targets)


def test_all_hosts_are_checked_and_each_problem_is_reported_once():
    targets = {
        "web": (foo_assignment("/a"), foo_assignment("/b", version="1.5")),
        "h1": (foo_assignment("/c"),),
    }
    hosts = [
        Identity("h1", "h1.example.com", "web"),
        Identity("h2", "h2.example.com", "web"),
        Identity("h3", "h3"),
    ]
    assert [problem.path for problem in host_problems(targets, hosts)] == ["/c/deploy/h1", "/b"]
