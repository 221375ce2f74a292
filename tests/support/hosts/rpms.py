"""Builds packages for tests, each with one script, and once for all tests the RPMs of zkdeployment itself."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.commands import run
from zkdeployment.sandbox.repositories import build_packages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


_SPEC = """\
Name: %{{wanted_name}}
Version: %{{wanted_version}}
Release: 1
Summary: A package for tests
License: MIT
BuildArch: noarch
AutoReqProv: no
%global __os_install_post %{{nil}}
%global debug_package %{{nil}}
%description
A package for tests.
%install
for place in {places}; do install -D -m {mode} {script} %{{buildroot}}/opt/%{{wanted_name}}/$place; done
{scriptlets}
%files
/opt/%{{wanted_name}}
"""


def build_rpm(
    directory: Path,
    name: str,
    version: str,
    *,
    script: str,
    places: Sequence[str] = ("bin/zookeeper-deploy",),
    mode: str = "755",
    scriptlets: str = "",
) -> Path:
    """Build a package with one script at each of ``places`` (default: the deploy script).

    ``scriptlets`` are sections of the spec file that rpm runs in transactions of the package.
    """
    source = directory / f"{name}-{version}"
    source.mkdir(parents=True)
    (source / "script").write_text(script, encoding="utf-8")
    spec = source / "package.spec"
    text = _SPEC.format(mode=mode, script=source / "script", places=" ".join(places), scriptlets=scriptlets)
    spec.write_text(text, encoding="utf-8")
    (built,) = build_packages(spec, directory, {"wanted_name": name, "wanted_version": version})
    return built


_PROJECT = Path(__file__).resolve().parents[3]

#: The version of this project.
(VERSION,) = re.findall(r"^version = (.+)$", (_PROJECT / "setup.cfg").read_text(encoding="utf-8"), re.MULTILINE)

_LATER_RELEASE = """\
%global __os_install_post %{{nil}}
%global debug_package %{{nil}}
%global _build_id_links none
Name: zkdeployment
Version: {version}
Release: {release}
Summary: A later release with the same files
License: MIT
AutoReqProv: no
Requires: {python}
Requires: rpm
%description
A later release with the same files.
%install
rpm2archive - <{file} | tar --extract --gzip --directory %{{buildroot}}
%preun -p <lua>
{preun}
%files
{files}
"""


def interpreter() -> str:
    """Return the Python of the RPMs: the system's own, if it is new enough, otherwise that of the tests."""
    system = "/usr/bin/python3"
    is_new = "import sys; sys.exit(sys.version_info < (3, 11))"
    if subprocess.run([system, "-c", is_new], stderr=subprocess.DEVNULL, check=False).returncode == 0:
        return os.path.realpath(system)
    return os.path.realpath(sys.executable)


def made_once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a directory that ``make`` filled once for all workers of a run."""
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            unfinished = place.with_suffix(".unfinished")
            make(unfinished)
            unfinished.rename(place)
    return place


@pytest.fixture(scope="session")
def built_rpms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the RPMs; building them takes most of a minute."""
    python = interpreter()
    tools = {"PYTHON": python, "PIP": f"{sys.executable} -m pip --python {python}", "PAYLOAD": "w1.gzdio"}
    return made_once(tmp_path_factory, "zkdeployment-rpms", lambda place: _build(place, tools))


def later_release(built: Path, directory: Path, release: int) -> Path:
    """Build the package ``zkdeployment`` of ``built`` again with another release, and return its file."""
    (file,) = built.glob("zkdeployment-[0-9]*.rpm")
    listed = _query(file, "[%{FILEFLAGS:fflags}|%{FILEMODES:perms}|%{FILENAMES}\n]").splitlines()
    text = _LATER_RELEASE.format(
        version=_query(file, "%{VERSION}"),
        release=release,
        python=interpreter(),
        file=file,
        preun=_query(file, "%{PREUN}"),
        files="\n".join(_file_line(*line.split("|", 2)) for line in listed),
    )
    spec = directory / "later.spec"
    spec.write_text(text, encoding="utf-8")
    (later,) = build_packages(spec, directory / "later", {"_binary_payload": "w1.gzdio"})
    return later


def _file_line(flags: str, mode: str, name: str) -> str:
    kind = "%config(noreplace) " if "c" in flags else "%dir " if mode.startswith("d") else ""
    return f'{kind}"{name}"'


def _query(file: Path, form: str) -> str:
    return subprocess.run(
        ["rpm", "-qp", "--qf", form, str(file)], capture_output=True, text=True, check=True
    ).stdout


def _build(place: Path, tools: Mapping[str, str]) -> None:
    done = run(_PROJECT / "rpm" / "build", place, env={**os.environ, **tools})
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
