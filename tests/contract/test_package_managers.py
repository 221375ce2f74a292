"""What every package manager does, the fake and the real one alike."""

import pytest

from support.rpm_hosts import change
from zkdeployment.errors import PackageError


def make(host, want, *remove: str, also=()):
    transaction = host.manager.prepare(change(want, *remove, also=also))
    host.manager.commit(transaction)
    return transaction


def test_a_new_host_has_no_packages(host):
    assert host.manager.installed() == {}


def test_exactly_the_version_wanted_is_installed(host):
    make(host, {"foo": "1.1"})
    assert host.installed == {"foo-1.1-1.noarch"}
    assert [package.nevra for package in host.manager.installed()["foo"]] == ["foo-1.1-1.noarch"]


def test_of_several_releases_the_newest_is_taken(host):
    make(host, {"foo": "1.4"})
    assert host.installed == {"foo-1.4-2.noarch"}


def test_a_release_may_be_asked_for(host):
    make(host, {"foo": "1.4-1"})
    assert host.installed == {"foo-1.4-1.noarch"}


def test_an_epoch_need_not_be_named(host):
    make(host, {"epochal": "1.0"})
    assert host.installed == {"epochal-1:1.0-1.noarch"}


def test_a_package_goes_up_and_down(host):
    make(host, {"foo": "1.0"})
    make(host, {"foo": "1.4-1"})
    make(host, {"foo": "1.1"})
    assert host.installed == {"foo-1.1-1.noarch"}


def test_one_transaction_installs_upgrades_downgrades_removes_and_patches(host):
    make(host, {"foo": "1.0", "bar": "2.0", "library": "1.0"})
    before = host.manager.installed()
    transaction = make(host, {"foo": "1.1", "bar": "1.0", "foo-patch": "3"}, "library")
    assert host.installed == {"foo-1.1-1.noarch", "bar-1.0-1.noarch", "foo-patch-3-1.noarch"}
    assert transaction.before == before
    assert transaction.after == host.manager.installed()
    assert transaction.reversible


def test_a_name_that_ends_like_a_version_is_that_name(host):
    make(host, {"foo-1.1": None})
    assert host.installed == {"foo-1.1-5.0-1.noarch"}
    make(host, {"foo": "1.1"})
    assert host.installed == {"foo-1.1-5.0-1.noarch", "foo-1.1-1.noarch"}


def test_a_version_is_not_taken_for_a_name(host):
    with pytest.raises(PackageError, match=r"no repository has the package foo-1\.4"):
        host.manager.prepare(change({"foo-1.4": None}))


def test_what_is_there_needs_no_transaction(host):
    make(host, {"foo": "1.1"})
    transaction = host.manager.prepare(change({"foo": "1.1"}, "bar"))
    assert transaction.before == transaction.after == host.manager.installed()


def test_any_version_is_good_enough_if_none_is_asked_for(host):
    host.put("foo", "1.0")
    transaction = host.manager.prepare(change({"foo": None}))
    assert transaction.before == transaction.after


@pytest.mark.parametrize("name", ["foo*", "--assumeno", "@group", "/etc/passwd", "foo bar", ""])
def test_what_is_no_package_name_is_refused(host, name):
    with pytest.raises(PackageError, match="is not a package name"):
        host.manager.prepare(change({name: "1.0"}))


def test_a_missing_version_is_named_with_what_there_is(host):
    make(host, {"bar": "1.0"})
    with pytest.raises(
        PackageError, match=r"no repository has the package foo 9\.9; it has foo 1\.0-1, 1\.1-1"
    ) as info:
        host.manager.prepare(change({"bar": "2.0", "foo": "9.9"}))
    assert not info.value.changed
    assert host.installed == {"bar-1.0-1.noarch"}


@pytest.mark.parametrize(("name", "version"), [("foo", "7.7"), ("nickname", None)])
def test_a_package_that_stands_in_for_another_is_not_taken_for_it(host, name, version):
    with pytest.raises(PackageError, match=f"no repository has the package {name}"):
        host.manager.prepare(change({name: version}))
    assert host.installed == set()


