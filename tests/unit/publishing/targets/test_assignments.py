import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.trees import foo_assignment
from zkdeployment.base.deployment import Assignment, Rerun
from zkdeployment.base.errors import TreeError
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.system import RebootRule, WantedSystem
from zkdeployment.publishing.targets.services import assignment_from_json, assignments_from_json

SYSTEM = WantedSystem("/os/web", "2026-11-20").to_json()


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
        rerun=draw(st.sampled_from(Rerun)),
        properties=draw(st.none() | st.just("0a" * 32)),
        after=draw(st.sampled_from([(), ("/db",), ("/a/b", "/db")])),
        undeploys_last=draw(st.booleans()),
        registers_one=draw(st.booleans()),
        group=draw(st.none() | st.just("p1/store/v1/shop")),
        reboot_allowed=draw(st.booleans()),
    )


def systems():
    patterns = st.lists(st.sampled_from(["bash", "kernel*", "[a-c]?"]), max_size=2)
    return st.builds(
        WantedSystem,
        path=st.just("/os/web"),
        release=st.sampled_from(["2026-11-20", "9.5"]),
        update=st.sampled_from(["all", "security", "none", ("bash", "lib*")]),
        exclude=patterns.map(tuple),
        reboot=st.sampled_from(RebootRule),
        generation=st.integers(1, 3),
        timeout=st.sampled_from([1, 900, 86400]),
    ).map(Assignment.of_system)


@given(st.lists(assignments() | systems(), max_size=3))
def test_published_assignments_are_read_back(wanted):
    text = json.dumps([assignment.to_json() for assignment in wanted])
    assert assignments_from_json(json.loads(text)) == tuple(wanted)


@pytest.mark.parametrize(
    ("change", "message"),
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
        ({"rerun": "never"}, "rerun is 'never', expected 'always' or 'changed'"),
        ({"rerun": None}, "rerun is None"),
        ({"package": "system", "application": "system"}, "system is the reserved type"),
        ({"patches": ["system 1"]}, "system is the reserved type"),
        ({"reboot": "sometimes"}, "reboot is 'sometimes', expected 'allowed'"),
        ({"system": {}}, "a published system node cannot be read: .*; publish again"),
        ({"system": SYSTEM | {"path": "/../x"}}, "is not a name of a service node"),
        ({"system": SYSTEM | {"release": "a/../b"}}, "is not a release"),
        ({"system": SYSTEM | {"update": ["--installroot=/"]}}, "update holds '--installroot=/'"),
        ({"system": SYSTEM | {"exclude": ["a b"]}}, "exclude holds 'a b'"),
        ({"system": SYSTEM | {"generation": 0}}, "generation is 0"),
        ({"system": SYSTEM | {"reboot_timeout": -1}}, "reboot_timeout is -1"),
        ({"group": "shop"}, "group is 'shop', expected PROJECT/APP/VERSION/NAME"),
        ({"group": "p1/store/v1/-x"}, "expected PROJECT/APP/VERSION/NAME"),
        ({"group": ["p1"]}, "expected PROJECT/APP/VERSION/NAME"),
        ({"properties": "ab"}, "properties is 'ab', expected a SHA-256"),
        ({"properties": ["a" * 64]}, "expected a SHA-256"),
    ],
)
def test_published_assignments_are_checked_again(change, message):
    with pytest.raises(TreeError, match=message):
        assignment_from_json(foo_assignment().to_json() | change)


def test_keys_of_later_releases_are_ignored():
    assert assignment_from_json(foo_assignment().to_json() | {"later": 1}) == foo_assignment()


def test_keys_that_are_not_set_are_not_written_so_that_earlier_agents_can_read_the_rest():
    keys = {"path", "n", "package", "application", "subtype", "version", "patches"}
    assert foo_assignment().to_json().keys() == keys
    changed = foo_assignment(rerun=Rerun.CHANGED, properties="a" * 64)
    assert changed.to_json().keys() == keys | {"rerun", "properties"}


def test_agents_that_know_no_system_nodes_refuse_one_with_advice_instead_of_installing_a_package():
    published = Assignment.of_system(WantedSystem("/os/web", "2026-11-20")).to_json()
    assert published.keys() >= {"path", "n", "package", "application", "subtype", "version", "patches"}
    assert published["n"] == 0
    refusal = name_problem(NameKind.PACKAGE, published["package"])  # their first check of an assignment
    assert refusal is not None
    assert refusal.startswith("'a system node: upgrade zkdeployment on this host' is not a package name")


@pytest.mark.parametrize("value", [None, [], "x", {"path": "/a"}])
def test_an_invalid_assignment_is_refused(value):
    with pytest.raises(TreeError, match=r"a published assignment must have .*; publish again"):
        assignment_from_json(value)


def test_an_invalid_list_of_assignments_is_refused():
    with pytest.raises(TreeError, match="expected a list"):
        assignments_from_json({"string_value": "x"})
