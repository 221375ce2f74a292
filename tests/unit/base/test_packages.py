import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import make_package
from zkdeployment.base.inventory import Package
from zkdeployment.base.packages import (
    Action,
    Item,
    after,
    deviations,
    has_version,
    items,
    order_key,
    select,
    unmanaged,
)


def package(text, *, epoch=0, arch="noarch"):
    name, version, release = text.rsplit("-", 2)
    return make_package(name, version, release, epoch=epoch, arch=arch)


def packages(*texts: str):
    packages_by_name = {}
    for text in texts:
        parsed = package(text)
        packages_by_name[parsed.name] = (*packages_by_name.get(parsed.name, ()), parsed)
    return packages_by_name


PACKAGES = st.builds(
    Package,
    name=st.sampled_from(["foo", "foo-extra", "bar"]),
    epoch=st.integers(0, 1),
    version=st.sampled_from(["1.0", "1.4"]),
    release=st.sampled_from(["1", "2"]),
    arch=st.sampled_from(["noarch", "x86_64"]),
)
SETS = st.sets(PACKAGES, max_size=6).map(
    lambda state: {
        name: tuple(sorted(p for p in state if p.name == name)) for name in sorted({p.name for p in state})
    }
)


def apply(before, changes):
    """Make the changes in turn; refuse the changes that a package manager would refuse."""
    have = {match for packages in before.values() for match in packages}
    for item in changes:
        if item.before:
            have.remove(item.before)
    for item in changes:
        if item.after:
            assert item.after not in have
            have.add(item.after)
    return {name: tuple(sorted(p for p in have if p.name == name)) for name in {p.name for p in have}}


def test_items_install_change_and_remove_by_name():
    changes = items(packages("foo-1.0-1", "old-1-1", "same-1-1"), packages("foo-1.4-1", "new-1-1", "same-1-1"))
    assert [(item.action, str(item)) for item in changes] == [
        (Action.CHANGE, "change foo-1.0-1.noarch to foo-1.4-1.noarch"),
        (Action.INSTALL, "install new-1-1.noarch"),
        (Action.REMOVE, "remove old-1-1.noarch"),
    ]


def test_items_repair_a_name_left_with_two_packages():
    before = packages("foo-1.0-1", "foo-1.4-1")
    assert items(before, packages("foo-1.4-1")) == (Item("foo", before=package("foo-1.0-1")),)
    assert items(before, packages("foo-1.5-1")) == (
        Item("foo", package("foo-1.0-1"), package("foo-1.5-1")),
        Item("foo", before=package("foo-1.4-1")),
    )


@given(SETS, SETS)
def test_items_lead_there_and_back(before, wanted):
    assert apply(before, items(before, wanted)) == wanted
    assert apply(wanted, items(wanted, before)) == before
    assert items(before, before) == ()
    assert (deviations(wanted, before) == ()) == (before == wanted)


def test_after_replaces_removes_and_adds_and_leaves_the_rest():
    before = packages("foo-1.0-1", "foo-1.4-1", "gone-1-1", "bash-5-1")
    packages_after = after(before, [package("foo-1.5-1")], {"gone", "never"}, [package("dep-1-1")])
    assert packages_after == packages("bash-5-1", "foo-1.5-1", "dep-1-1")
    assert after(before, ()) == before


def test_deviations_name_the_expected_and_the_installed_packages():
    expected = packages("foo-1.4-1", "bar-1-1", "same-1-1")
    installed = packages("foo-1.0-1", "foo-1.4-1", "same-1-1", "extra-1-1")
    assert deviations(expected, installed) == (
        "bar: expected bar-1-1.noarch, found none",
        "extra: expected none, found extra-1-1.noarch",
        "foo: expected foo-1.4-1.noarch, found foo-1.0-1.noarch, foo-1.4-1.noarch",
    )


def test_new_dependencies_are_permitted_and_changes_of_unmanaged_packages_are_not():
    before = packages("foo-1.0-1", "bash-5-1", "lib-1-1", "kernel-1-1")
    changes = items(before, packages("foo-1.4-1", "lib-2-1", "dep-1-1", "kernel-1-1", "kernel-2-1"))
    assert unmanaged(changes, {"foo"}, before) == (
        "would remove bash-5-1.noarch, which was not asked for",
        "would install kernel-2-1.noarch, which was not asked for",
        "would change lib-1-1.noarch to lib-2-1.noarch, which was not asked for",
    )
    assert unmanaged(changes, {"foo", "bash", "lib", "kernel"}, before) == ()


def test_select_takes_the_exact_version_in_its_highest_release():
    available = [package(text) for text in ("foo-1.4-9", "foo-1.4-10", "foo-1.5-1", "foo-1.4-2", "bar-1-1")]
    assert select(available, {"foo": "1.4"}) == ({"foo": package("foo-1.4-10")}, ())
    assert select(available, {"foo": "1.4-9"}) == ({"foo": package("foo-1.4-9")}, ())
    assert select(available, {"foo": None, "bar": None}) == (
        {"foo": package("foo-1.5-1"), "bar": package("bar-1-1")},
        (),
    )


def test_select_does_not_take_names_for_versions():
    available = [package("foo-1.1-1.0-1"), package("foo-1.0-1")]
    assert select(available, {"foo": "1.1"}) == (
        {},
        ("no repository has the package foo 1.1; it has foo 1.0-1",),
    )
    assert select(available, {"foo-1.1": None}) == ({"foo-1.1": package("foo-1.1-1.0-1")}, ())


def test_select_reports_every_name_it_cannot_have():
    assert select([package("foo-1.10-1"), package("foo-1.9-1")], {"foo": "9.9", "bar": None, "baz": "1"}) == (
        {},
        (
            "no repository has the package bar",
            "no repository has the package baz 1",
            "no repository has the package foo 9.9; it has foo 1.9-1, 1.10-1",
        ),
    )


def test_select_prefers_packages_for_this_machine_even_over_higher_releases():
    here, other, neutral = (
        package("foo-1.4-1", arch="x86_64"),
        package("foo-1.4-2", arch="i686"),
        package("foo-1.4-1"),
    )
    assert select([here, other], {"foo": "1.4"}, arch="x86_64")[0] == {"foo": here}
    assert select([other, neutral], {"foo": "1.4"}, arch="x86_64")[0] == {"foo": neutral}
    assert select([other], {"foo": "1.4"}, arch="x86_64")[0] == {"foo": other}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.4", True),
        ("1.4-2", True),
        ("1:1.4", True),
        ("1:1.4-2", True),
        ("0:1.4", False),
        ("1.4-1", False),
        ("1.40", False),
        ("1", False),
        ("01.4", False),
        (":1.4", True),
    ],
)
def test_versions_are_compared_as_text(version, expected):
    assert has_version(package("foo-1.4-2", epoch=1), version) is expected


# Each line from low to high, as rpm's own rpm.vercmp orders them.
def test_the_epoch_goes_before_the_version():
    low, high = package("foo-2.0-1"), package("foo-1.0-1", epoch=1)
    assert order_key(low) < order_key(high)