def test_new_dependencies_come_in(host):
    transaction = make(host, {"reader": "2.0"})
    assert host.installed == {"reader-2.0-1.noarch", "library-2.0-1.noarch"}
    assert transaction.after == host.manager.installed()


def test_a_dependency_that_is_installed_but_not_ours_is_never_changed(host):
    host.put("library", "1.0")
    with pytest.raises(PackageError, match=r"library-1\.0-1\.noarch"):
        host.manager.prepare(change({"reader": "2.0"}))
    assert host.installed == {"library-1.0-1.noarch"}


def test_a_dependency_that_is_ours_is_changed_with_it(host):
    make(host, {"reader": "1.0", "library": "1.0"})
    make(host, {"reader": "2.0"}, also=("library",))
    assert host.installed == {"reader-2.0-1.noarch", "library-2.0-1.noarch"}


@pytest.mark.parametrize("words", [({}, "library"), ({"library": "2.0"},)])
def test_what_others_need_is_neither_removed_nor_changed(host, words):
    host.put("library", "1.0")
    host.put("reader", "1.0")
    with pytest.raises(PackageError, match="reader"):
        host.manager.prepare(change(*words))
    assert host.installed == {"library-1.0-1.noarch", "reader-1.0-1.noarch"}


def test_nothing_of_others_is_displaced(host):
    host.put("bar", "1.0")
    with pytest.raises(PackageError, match="not managed by zkdeployment"):
        host.manager.prepare(change({"successor": "1.0"}))
    assert host.installed == {"bar-1.0-1.noarch"}


def test_what_conflicts_is_refused(host):
    host.put("foo", "1.0")
    with pytest.raises(PackageError, match="do not fit together"):
        host.manager.prepare(change({"rival": "1.0"}))


def test_what_conflicts_may_come_for_what_goes(host):
    make(host, {"foo": "1.0"})
    make(host, {"rival": "1.0"}, "foo")
    assert host.installed == {"rival-1.0-1.noarch"}


def test_a_dependency_nobody_has_is_named(host):
    with pytest.raises(PackageError, match="nobody-has-this"):
        host.manager.prepare(change({"lonely": "1.0"}))


@pytest.mark.parametrize("name", ["unsigned", "foreign"])
def test_what_is_not_signed_by_the_repository_is_refused(host, name):
    with pytest.raises(PackageError, match="not signed as its repository demands"):
        host.manager.prepare(change({"foo": "1.0", name: "1.0"}))
    assert host.installed == set()


@pytest.mark.parametrize(("name", "version"), [("first-aid", "1.0"), ("last-aid", "2.0")])
def test_a_failing_scriptlet_leaves_the_packages_as_they_were(host, name, version):
    make(host, {"foo": "1.0", "bar": "2.0", "last-aid": "1.0"})
    before = host.installed
    transaction = host.manager.prepare(change({"foo": "1.1", name: version, "library": "1.0"}, "bar"))
    with pytest.raises(PackageError, match=rf"scriptlet failed.*{name}-{version}") as info:
        host.manager.commit(transaction)
    assert not info.value.changed
    assert host.installed == before


def test_going_back_needs_no_repository_any_more(host):
    make(host, {"foo": "1.0", "bar": "1.0"})
    host.withdraw("foo", "1.0")
    host.withdraw("bar", "1.0")
    transaction = host.manager.prepare(change({"foo": "1.1", "first-aid": "1.0"}, "bar"))
    assert transaction.reversible
    with pytest.raises(PackageError, match="scriptlet failed"):
        host.manager.commit(transaction)
    assert host.installed == {"foo-1.0-1.noarch", "bar-1.0-1.noarch"}


