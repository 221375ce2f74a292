from dataclasses import replace

from support.builders import make_package as package
from zkdeployment.agent.rules.availability import (
    Demand,
    HostSoftware,
    Offers,
    PaperTransaction,
    architecture_problems,
    group_transactions,
)
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Package, Packages
from zkdeployment.base.plan import PackageChange
from zkdeployment.base.source_files import Severity


def by_name(*packages: Package) -> Packages:
    return {one.name: (one,) for one in packages}


SHOP1, SHOP2, LIB, OLD, CTL = package("shop"), package("shop", "2"), package("lib"), package("old"), package("ctl")
UPGRADE = PackageChange(want={"shop": "2"}, managed=frozenset({"shop", "old"}))


def software(
    name: str, *changes: PackageChange, installed: tuple[Package, ...], put_back: frozenset[str] = frozenset()
) -> HostSoftware:
    return HostSoftware(Identity(name, name), by_name(*installed), "", changes, (), put_back)


def test_hosts_with_equal_packages_and_changes_share_one_transaction():
    hosts = [software(f"h{number}", UPGRADE, installed=(SHOP1, LIB)) for number in range(1000)]
    other = software("other", UPGRADE, installed=(SHOP1, OLD))
    groups = group_transactions([*hosts, other], by_name(SHOP2))
    assert [len(identities) for identities in groups.values()] == [1000, 1]
    same, different = groups
    assert same == PaperTransaction(
        frozenset({SHOP1, LIB}), frozenset({LIB}), frozenset(), frozenset({SHOP2}), frozenset()
    )
    assert (different.stay, different.stay_in_any_version) == (frozenset(), {"old"})


def test_a_transaction_that_removes_packages_may_remove_other_managed_ones():
    change = PackageChange(
        want={"shop": "2"}, remove=frozenset({"lib"}), managed=frozenset({"shop", "old", "lib"})
    )
    (transaction,) = group_transactions([software("h1", change, installed=(SHOP1, LIB, OLD))], by_name(SHOP2))
    assert (transaction.remove, transaction.stay, transaction.stay_in_any_version) == ({"lib"}, set(), set())


def test_the_second_transaction_of_a_host_begins_with_the_packages_after_the_first():
    controller = PackageChange(want={"ctl": "1"}, managed=frozenset({"ctl"}))
    host = software("h1", controller, UPGRADE, installed=(SHOP1,))
    first, second = group_transactions([host], by_name(SHOP2, CTL))
    assert (first.stay, first.install) == ({SHOP1}, {CTL})
    assert (second.present, second.stay, second.install) == ({SHOP1, CTL}, {CTL}, {SHOP2})


def test_a_package_that_no_repository_has_ends_the_transactions_of_its_host():
    assert group_transactions([software("h1", UPGRADE, installed=())], {}) == {}


def test_an_original_version_that_the_host_kept_comes_from_no_repository():
    change = PackageChange(want={"shop": "2", "lib": "0:0.9-1"}, managed=frozenset({"shop", "lib"}))
    host = software("h1", change, installed=(SHOP1, LIB), put_back=frozenset({"lib"}))
    (transaction,) = group_transactions([host], by_name(SHOP2))
    assert (transaction.install, transaction.stay) == ({SHOP2}, set())


LIB64, LIB32 = (package("lib", arch=arch) for arch in ("x86_64", "i686"))
LIB64_2, LIB32_2 = (package("lib", "2", arch=arch) for arch in ("x86_64", "i686"))


def host_with_both(*, installonly: frozenset[str] = frozenset()) -> HostSoftware:
    """A host that has lib 1 for two architectures, and wants lib 2."""
    change = PackageChange(want={"lib": "2"}, managed=frozenset({"lib"}))
    demand = Demand("/web", "lib", "2")
    return HostSoftware(
        Identity("h1", "h1"),
        {"lib": (LIB32, LIB64)},
        "x86_64",
        (change,),
        (demand,),
        installonly=installonly,
    )


def test_both_architectures_of_a_package_are_installed():
    (transaction,) = group_transactions([host_with_both()], {"lib": (LIB32_2, LIB64_2)})
    assert (transaction.install, transaction.stay) == ({LIB32_2, LIB64_2}, set())


def test_a_version_that_repositories_have_for_one_of_two_architectures_is_a_problem():
    available = Offers({"lib": (LIB64_2, LIB32)}, {})
    (problem,) = architecture_problems([host_with_both()], available)
    assert problem.message == (
        "cannot install lib 2 on h1 (h1): no repository has the package lib 2 for i686, which is installed; it has"
        " lib 1-1; publish it, or correct the version in the tree"
    )
    (problem,) = architecture_problems([replace(host_with_both(), absent=True)], available)
    assert (problem.severity, "absent" in problem.message) == (Severity.WARNING, True)
    assert list(architecture_problems([host_with_both()], Offers({"lib": (LIB64_2, LIB32_2)}, {}))) == []
    assert list(architecture_problems([host_with_both()], Offers({}, {}))) == []
    (problem,) = architecture_problems([host_with_both()], replace(available, unreachable={"web": "it is away"}))
    assert problem.severity is Severity.WARNING


def test_a_kernel_module_stays_when_another_version_is_installed():
    host = host_with_both(installonly=frozenset({"lib"}))
    (transaction,) = group_transactions([host], {"lib": (LIB32_2, LIB64_2)})
    assert transaction.stay == {LIB32, LIB64}
