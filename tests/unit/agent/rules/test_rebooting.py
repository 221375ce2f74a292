"""Whether a host needs a reboot, and which kernel it should run."""

import pytest

from support.builders import make_package
from zkdeployment.agent.rules.rebooting import newest_kernel, reboot_reasons
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
