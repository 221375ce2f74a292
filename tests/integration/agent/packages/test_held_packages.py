"""The packages that the configuration of dnf holds, read from files."""

from pathlib import Path

import pytest

from zkdeployment.agent.packages.held_packages import excluded_builds, held_packages
from zkdeployment.base.inventory import Package

INSTALLED = {
    package.name: (package,)
    for package in (
        Package("bash", 0, "5.1.8", "6.el9", "x86_64"),
        Package("bind", 32, "9.16.23", "18.el9", "x86_64"),
        Package("java", 0, "11", "1", "noarch"),
        Package("java-17-openjdk", 1, "17.0.9", "2.el9", "x86_64"),
        Package("php", 0, "8.1.27", "1.el9", "x86_64"),
    )
}


def held(root: Path, name: str, text: str) -> list[str]:
    file = root / "etc/dnf" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return list(held_packages(root, INSTALLED))


@pytest.mark.parametrize(
    ("line", "names", "builds"),
    [
        ("bash", ["bash"], []),
        ("bash-0:5.1.8-6.el9.*", ["bash"], []),
        ("bash-5.1.8-6.el9  # tested", ["bash"], []),
        ("bash-0:5.1.9-1.el9.*", ["bash"], []),  # dnf would install exactly this one
        ("bind-32:9.16.23-18.el9.*", ["bind"], []),
        ("php-8.1.*", ["php"], []),  # or else the update would install 8.2
        ("java-17-openjdk", ["java-17-openjdk"], []),
        ("java-17-openjdk-1:17.0.9-2.el9.*", ["java-17-openjdk"], []),
        ("java-17-openjdk-devel", [], []),
        ("!bash", ["bash"], []),
        ("!bash-0:5.1.8-9.el9.*", [], ["bash-0:5.1.8-9.el9.*"]),
        ("!php-8.2.*", [], ["php-8.2.*"]),
        ("!bash-0:5.1.8-6.el9.*", [], []),  # the build is installed, and an update replaces it
        ("# bash", [], []),
    ],
)
def test_a_line_of_versionlock_holds_a_package_or_excludes_a_build(
    tmp_path: Path, line: str, names: list[str], builds: list[str]
):
    assert held(tmp_path, "plugins/versionlock.list", f"{line}\n") == names
    assert excluded_builds(tmp_path, INSTALLED) == builds


@pytest.mark.parametrize(
    ("conditions", "is_held"),
    [
        ([], True),
        ([("=", "5.1.8-6.el9")], True),
        ([("==", "0:5.1.8-6.el9")], True),
        ([("=", "5.1.9-1.el9")], False),
        ([("!=", "5.1.8-9.el9")], False),
        ([(">=", "5.1.8"), ("<", "5.2")], False),
    ],
)
def test_an_entry_of_versionlock_for_dnf_5_holds_a_package_without_conditions_or_at_its_version(
    tmp_path: Path, conditions: list[tuple[str, str]], is_held: bool
):
    text = 'version = "1.0"\n[[packages]]\nname = "bash"\n'
    for comparator, version in conditions:
        text += f'[[packages.conditions]]\nkey = "evr"\ncomparator = "{comparator}"\nvalue = "{version}"\n'
    assert held(tmp_path, "versionlock.toml", text) == (["bash"] if is_held else [])
