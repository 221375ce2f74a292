import pytest

from zkdeployment.base.deployment import Assignment
from zkdeployment.base.errors import TreeError
from zkdeployment.base.names import NameKind
from zkdeployment.publishing.targets.properties import MAX_PATH, check_name, check_path, shown
from zkdeployment.publishing.targets.services import (
    MAX_N,
    application_of,
    check_n,
    check_patches,
    check_type,
    check_version,
    read_service,
)
from zkdeployment.tree.values import Tree


def read(properties, **others):
    nodes = {"/who": {}, "/who/myfoo": properties} | {f"/{name}": value for name, value in others.items()}
    return read_service(Tree(nodes), "/who/myfoo")


def service(package, application, *values, **others):
    return Assignment("/who/myfoo", 1, package, application, *values, **others)


def messages(properties, **others):
    found, problems = read(properties, **others)
    assert found is None
    assert {problem.path for problem in problems} == {"/who/myfoo"}
    return [problem.message for problem in problems]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"type": "foo", "version": "1.4"}, service("foo", "foo", None, "1.4")),
        ({"type": "foo bar", "version": "1.4"}, service("foo", "foo", "bar", "1.4")),
        ({"type": "foo-extra", "version": "1.4"}, service("foo-extra", "foo-extra", None, "1.4")),
        ({"type": "foo", "version": 1.0}, service("foo", "foo", None, "1.0")),
        ({"type": "foo", "version": 2}, service("foo", "foo", None, "2")),
        ({"type": "foo-1.4"}, service("foo-1.4", "foo", None, None)),
        ({"type": "foo-extra-1.4 bar"}, service("foo-extra-1.4", "foo-extra", "bar", None)),
        (
            {"type": "foo", "version": "1.4", "patches": ["fix 2", "more 1.1-3"]},
            service("foo", "foo", None, "1.4", {"fix": "2", "more": "1.1-3"}),
        ),
        ({"type": "foo", "version": "1", "patches": []}, service("foo", "foo", None, "1")),
        (
            {"type": "foo", "version": "1", "deploy_after": ["/shop/db", "/a", "/a"], "undeploy": "last"},
            service("foo", "foo", None, "1", after=("/a", "/shop/db"), undeploys_last=True),
        ),
        (
            {"type": "foo", "version": "1", "deploy_after": [], "undeploy": "first"},
            service("foo", "foo", None, "1"),
        ),
        (
            {"type": "foo", "version": "1", "registers": "one"},
            service("foo", "foo", None, "1", registers_one=True),
        ),
        ({"type": "foo", "version": "1", "registers": "all"}, service("foo", "foo", None, "1")),
    ],
)
def test_a_service_is_read_from_its_properties(properties, expected):
    assert read(properties) == (expected, ())


def test_properties_are_read_through_property_links():
    found, problems = read(
        {"type =>": "/common", "version =>": "/common release", "patches =>": "/common fixes"},
        common={"type": "foo bar", "release": "1.4", "fixes": ["fix 2"]},
    )
    assert (found, problems) == (service("foo", "foo", "bar", "1.4", {"fix": "2"}), ())


