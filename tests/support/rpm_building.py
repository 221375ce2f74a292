"""Builds packages for tests: each has one script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.sandbox.repositories import build_packages

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
