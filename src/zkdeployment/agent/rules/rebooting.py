"""Decides whether a host needs a reboot, from the packages that were installed since it booted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.packages import order_key

if TYPE_CHECKING:
    from zkdeployment.base.inventory import Package, Packages
    from zkdeployment.base.system import RebootFacts

#: The packages whose update takes effect only after a reboot: those that ``needs-restarting`` of dnf and of
#: yum-utils lists, further packages of kernels, and libraries of TLS that some distributions build apart, because
#: many processes use them.
NEEDS_REBOOT = frozenset(
    [
        "compat-openssl10",
        "compat-openssl11",
        "dbus",
        "dbus-broker",
        "dbus-daemon",
        "glibc",
        "gnutls",
        "kernel",
        "kernel-64k-core",
        "kernel-core",
        "kernel-rt",
        "kernel-rt-core",
        "kernel-uek",
        "kernel-uek-core",
        "linux-firmware",
        "microcode_ctl",
        "openssl-fips-provider",
        "openssl-libs",
        "systemd",
        "systemd-udev",
    ]
)

#: The packages that contain a kernel, the most exact name first.
_KERNELS = ("kernel-core", "kernel-rt-core", "kernel-uek-core", "kernel-uek", "kernel")


def reboot_reasons(facts: RebootFacts) -> tuple[str, ...]:
    """Return the packages that ask for a reboot, sorted; those that ``needs-restarting`` reports count, too.

    Only packages that were installed after the boot count: ``needs-restarting`` reports others if it has a wrong
    time of the boot, as on a machine without a clock that runs while the machine is off.
    """
    reported = facts.reported or frozenset()
    if facts.changed is None:
        return tuple(sorted(reported))
    return tuple(sorted(facts.changed & (NEEDS_REBOOT | reported)))


def newest_kernel(installed: Packages) -> str | None:
    """Return the release of the newest installed kernel as ``uname -r`` prints it; ``None`` without kernels."""
    for name in _KERNELS:
        if kernels := installed.get(name):
            return _release_of(max(kernels, key=order_key))
    return None


def newest_of_running(installed: Packages, running: str) -> str | None:
    """Return the release of the newest kernel of the package that contains the ``running`` one.

    Both are as ``uname -r`` prints them; packages such as ``kernel-rt-core`` have releases that end in ``+rt``.
    Return ``None`` if no installed package is known to contain the running kernel.
    """
    release, plus, flavour = running.partition("+")
    for name in (f"kernel-{flavour}-core",) if flavour else _KERNELS:
        kernels = installed.get(name, ())
        if release in map(_release_of, kernels):
            return f"{_release_of(max(kernels, key=order_key))}{plus}{flavour}"
    return None


def _release_of(kernel: Package) -> str:
    return f"{kernel.version}-{kernel.release}.{kernel.arch}"