def test_a_host_that_changed_since_the_preparation_is_left_alone(host):
    make(host, {"foo": "1.0"})
    transaction = host.manager.prepare(change({"foo": "1.1"}))
    host.put("bar", "1.0")
    with pytest.raises(PackageError, match="another program has changed packages") as info:
        host.manager.commit(transaction)
    assert info.value.retry_helps
    assert not info.value.changed
    assert host.installed == {"foo-1.0-1.noarch", "bar-1.0-1.noarch"}


def test_a_change_that_came_too_late_is_made_when_it_is_prepared_anew(host):
    make(host, {"foo": "1.0"})
    late = host.manager.prepare(change({"foo": "1.1"}, "library"))
    host.put("library", "1.0")
    with pytest.raises(PackageError):
        host.manager.commit(late)
    make(host, {"foo": "1.1"}, "library")
    assert host.installed == {"foo-1.1-1.noarch"}


def test_another_program_that_changes_packages_is_in_the_way(host):
    make(host, {"foo": "1.0"})
    transaction = host.manager.prepare(change({"foo": "1.1"}))
    with host.locked(), pytest.raises(PackageError, match="another program is changing packages") as info:
        host.manager.commit(transaction)
    assert info.value.retry_helps
    assert host.installed == {"foo-1.0-1.noarch"}
    make(host, {"foo": "1.1"})
    assert host.installed == {"foo-1.1-1.noarch"}


def test_a_repository_that_cannot_be_reached_changes_nothing(host):
    make(host, {"foo": "1.0"})
    host.lose_repository()
    with pytest.raises(PackageError, match="a repository cannot be reached") as info:
        host.manager.prepare(change({"foo": "1.1"}))
    assert info.value.retry_helps
    assert host.installed == {"foo-1.0-1.noarch"}


def test_removing_needs_no_repository(host):
    make(host, {"foo": "1.0"})
    host.lose_repository()
    make(host, {}, "foo")
    assert host.installed == set()


def test_an_agent_that_died_in_a_transaction_is_recovered_from(host):
    make(host, {"foo": "1.4-1", "bar": "1.0"})
    before = host.installed
    host.crash({"foo": "1.1", "bar": "2.0", "slow": "1.0"})
    host.manager.recover()
    assert host.installed == before
    make(host, {"foo": "1.1"})
    assert host.installed == {"foo-1.1-1.noarch", "bar-1.0-1.noarch"}


def test_there_is_nothing_to_recover_from_on_a_host_at_rest(host):
    host.manager.recover()
    make(host, {"foo": "1.0"})
    host.drop("foo")
    host.manager.recover()
    assert host.installed == set()


def test_a_package_that_lost_its_script_is_known_and_installed_again_as_it_was(host):
    make(host, {"service": "1.0", "foo-1.1": None, "epochal": "1.0", "bar": "1.0"})
    before = host.manager.installed()
    assert host.manager.lost_scripts(before) == frozenset()
    for name in ("service", "epochal"):
        host.lose_files(name)
    host.withdraw("service", "1.0")
    assert host.manager.lost_scripts(before) == {"service", "epochal"}
    host.manager.commit(host.manager.prepare(change(again=("service", "epochal"))))
    assert host.manager.lost_scripts(before) == frozenset()
    assert host.manager.installed() == before


def test_packages_are_installed_again_in_the_transaction_that_changes_others(host):
    make(host, {"service": "1.0", "bar": "1.0", "library": "1.0"})
    host.lose_files("service")
    host.manager.commit(host.manager.prepare(change({"bar": "2.0"}, "library", again=("service",))))
    assert host.installed == {"service-1.0-1.noarch", "bar-2.0-1.noarch"}
    assert host.manager.lost_scripts(host.manager.installed()) == frozenset()


def test_what_goes_or_comes_in_another_version_is_not_installed_again(host):
    make(host, {"service": "1.0", "bar": "1.0"})
    host.manager.commit(host.manager.prepare(change({"service": "2.0"}, "bar", again=("service", "bar", "gone"))))
    assert host.installed == {"service-2.0-1.noarch"}
