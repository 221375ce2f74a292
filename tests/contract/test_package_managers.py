"""The contract of ``ports.PackageManager``, for the fake and for dnf."""

import pytest

from support.hosts.rpm_hosts import change
from zkdeployment.base.errors import PackageError


def deploy(host, want, *remove: str, also=()):
    transaction = host.manager.prepare(change(want, *remove, also=also))
    host.manager.commit(transaction)
    return transaction


def put(host, packages):
    """Install packages without the package manager under test, which takes less time."""
    for name, version in packages.items():
        host.put(name, version)


def test_a_new_host_has_no_packages(host):
    assert host.manager.installed() == {}


def test_exactly_the_wanted_version_is_installed(host):
    deploy(host, {"foo": "1.1"})
    assert host.installed == {"foo-1.1-1.noarch"}
    assert [package.nevra for package in host.manager.installed()["foo"]] == ["foo-1.1-1.noarch"]


def test_the_newest_of_several_releases_is_installed(host):
    deploy(host, {"foo": "1.4"})
    assert host.installed == {"foo-1.4-2.noarch"}


def test_a_version_may_include_the_release(host):
    deploy(host, {"foo": "1.4-1"})
    assert host.installed == {"foo-1.4-1.noarch"}


def test_a_version_may_omit_the_epoch(host):
    deploy(host, {"epochal": "1.0"})
    assert host.installed == {"epochal-1:1.0-1.noarch"}


def test_a_package_is_upgraded_and_downgraded(host):
    deploy(host, {"foo": "1.0"})
    deploy(host, {"foo": "1.4-1"})
    deploy(host, {"foo": "1.1"})
    assert host.installed == {"foo-1.1-1.noarch"}


def test_one_transaction_installs_upgrades_downgrades_removes_and_patches(host):
    deploy(host, {"foo": "1.0", "bar": "2.0", "library": "1.0"})
    before = host.manager.installed()
    transaction = deploy(host, {"foo": "1.1", "bar": "1.0", "foo-patch": "3"}, "library")
    assert host.installed == {"foo-1.1-1.noarch", "bar-1.0-1.noarch", "foo-patch-3-1.noarch"}
    assert transaction.before == before
    assert transaction.after == host.manager.installed()
    assert transaction.reversible


def test_a_package_name_may_end_in_a_version(host):
    deploy(host, {"foo-1.1": None})
    assert host.installed == {"foo-1.1-5.0-1.noarch"}
    deploy(host, {"foo": "1.1"})
    assert host.installed == {"foo-1.1-5.0-1.noarch", "foo-1.1-1.noarch"}


def test_a_name_with_a_version_matches_no_package_of_that_version(host):
    with pytest.raises(PackageError, match=r"no repository has the package foo-1\.4"):
        host.manager.prepare(change({"foo-1.4": None}))


def test_an_installed_version_needs_no_transaction(host):
    deploy(host, {"foo": "1.1"})
    transaction = host.manager.prepare(change({"foo": "1.1"}, "bar"))
    assert transaction.before == transaction.after == host.manager.installed()


def test_any_installed_version_suffices_without_a_wanted_version(host):
    host.put("foo", "1.0")
    transaction = host.manager.prepare(change({"foo": None}))
    assert transaction.before == transaction.after


@pytest.mark.parametrize("name", ["foo*", "--assumeno", "@group", "/etc/passwd", "foo bar", ""])
def test_an_invalid_package_name_is_refused(host, name):
    with pytest.raises(PackageError, match="is not a package name"):
        host.manager.prepare(change({name: "1.0"}))


def test_the_error_for_a_missing_version_names_the_available_versions(host):
    host.put("bar", "1.0")
    with pytest.raises(
        PackageError, match=r"no repository has the package foo 9\.9; it has foo 1\.0-1, 1\.1-1"
    ) as info:
        host.manager.prepare(change({"bar": "2.0", "foo": "9.9"}))
    assert not info.value.changed
    assert host.installed == {"bar-1.0-1.noarch"}


@pytest.mark.parametrize(("name", "version"), [("foo", "7.7"), ("nickname", None)])
def test_a_package_that_provides_a_name_is_not_installed_for_that_name(host, name, version):
    with pytest.raises(PackageError, match=f"no repository has the package {name}"):
        host.manager.prepare(change({name: version}))
    assert host.installed == set()


def test_new_dependencies_are_installed(host):
    transaction = deploy(host, {"reader": "2.0"})
    assert host.installed == {"reader-2.0-1.noarch", "library-2.0-1.noarch"}
    assert transaction.after == host.manager.installed()


