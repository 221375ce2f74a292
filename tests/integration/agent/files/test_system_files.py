"""The facts about the boot of a host, from files of the kernel below a scratch root."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from zkdeployment.agent.files.system_files import SystemFiles
from zkdeployment.base.errors import HostFilesError

if TYPE_CHECKING:
    from pathlib import Path


def boot(root: Path, *, began: float, uptime: str) -> None:
    (root / "proc/1").mkdir(parents=True, exist_ok=True)
    (root / "proc/uptime").write_text(uptime, encoding="ascii")
    os.utime(root / "proc/1", (began, began))


@pytest.mark.parametrize(("began", "up", "age"), [(500, 9000, 500), (9000, 500, 500)])
def test_a_host_booted_at_the_later_of_the_times_of_process_1_and_of_the_kernel(tmp_path, began, up, age):
    now = time.time()
    boot(tmp_path, began=now - began, uptime=f"{up}.00 12.00\n")
    assert SystemFiles(tmp_path).booted() == pytest.approx(now - age, abs=60)


def test_an_unreadable_time_of_the_boot_is_named(tmp_path):
    boot(tmp_path, began=1.0, uptime="long\n")
    with pytest.raises(HostFilesError, match="cannot read when the host booted from /proc/1 and /proc/uptime"):
        SystemFiles(tmp_path).booted()


def test_a_root_without_files_of_the_kernel_has_the_boot_of_the_machine(tmp_path):
    assert 0 < SystemFiles(tmp_path).booted() <= time.time()


def test_a_container_that_boots_with_the_kernel_of_its_machine_has_another_boot_id(tmp_path):
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("3f0b5a3e\n", encoding="ascii")
    ids = set()
    for started in (52, 90123):
        stat = f"1 (systemd) S {'0 ' * 18}{started} 169"
        (tmp_path / "proc/1/stat").write_text(stat, encoding="ascii")
        ids |= {SystemFiles(tmp_path).boot_id(), SystemFiles(tmp_path).boot_id()}
    assert ids == {"3f0b5a3e-52", "3f0b5a3e-90123"}


def test_an_unreadable_boot_id_is_named(tmp_path):
    (tmp_path / "proc/sys/kernel/random/boot_id").mkdir(parents=True)
    with pytest.raises(HostFilesError, match=r"cannot read a file of the kernel in .*boot_id"):
        SystemFiles(tmp_path).boot_id()