def test_a_link_that_leads_nowhere_is_a_problem_of_the_service():
    (message,) = messages({"type": "foo", "version =>": "/gone release"})
    assert "/gone" in message


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        (
            {"type": "foo"},
            "no version: type 'foo' has no dash; expected a version property or a type like foo-1.0",
        ),
        ({"type": "a b c", "version": "1"}, "type 'a b c' has 3 words"),
        ({"type": "foo-1", "deploy_after": "/db"}, "deploy_after is '/db', expected a list of paths of services"),
        ({"type": "foo-1", "deploy_after": ["db"]}, "deploy_after: path is 'db', expected the path of a service"),
        ({"type": "foo-1", "undeploy": "never"}, "undeploy is 'never', expected 'first' or 'last'"),
        ({"type": "foo-1", "undeploy": ["last"]}, "undeploy is ['last'], expected 'first' or 'last'"),
        ({"type": "foo-1", "registers": 1}, "registers is 1, expected 'all' or 'one'"),
        ({"type": " ", "version": "1"}, "type ' ' has 0 words"),
        ({"type": 5, "version": "1"}, "type is 5, expected text"),
        ({"type": "../foo", "version": "1"}, "'../foo' is not a package name"),
        ({"type": "foo ../bar", "version": "1"}, "'../bar' is not a subtype"),
        ({"type": "foo-", "version =>": "/who/myfoo x", "x": True}, "version is True, expected text"),
        ({"type": "foo-"}, "'' is not a version"),
        ({"type": "foo", "version": None}, "version is None"),
        ({"type": "foo", "version": ""}, "'' is not a version"),
        ({"type": "foo", "version": "1 2"}, "'1 2' is not a version"),
        ({"type": "foo", "version": float("inf")}, "version is inf"),
        ({"type": "foo", "version": float("nan")}, "version is nan"),
        ({"type": "foo", "version": -1}, "version is -1"),
        ({"type": "foo", "version": 10**5000}, "version is a very long number"),
        ({"type": "foo", "version": ["1"]}, "version is ['1']"),
        ({"type": "foo", "version": "git://host/repo"}, "expected git://REPO#VERSION, found no #"),
        ({"type": "foo", "version": "hg://host/repo#1"}, "unknown scheme 'hg'"),
        (
            {"type": "foo", "version": "1", "patches": ["fix git:/srv/fix#1"]},
            "is a checkout, expected a package's",
        ),
        (
            {"type": "foo", "version": "git:/srv/foo#1", "patches": ["fix 1"]},
            "foo is checked out, and only packages can have patches",
        ),
        ({"type": "foo", "version": "1", "patches": "fix 2"}, "patches is 'fix 2', expected a list"),
        ({"type": "foo", "version": "1", "patches": ["fix"]}, "patches holds 'fix'"),
        ({"type": "foo", "version": "1", "patches": [7]}, "patches holds 7"),
        (
            {"type": "foo", "version": "1", "patches": ["fix 1", "fix 2"]},
            "patch fix is listed in two versions, 1 and 2",
        ),
        ({"type": "foo", "version": "1", "patches": ["-x 1"]}, "'-x' is not a package name"),
        ({"type": "foo", "version": "1", "patches": ["foo 1"]}, "lists its own package foo as a patch"),
    ],
)
def test_an_error_names_the_expected_and_the_actual_value(properties, text):
    (message,) = messages(properties)
    assert text in message


@pytest.mark.parametrize("version", ["git://host/repo#1.4", "git:/srv/repo#main", "svn+ssh://host/repo/trunk#7"])
def test_a_version_may_be_a_checkouts(version):
    found, problems = read({"type": "foo sub", "version": version})
    assert (found, problems) == (service("foo", "foo", "sub", version), ())


def test_all_errors_of_a_service_are_reported_at_once():
    problems = messages({"type": "a b c", "version": [], "patches": 1})
    assert len(problems) == 3


def test_a_patch_listed_twice_in_one_version_is_one_patch():
    assert check_patches(["fix 1", "fix 1"]) == {"fix": "1"}


@pytest.mark.parametrize(
    "path", ["/who/my:foo", "/who/my,foo", "/who//x", "/", "who", 5, "/who/..", "/" + "a" * MAX_PATH]
)
def test_paths_that_cannot_be_names_of_files_and_locks_are_refused(path):
    with pytest.raises(TreeError):
        check_path(path)


def test_paths_of_services_are_accepted():
    assert check_path("/who/my.foo-1@x") == "/who/my.foo-1@x"
    longest = "/" + "a" * (MAX_PATH - 1)
    assert check_path(longest) == longest


@pytest.mark.parametrize("n", [0, 1, MAX_N])
def test_n_is_a_whole_number(n):
    assert check_n(n) == n


@pytest.mark.parametrize("n", [-1, MAX_N + 1, 1.0, "2", True, None, [1]])
def test_other_values_of_n_are_refused(n):
    with pytest.raises(TreeError, match="expected a whole number from 0 to 1000"):
        check_n(n)


def test_a_name_has_to_be_text():
    with pytest.raises(TreeError, match="package name is 5, expected text"):
        check_name(NameKind.PACKAGE, 5)


@pytest.mark.parametrize(("package", "application"), [("foo-1", "foo"), ("foo-bar-1.4", "foo-bar")])
def test_the_application_is_the_text_before_the_last_dash(package, application):
    assert application_of(package) == application


def test_types_split_at_any_blanks():
    assert check_type("  foo \t bar ") == ("foo", "bar")


def test_versions_that_are_text_stay_unchanged():
    assert check_version("1.10") == "1.10"


def test_long_values_are_shown_short():
    assert shown("x" * 100) == "'" + "x" * 56 + "..."
    assert shown("é") == r"'\xe9'"