def test_an_unmanaged_installed_dependency_is_never_changed(host):
    host.put("library", "1.0")
    with pytest.raises(PackageError, match=r"library-1\.0-1\.noarch"):
        host.manager.prepare(change({"reader": "2.0"}))
    assert host.installed == {"library-1.0-1.noarch"}


def test_a_managed_dependency_is_changed_in_the_same_transaction(host):
    deploy(host, {"reader": "1.0", "library": "1.0"})
    deploy(host, {"reader": "2.0"}, also=("library",))
    assert host.installed == {"reader-2.0-1.noarch", "library-2.0-1.noarch"}


@pytest.mark.parametrize("arguments", [({}, "library"), ({"library": "2.0"},)])
def test_a_package_that_unmanaged_packages_need_is_neither_removed_nor_changed(host, arguments):
    host.put("library", "1.0")
    host.put("reader", "1.0")
    with pytest.raises(PackageError, match="reader"):
        host.manager.prepare(change(*arguments))
    assert host.installed == {"library-1.0-1.noarch", "reader-1.0-1.noarch"}


def test_an_unmanaged_package_is_never_replaced(host):
    host.put("bar", "1.0")
    with pytest.raises(
        PackageError, match=r"not managed by zkdeployment|bar-1\.0-1\.noarch, which was not asked for"
    ):
        host.manager.prepare(change({"successor": "1.0"}))
    assert host.installed == {"bar-1.0-1.noarch"}


def test_a_conflicting_package_is_refused(host):
    host.put("foo", "1.0")
    with pytest.raises(PackageError, match="cannot be installed together"):
        host.manager.prepare(change({"rival": "1.0"}))


def test_a_package_may_replace_a_conflicting_package_that_is_removed(host):
    deploy(host, {"foo": "1.0"})
    deploy(host, {"rival": "1.0"}, "foo")
    assert host.installed == {"rival-1.0-1.noarch"}


def test_the_error_names_a_missing_dependency(host):
    with pytest.raises(PackageError, match="nobody-has-this"):
        host.manager.prepare(change({"lonely": "1.0"}))


@pytest.mark.parametrize("name", ["unsigned", "foreign"])
def test_a_package_without_the_required_signature_is_refused(host, name):
    with pytest.raises(PackageError, match="lacks the signature that its repository requires"):
        host.manager.prepare(change({"foo": "1.0", name: "1.0"}))
    assert host.installed == set()


#: For each kind of scriptlet that fails: the installed package, the changed one, and the owner of the scriptlet.
FAILING_SCRIPTLETS = {
    "pre": ({}, {"first-aid": "1.0"}, "first-aid-1.0"),
    "post": ({"last-aid": "1.0"}, {"last-aid": "2.0"}, "last-aid-2.0"),
    "posttrans": ({}, {"afterthought": "1.0"}, "afterthought-1.0"),
    "postun": ({"farewell": "1.0"}, {"farewell": "2.0"}, "farewell-1.0"),
    "triggerin": ({"onlooker": "1.0"}, {"foo": "1.0"}, "onlooker-1.0"),
    "transfiletriggerin": ({"scanner": "1.0"}, {"foo": "1.0"}, "scanner-1.0"),
}


@pytest.mark.parametrize(
    ("kind", "remove"),
    [
        ("post", ()),
        *(pytest.param(kind, (), marks=pytest.mark.nightly) for kind in FAILING_SCRIPTLETS if kind != "post"),
        ("pre", ("bar",)),
        pytest.param("post", ("bar",), marks=pytest.mark.nightly),
    ],
)
def test_all_packages_are_rolled_back_after_a_failed_scriptlet(host, kind, remove):
    installed, changed, failing = FAILING_SCRIPTLETS[kind]
    put(host, {"library": "1.0", "bar": "2.0", **installed})
    before = host.installed
    transaction = host.manager.prepare(change({"library": "2.0", **changed}, *remove))
    with pytest.raises(PackageError, match=rf"scriptlet failed.*{failing}") as info:
        host.manager.commit(transaction)
    assert not info.value.changed
    assert host.installed == before


def test_a_rollback_needs_no_repository(host):
    deploy(host, {"foo": "1.0", "bar": "1.0"})
    host.withdraw("foo", "1.0")
    host.withdraw("bar", "1.0")
    transaction = host.manager.prepare(change({"foo": "1.1", "first-aid": "1.0"}, "bar"))
    assert transaction.reversible
    with pytest.raises(PackageError, match="scriptlet failed"):
        host.manager.commit(transaction)
    assert host.installed == {"foo-1.0-1.noarch", "bar-1.0-1.noarch"}


