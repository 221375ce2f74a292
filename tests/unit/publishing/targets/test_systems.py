import json
from dataclasses import replace

import pytest

from support.trees import FOO, HOST, SYSTEM_NODE, WEB, compile_nodes, foo_assignment, tree_of
from zkdeployment.base.deployment import Assignment, DesiredState
from zkdeployment.base.errors import TreeError
from zkdeployment.base.host import Identity
from zkdeployment.base.source_files import SourceFile
from zkdeployment.base.system import RebootRule, WantedSystem
from zkdeployment.publishing.rules.review import review
from zkdeployment.publishing.store.assignments import encode_targets
from zkdeployment.publishing.targets.compilation import compile_tree, order_problems
from zkdeployment.publishing.targets.compiler import compile_targets, host_problems, wanted_for, wanted_from_tree
from zkdeployment.publishing.targets.services import decode_target, services
from zkdeployment.publishing.targets.systems import read_system

OS = WantedSystem("/os/web", "2026-11-20")


def test_the_host_of_a_system_node_wants_its_operating_system_beside_its_services():
    nodes = {"/a": FOO, "/a/deploy/web": {}, "/os/web": SYSTEM_NODE, "/os/web/deploy/web": {}}
    targets = compile_nodes(nodes)
    wanted = DesiredState((foo_assignment("/a"),), None, OS)
    assert wanted_for(WEB, targets) == wanted_from_tree(WEB, tree_of(nodes)) == wanted
    assert wanted_for(HOST, targets) == DesiredState()


@pytest.mark.parametrize("target", [HOST.id, HOST.name])
def test_targets_of_system_nodes_are_host_ids_and_host_names_too(target):
    assert wanted_for(HOST, compile_nodes({"/os": SYSTEM_NODE, f"/os/deploy/{target}": {}})).system == replace(
        OS, path="/os"
    )


def test_the_published_node_of_a_target_has_its_system_node():
    targets = compile_nodes({"/a": FOO, "/a/deploy/web": {}, "/os/web": SYSTEM_NODE, "/os/web/deploy/web": {}})
    ((path, data),) = encode_targets(targets, targets).items()
    assert path.endswith("/web")
    assert decode_target("web", data) == targets
    bare = compile_nodes({"/a": FOO, "/a/deploy/web": {}})
    assert "system" not in json.loads(encode_targets(bare, bare)[path])[0]


def test_all_properties_of_a_system_node_are_read_through_links():
    properties = {
        "type": "system",
        "release =>": "/releases stable",
        "update": ["bash", "lib*"],
        "exclude": ["postgresql*"],
        "reboot": "always",
        "generation": 2,
        "reboot_timeout": 60,
    }
    tree = tree_of({"/os/web": properties, "/releases": {"stable": "2026-12-18"}})
    wanted = WantedSystem("/os/web", "2026-12-18", ("bash", "lib*"), ("postgresql*",), RebootRule.ALWAYS, 2, 60)
    assert read_system(tree, "/os/web") == (wanted, ())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "system web"}, "type is 'system web', expected system alone"),
        ({"release": 9}, "release is 9, expected text like '2026-11-20'"),
        ({"release": ""}, "release is empty"),
        ({"release": "../x"}, "'../x' is not a release (expected at most 128 letters"),
        ({"release": "a b"}, "'a b' is not a release (expected at most 128 letters"),
        ({"update": "some"}, "update is 'some', expected 'all', 'security', 'none' or a list of packages"),
        ({"update": []}, "update is [], expected 'all', 'security', 'none' or a list of packages"),
        ({"update": ["-y"]}, "update holds '-y', expected names of packages like 'bash'"),
        ({"exclude": "x"}, "exclude is 'x', expected a list of packages"),
        ({"exclude": ["[a"]}, "exclude holds '[a', expected names of packages"),
        ({"exclude": [1]}, "exclude holds 1, expected names of packages"),
        ({"reboot": "sometimes"}, "reboot is 'sometimes', expected 'if needed', 'always' or 'never'"),
        ({"generation": 0}, "generation is 0, expected a whole number from 1 to 1000000000"),
        ({"generation": True}, "generation is True, expected a whole number"),
        ({"reboot_timeout": 0}, "reboot_timeout is 0, expected a whole number of seconds from 1 to 86400"),
        ({"reboot_timeout": -5}, "reboot_timeout is -5, expected a whole number of seconds"),
        ({"relase": "1"}, "relase is not a property of a system node; did you mean release?"),
        ({"colour": 1}, "colour is not a property of a system node; expected one of release, update"),
        ({"version": "1"}, "version is a property of services, but the type system is reserved"),
        ({"n": 2}, "n is a property of services, but the type system is reserved"),
    ],
)
def test_invalid_properties_are_errors(change, message):
    found, (problem,) = read_system(tree_of({"/os/web": SYSTEM_NODE | change}), "/os/web")
    assert found is None
    assert problem.path == "/os/web"
    assert problem.message.startswith(message)


