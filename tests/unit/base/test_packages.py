import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import make_package
from zkdeployment.base.inventory import Package
from zkdeployment.base.packages import (
    Action,
    Item,
    after,
    changed,
    deviations,
    has_version,
    is_installed,
    items,
    order_key,
    select,
    unmanaged,
    word_size,
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
    arch=st.sampled_from(["noarch", "x86_64", "i686"]),
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
    packages_after = after(before, [package("foo-1.5-1"), package("dep-1-1")], {"gone", "never"})
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
    assert unmanaged(changes, {"foo"}) == (
        "would remove bash-5-1.noarch, which was not asked for",
        "would change lib-1-1.noarch to lib-2-1.noarch, which was not asked for",
    )
    assert unmanaged(changes, {"foo", "bash", "lib"}) == ()


def test_select_takes_the_exact_version_in_its_highest_release():
    available = [package(text) for text in ("foo-1.4-9", "foo-1.4-10", "foo-1.5-1", "foo-1.4-2", "bar-1-1")]
    assert select(available, {"foo": "1.4"}) == ({"foo": (package("foo-1.4-10"),)}, ())
    assert select(available, {"foo": "1.4-9"}) == ({"foo": (package("foo-1.4-9"),)}, ())
    assert select(available, {"foo": None, "bar": None}) == (
        {"foo": (package("foo-1.5-1"),), "bar": (package("bar-1-1"),)},
        (),
    )


def test_select_does_not_take_names_for_versions():
    available = [package("foo-1.1-1.0-1"), package("foo-1.0-1")]
    assert select(available, {"foo": "1.1"}) == (
        {},
        ("no repository has the package foo 1.1; it has foo 1.0-1",),
    )
    assert select(available, {"foo-1.1": None}) == ({"foo-1.1": (package("foo-1.1-1.0-1"),)}, ())


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
    assert select([here, other], {"foo": "1.4"}, arch="x86_64")[0] == {"foo": (here,)}
    assert select([other, neutral], {"foo": "1.4"}, arch="x86_64")[0] == {"foo": (neutral,)}
    assert select([other], {"foo": "1.4"}, arch="x86_64")[0] == {"foo": (other,)}


OLD_64, OLD_32, OLD_ANY = (package("lib-1-1", arch=arch) for arch in ("x86_64", "i686", "noarch"))
NEW_64, NEW_32, NEW_ANY = (package("lib-2-1", arch=arch) for arch in ("x86_64", "i686", "noarch"))


@pytest.mark.parametrize(
    ("installed", "available", "chosen"),
    [
        ([], [NEW_64, NEW_32], [NEW_64]),
        ([OLD_64], [NEW_64, NEW_32], [NEW_64]),
        ([OLD_32], [NEW_64, NEW_32], [NEW_32]),
        ([OLD_64, OLD_32], [NEW_64, NEW_32], [NEW_32, NEW_64]),
        ([OLD_64, OLD_32], [NEW_ANY], [NEW_ANY]),
        ([OLD_ANY], [NEW_64, NEW_32], [NEW_64]),
        ([OLD_32], [NEW_64], [NEW_64]),
    ],
)
def test_both_word_sizes_of_an_installed_package_get_the_version(installed, available, chosen):
    assert select(available, {"lib": "2"}, arch="x86_64", installed={"lib": tuple(installed)}) == (
        {"lib": tuple(chosen)},
        (),
    )


@pytest.mark.parametrize(
    ("installed", "available", "lacking"),
    [
        ([OLD_64], [NEW_32], "x86_64, which is installed; it has lib 1-1"),
        ([OLD_64, OLD_32], [NEW_32], "x86_64, which is installed; it has lib 1-1"),
        ([OLD_64, OLD_32], [NEW_64], "i686, which is installed"),
    ],
)
def test_a_version_for_another_word_size_only_does_not_replace_an_installed_package(installed, available, lacking):
    assert select([OLD_64, *available], {"lib": "2"}, arch="x86_64", installed={"lib": tuple(installed)}) == (
        {},
        (f"no repository has the package lib 2 for {lacking}",),
    )


@pytest.mark.parametrize(
    ("arch", "size"),
    [
        ("noarch", None),
        ("x86_64", 64),
        ("i686", 32),
        ("aarch64", 64),
        ("s390x", 64),
        ("s390", 32),
        ("ppc64le", 64),
    ],
)
def test_rpm_distinguishes_two_word_sizes(arch, size):
    assert word_size(arch) == size


@pytest.mark.parametrize(
    ("present", "coming", "expected"),
    [
        ([OLD_64], [OLD_32], [OLD_32, OLD_64]),
        ([OLD_64, OLD_32], [NEW_64], [OLD_32, NEW_64]),
        ([OLD_64, OLD_32], [NEW_ANY], [NEW_ANY]),
        ([OLD_ANY], [NEW_32], [NEW_32]),
        ([OLD_32], [package("lib-2-1", arch="i586")], [package("lib-2-1", arch="i586")]),
    ],
)
def test_a_package_replaces_those_of_its_word_size(present, coming, expected):
    assert after({"lib": tuple(present)}, coming) == {"lib": tuple(sorted(expected))}
    assert after({"lib": tuple(present)}, coming, installonly={"lib"}) == {
        "lib": tuple(sorted([*present, *coming]))
    }


def test_items_pair_packages_of_one_word_size_first():
    both, newer = {"lib": (OLD_32, OLD_64)}, {"lib": (NEW_32, NEW_64)}
    assert items(both, newer) == (Item("lib", OLD_32, NEW_32), Item("lib", OLD_64, NEW_64))
    assert items({"lib": (OLD_64,)}, {"lib": (OLD_32, OLD_64)}) == (Item("lib", None, OLD_32),)
    assert items(both, {"lib": (NEW_64,)}) == (Item("lib", OLD_64, NEW_64), Item("lib", OLD_32))
    assert items({"lib": (OLD_32,)}, {"lib": (NEW_64,)}) == (Item("lib", OLD_32, NEW_64),)


@given(SETS, SETS, SETS)
def test_a_change_reported_by_dnf_leads_to_its_packages(before, installed, removed):
    def members(state):
        return {package for same in state.values() for package in same}

    assert members(changed(before, members(installed), members(removed))) == (
        members(before) - members(removed) | members(installed)
    )


@pytest.mark.parametrize(
    ("installed", "version", "expected"),
    [
        ([], None, (False, False)),
        ([OLD_64], None, (True, True)),
        ([OLD_64], "1", (True, True)),
        ([OLD_64], "2", (False, False)),
        ([OLD_64, OLD_32], "1", (True, True)),
        ([OLD_64, NEW_32], "2", (False, True)),
        ([OLD_64, NEW_32], None, (True, True)),
        ([OLD_64, OLD_ANY], "1", (True, True)),
        ([OLD_64, NEW_ANY], None, (False, True)),
        ([OLD_64, NEW_64], "2", (False, True)),
        ([OLD_64, NEW_64], "1", (False, True)),
        ([OLD_64, NEW_64], "3", (False, False)),
    ],
)
def test_a_package_is_installed_if_all_have_the_version_or_if_one_of_several_versions_has(
    installed, version, expected
):
    assert (
        is_installed(installed, version),
        is_installed(installed, version, installonly=True),
    ) == expected


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