def test_a_transaction_is_not_committed_after_another_program_changed_packages(host):
    host.put("foo", "1.0")
    transaction = host.manager.prepare(change({"foo": "1.1"}))
    host.put("bar", "1.0")
    with pytest.raises(PackageError, match="another program changed packages") as info:
        host.manager.commit(transaction)
    assert info.value.retry_helps
    assert not info.value.changed
    assert host.installed == {"foo-1.0-1.noarch", "bar-1.0-1.noarch"}


def test_an_outdated_transaction_succeeds_after_a_new_preparation(host):
    host.put("foo", "1.0")
    outdated = host.manager.prepare(change({"foo": "1.1"}, "library"))
    host.put("library", "1.0")
    with pytest.raises(PackageError):
        host.manager.commit(outdated)
    deploy(host, {"foo": "1.1"}, "library")
    assert host.installed == {"foo-1.1-1.noarch"}


def test_nothing_is_committed_while_another_program_changes_packages(host):
    host.put("foo", "1.0")
    transaction = host.manager.prepare(change({"foo": "1.1"}))
    with host.locked(), pytest.raises(PackageError, match="another program is changing packages") as info:
        host.manager.commit(transaction)
    assert info.value.retry_helps
    assert host.installed == {"foo-1.0-1.noarch"}
    deploy(host, {"foo": "1.1"})
    assert host.installed == {"foo-1.1-1.noarch"}


def test_nothing_changes_while_a_repository_cannot_be_reached(host):
    host.put("foo", "1.0")
    host.lose_repository()
    with pytest.raises(PackageError, match="a repository cannot be reached") as info:
        host.manager.prepare(change({"foo": "1.1"}))
    assert info.value.retry_helps
    assert host.installed == {"foo-1.0-1.noarch"}


def test_a_removal_needs_no_repository(host):
    deploy(host, {"foo": "1.0"})
    host.lose_repository()
    deploy(host, {}, "foo")
    assert host.installed == set()


def test_an_interrupted_transaction_is_rolled_back(host):
    deploy(host, {"foo": "1.4-1", "bar": "1.0"})
    before = host.installed
    host.crash({"foo": "1.1", "bar": "2.0", "slow": "1.0"})
    host.manager.recover()
    assert host.installed == before
    deploy(host, {"foo": "1.1"})
    assert host.installed == {"foo-1.1-1.noarch", "bar-1.0-1.noarch"}


def test_recovery_changes_nothing_without_an_interrupted_transaction(host):
    host.manager.recover()
    deploy(host, {"foo": "1.0"})
    host.drop("foo")
    host.manager.recover()
    assert host.installed == set()


def test_a_package_with_a_lost_script_is_reported_and_reinstalled(host):
    deploy(host, {"service": "1.0", "foo-1.1": None, "epochal": "1.0", "bar": "1.0"})
    before = host.manager.installed()
    assert host.manager.lost_scripts(before) == frozenset()
    for name in ("service", "epochal"):
        host.lose_files(name)
    host.withdraw("service", "1.0")
    assert host.manager.lost_scripts(before) == {"service", "epochal"}
    host.manager.commit(host.manager.prepare(change(again=("service", "epochal"))))
    assert host.manager.lost_scripts(before) == frozenset()
    assert host.manager.installed() == before


def test_packages_are_reinstalled_in_the_transaction_that_changes_others(host):
    put(host, {"service": "1.0", "bar": "1.0", "library": "1.0"})
    host.lose_files("service")
    host.manager.commit(host.manager.prepare(change({"bar": "2.0"}, "library", again=("service",))))
    assert host.installed == {"service-1.0-1.noarch", "bar-2.0-1.noarch"}
    assert host.manager.lost_scripts(host.manager.installed()) == frozenset()


def test_a_removed_or_changed_package_is_not_reinstalled(host):
    put(host, {"service": "1.0", "bar": "1.0"})
    host.manager.commit(host.manager.prepare(change({"service": "2.0"}, "bar", again=("service", "bar", "gone"))))
    assert host.installed == {"service-2.0-1.noarch"}


#: One change installs packages only; the other also removes one, which takes another way through dnf.
BOTH_WAYS = pytest.mark.parametrize(
    "removed",
    [pytest.param((), id=""), pytest.param(("bar",), id="with a removal", marks=pytest.mark.nightly)],
)


