"""The sentences about wanted packages that dnf does not find, and about packages that dnf hides."""

from support.builders import make_package
from zkdeployment.agent.rules.hidden import disabled_streams, exclusion, filtered, lacks, with_obstacles

SHOP1, SHOP2, LIB = make_package("shop", "1.0"), make_package("shop", "2.0"), make_package("lib", "3")
PUBLISH = "; publish it, or correct the version in the tree"


def test_a_package_that_is_found_lacks_nothing():
    assert lacks([SHOP1], {"shop": None}, {SHOP2: exclusion("the repository a")}) == ()


def test_a_hidden_package_is_not_missing():
    hidden = {SHOP2: exclusion("dnf"), LIB: disabled_streams(["b:4", "b:3"])}
    found = lacks([SHOP1], {"shop": "2.0", "lib": None, "gone": "1"}, hidden)
    assert [(lack.sentence, lack.advice) for lack in found] == [
        ("no repository has the package gone 1", PUBLISH),
        (
            "a repository has lib-3-1.noarch, which is only in a module stream that is not enabled (b:3 and b:4)",
            "; enable it with 'dnf module enable b:3', or correct the version in the tree",
        ),
        (
            "a repository has shop-2.0-1.noarch, which is excluded by excludepkgs or includepkgs of dnf",
            "; allow the package there, or correct the version in the tree",
        ),
    ]


def test_another_version_of_a_hidden_package_is_missing():
    (lack,) = lacks([SHOP1], {"shop": "9"}, {SHOP2: exclusion("the repository a")})
    assert (lack.sentence, lack.advice) == (
        "no repository has the package shop 9; it has shop 1.0-1, 2.0-1",
        PUBLISH,
    )


def test_the_obstacles_of_the_packages_that_the_solver_names_are_added():
    text = (
        "Problem: x requires lib - package lib-3-1.noarch is filtered out by modular filtering"
        " - package shop-2.0-1.noarch from a is filtered out by exclude filtering"
    )
    assert filtered(text) == {"lib-3-1.noarch", "shop-2.0-1.noarch"}
    hidden = {LIB: disabled_streams([]), SHOP1: exclusion("the repository a")}
    assert with_obstacles(text, hidden) == (
        f"{text}; a repository has lib-3-1.noarch, which is only in a module stream that is not enabled;"
        " enable that stream, or correct the version in the tree"
    )
    assert with_obstacles("no package is named", hidden) == "no package is named"
