"""The id of a boot tells boots of containers apart that share the id of their kernel."""

import pytest

from zkdeployment.base.machine.boots import compose_boot_id

KERNEL = "3f0b5a3e-6b1c-4d36-9a44-0d2f6c1f3a11\n"


def init(started, program="systemd"):
    """Return the content of ``/proc/1/stat``."""
    return (
        f"1 ({program}) S 0 1 1 0 -1 4194560 71 8 0 0 5 3 0 0 20 0 1 0 {started} 169 3200 18446744073709551615\n"
    )


@pytest.mark.parametrize(
    ("kernel", "stat", "expected"),
    [
        pytest.param(KERNEL, init(4), f"{KERNEL.strip()}-4", id="a machine"),
        pytest.param(KERNEL, init(812345), f"{KERNEL.strip()}-812345", id="a container"),
        pytest.param(KERNEL, init(4, program="a ) S 7 (init)"), f"{KERNEL.strip()}-4", id="an odd name"),
        pytest.param(KERNEL, "", KERNEL.strip(), id="hidden processes"),
        pytest.param(KERNEL, "1 (systemd) S 0 1\n", KERNEL.strip(), id="a short line"),
    ],
)
def test_the_id_of_a_boot_has_the_kernel_and_the_start_of_process_1(kernel, stat, expected):
    assert compose_boot_id(kernel, stat) == expected