def deploy_with(host, removed, want):
    """Make a change on a host that has bar, and return the packages without bar."""
    host.put("bar", "1.0")
    deploy(host, want, *removed)
    return host.installed - {"bar-1.0-1.noarch"}


@BOTH_WAYS
@pytest.mark.parametrize("patches", [{}, pytest.param({"twin": "1.0"}, marks=pytest.mark.nightly)])
def test_a_library_stays_when_the_one_of_another_architecture_is_required(host, removed, patches):
    host.put("twin", "1.0", "x86_64")
    assert deploy_with(host, removed, {"emulator": "1.0", **patches}) == {
        "emulator-1.0-1.noarch",
        "twin-1.0-1.i686",
        "twin-1.0-1.x86_64",
    }


@BOTH_WAYS
@pytest.mark.parametrize("version", ["1.1", None])
def test_a_package_for_two_architectures_gets_the_version_for_both(host, removed, version):
    host.put("twin", "1.0", "x86_64")
    host.put("twin", "1.0", "i686")
    expected = version or "1.0"
    assert deploy_with(host, removed, {"twin": version}) == {
        f"twin-{expected}-1.i686",
        f"twin-{expected}-1.x86_64",
    }


def test_a_package_for_two_architectures_is_downgraded_and_removed_for_both(host):
    host.put("twin", "1.1", "x86_64")
    host.put("twin", "1.1", "i686")
    deploy(host, {"twin": "1.0"})
    assert host.installed == {"twin-1.0-1.i686", "twin-1.0-1.x86_64"}
    deploy(host, {}, "twin")
    assert host.installed == set()


@BOTH_WAYS
def test_both_architectures_are_rolled_back(host, removed):
    host.put("bar", "1.0")
    host.put("twin", "1.0", "x86_64")
    before = host.installed
    transaction = host.manager.prepare(change({"twin": "1.1", "first-aid": "1.0"}, *removed))
    with pytest.raises(PackageError, match="first-aid"):
        host.manager.commit(transaction)
    assert host.installed == before


@pytest.mark.parametrize(
    ("installed", "version", "lacking"),
    [(["i686", "x86_64"], "1.2", "i686"), (["x86_64"], "1.3", "x86_64"), (["i686", "x86_64"], "1.3", "x86_64")],
)
def test_a_version_that_is_not_available_for_an_installed_architecture_is_refused(
    host, installed, version, lacking
):
    for arch in installed:
        host.put("twin", "1.0", arch)
    before = host.installed
    with pytest.raises(
        PackageError,
        match=rf"no repository has the package twin {version} for {lacking}, which is installed; it has",
    ):
        host.manager.prepare(change({"twin": version}))
    assert host.installed == before


@BOTH_WAYS
def test_software_changes_from_32_to_64_bits(host, removed):
    host.put("ported", "1.0")
    assert deploy_with(host, removed, {"ported": "2.0"}) == {"ported-2.0-1.x86_64"}


@BOTH_WAYS
@pytest.mark.parametrize("want", [{"kmod": "1.1"}, pytest.param({"driver": "1.1"}, marks=pytest.mark.nightly)])
def test_a_kernel_module_is_installed_beside_the_older_one(host, removed, want):
    host.put("kmod", "1.0")
    assert host.manager.installonly() == {"kmod"}
    found = deploy_with(host, removed, want)
    assert found - {"driver-1.1-1.noarch"} == {"kmod-1.0-1.x86_64", "kmod-1.1-1.x86_64"}
    transaction = host.manager.prepare(change(want))
    assert transaction.before == transaction.after == host.manager.installed()


def test_an_older_kernel_module_is_not_removed_by_a_rollback(host):
    host.put("kmod", "1.0")
    transaction = host.manager.prepare(change({"kmod": "1.1", "first-aid": "1.0"}))
    with pytest.raises(PackageError, match="first-aid"):
        host.manager.commit(transaction)
    assert host.installed == {"kmod-1.0-1.x86_64"}


def test_a_package_for_two_architectures_is_reinstalled_for_both(host):
    host.put("bar", "1.0")
    host.put("twin", "1.0", "x86_64")
    host.put("twin", "1.0", "i686")
    before = host.installed
    host.manager.commit(host.manager.prepare(change({"bar": "2.0", "emulator": "1.0"}, again=("twin",))))
    assert host.installed == before - {"bar-1.0-1.noarch"} | {"bar-2.0-1.noarch", "emulator-1.0-1.noarch"}
