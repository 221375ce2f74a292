"""Whether a host needs a reboot, and which kernel it should run."""

import pytest

from support.builders import make_package
from zkdeployment.agent.rules.rebooting import newest_kernel, newest_of_running, reboot_reasons
from zkdeployment.base.system import RebootFacts


@pytest.mark.parametrize(
    ("changed", "reported", "expected"),
    [
        ([], None, ()),
        (["bash", "vim"], None, ()),
        (["systemd", "bash", "kernel-core"], None, ("kernel-core", "systemd")),
        (["glibc", "udev", "bash"], ["udev"], ("glibc", "udev")),
        (["bash"], ["glibc", "systemd"], ()),
        (None, ["glibc"], ("glibc",)),
        (None, None, ()),
        (["openssl-libs", "compat-openssl11", "gnutls"], None, ("compat-openssl11", "gnutls", "openssl-libs")),
        (["kernel-uek", "kernel-64k-core", "kernel-headers"], None, ("kernel-64k-core", "kernel-uek")),
        ([], [], ()),
    ],
)
def test_listed_and_reported_packages_that_were_installed_after_the_boot_ask_for_a_reboot(
    changed, reported, expected
):
    changed, reported = (None if names is None else frozenset(names) for names in (changed, reported))
    assert reboot_reasons(RebootFacts("b", 0.0, "5.14", changed=changed, reported=reported)) == expected


def test_the_newest_kernel_is_named_as_uname_names_it():
    old, new = (
        make_package("kernel-core", "5.14.0", release="70"),
        make_package("kernel-core", "5.14.0", release="427"),
    )
    assert newest_kernel({"kernel-core": (new, old)}) == f"5.14.0-427.{new.arch}"
    assert newest_kernel({"bash": (make_package("bash", "5.1"),)}) is None


@pytest.mark.parametrize(
    ("names", "running", "expected"),
    [
        (["kernel-core"], "5-1.noarch", "5-2.noarch"),
        (["kernel-core"], "5-2.noarch", "5-2.noarch"),
        (["kernel-uek"], "5-1.noarch", "5-2.noarch"),
        (["kernel-core", "kernel-rt-core"], "5-1.noarch+rt", "5-2.noarch+rt"),
        (["kernel-core", "kernel-64k-core"], "5-2.noarch+64k", "5-2.noarch+64k"),
        (["kernel-rt-core"], "5-1.noarch", "5-2.noarch"),
        (["kernel-core"], "5-1.noarch+rt", None),
        (["kernel-core"], "6.1-own", None),
        ([], "5-1.noarch", None),
    ],
)
def test_a_running_kernel_is_compared_with_those_of_its_package_only(names, running, expected):
    installed = {name: tuple(make_package(name, "5", release=each) for each in "12") for name in names}
    installed |= {name: (make_package(name, "7"),) for name in ("kernel", "kernel-core") if name not in names}
    assert newest_of_running(installed, running) == expected