def test_a_release_is_required():
    found, (problem,) = read_system(tree_of({"/os": {"type": "system"}}), "/os")
    assert found is None
    assert problem.message.startswith("no release: expected the name of a snapshot")


def test_an_operating_system_has_no_instances():
    _, (problem,) = compile_targets(tree_of({"/os": SYSTEM_NODE, "/os/deploy/web": {"n": 2}, "/os/deploy/db": {}}))
    assert (problem.path, problem.message[:33]) == ("/os/deploy/web", "n is a property of the targets of")


def problems(nodes, *hosts):
    targets, found = compile_targets(tree_of(nodes))
    return {(problem.path, problem.message) for problem in (*found, *host_problems(targets, hosts))}


@pytest.mark.parametrize(
    ("target", "other", "host"),
    [("web", "web", WEB), (HOST.id, HOST.name, HOST), (HOST.id, HOST.id, HOST)],
)
def test_two_system_nodes_of_one_host_are_errors_at_both_places(target, other, host):
    nodes = {"/os/a": SYSTEM_NODE, "/os/b": SYSTEM_NODE, f"/os/a/deploy/{target}": {}, f"/os/b/deploy/{other}": {}}
    assert problems(nodes, host) == {
        ("/os/a", "/os/a and /os/b are system nodes of the same host; expected one at most"),
        ("/os/b", "/os/b and /os/a are system nodes of the same host; expected one at most"),
    }
    if target == other:
        with pytest.raises(TreeError, match="are system nodes of the same host"):
            wanted_from_tree(host, tree_of(nodes))


def test_a_system_node_for_a_host_that_has_a_role_is_an_error():
    nodes = {"/os": SYSTEM_NODE, f"/os/deploy/{HOST.id}": {}}
    assert {path for path, _ in problems(nodes, WEB)} == {f"/os/deploy/{HOST.id}"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"exclude": ["fo*"]}, "exclude holds fo*, but /a deploys foo on the same host; remove one of them"),
        ({"exclude": ["fix"]}, "exclude holds fix, but /a deploys fix on the same host; remove one of them"),
        ({"update": ["foo"]}, "update holds foo, but /a deploys foo on the same host, and an update changes no"),
    ],
)
def test_a_system_node_must_not_name_packages_of_services_of_its_host(change, message):
    nodes = {"/a": FOO | {"patches": ["fix 1"]}, "/a/deploy/h1": {}, "/os": SYSTEM_NODE | change}
    ((path, found),) = problems(nodes | {"/os/deploy/h1": {}})
    assert (path, found[: len(message)]) == ("/os", message)
    assert not problems(nodes | {"/os/deploy/h2": {}}, Identity("h1", "h1"))
    ((path, found),) = problems(nodes | {"/os/deploy/h2": {}}, Identity("h1", "h2"))
    assert (path, found[: len(message)]) == ("/os", message)


def test_a_system_node_may_update_packages_by_patterns_that_match_packages_of_services():
    nodes = {"/a": FOO, "/a/deploy/h1": {}, "/os": SYSTEM_NODE | {"update": ["fo*"]}, "/os/deploy/h1": {}}
    assert not problems(nodes)


@pytest.mark.parametrize(
    ("path", "properties"),
    [("/roles/web", {"type": "system", "version": "1"}), ("/a", {"type": "foo-1", "patches": ["system 1"]})],
)
def test_controllers_and_patches_are_never_called_system(path, properties):
    _, (problem,) = compile_targets(tree_of({"/a": FOO} | {"/a/deploy/h1": {}, path: properties}))
    assert "system is the reserved type" in problem.message


def test_a_system_node_is_no_service_that_others_can_wait_for():
    nodes = {"/os": SYSTEM_NODE, "/os/deploy/h1": {}, "/a": FOO | {"deploy_after": ["/os"]}, "/a/deploy/h1": {}}
    tree = tree_of(nodes)
    assert services(tree) == {"/a"}
    (problem,) = order_problems(compile_targets(tree)[0], services(tree))
    assert problem.path == "/a"


def test_the_entry_of_a_signed_publication_has_the_digest_of_the_properties():
    compilation = compile_tree(tree_of({"/os": SYSTEM_NODE, "/os/deploy/h1": {}}), with_properties=True)
    (entry,) = compilation.targets["/system/h1"]
    assert entry == Assignment.of_system(replace(OS, path="/os"), entry.properties)
    assert entry.properties is not None


def test_lint_reports_the_place_of_an_error_in_a_system_node():
    text = "/os\n  /web : system\n    release = '1'\n    reboot = 'sometimes'\n    /deploy\n      /web\n"
    (problem,) = review([SourceFile("a.zk", text.encode())]).errors
    assert str(problem).startswith("a.zk:2:3: /os/web: reboot is 'sometimes'")
