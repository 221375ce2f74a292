"""Checkouts as on a new machine: ``.venv`` has only what the scripts of the checkout install there.

The scripts run pip, which needs the network. In these checkouts, this module stands for pip: it links the
distributions that ``setup.cfg`` requires, with their own requirements, from the environment of the tests.
"""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.manual import HERE

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIP = """\
import os, subprocess, sys
environment = {{**os.environ, "PYTHONPATH": {tests!r}}}
sys.exit(subprocess.call([{python!r}, "-m", {module!r}, os.getcwd(), sys.argv[-1]], env=environment))
"""

#: What the scripts put into ``build`` for the whole machine, because its packages would start services there.
_PROGRAMS = ("balancers", "nagios", "prometheus", "zookeeper")

_OURS = "zkdeployment"


def make_checkout(directory: Path) -> Path:
    """Copy this checkout to ``directory``, with a ``.venv`` without distributions; return ``directory``."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=HERE,
        check=True,
        capture_output=True,
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (HERE / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(HERE / name, directory / name)
    (directory / "build").mkdir()
    for name in _PROGRAMS:
        if (HERE / "build" / name).exists():
            (directory / "build" / name).symlink_to(HERE / "build" / name)
    venv.create(directory / ".venv", symlinks=True)
    text = _PIP.format(tests=str(HERE / "tests"), python=sys.executable, module=__spec__.name)
    (_site(directory) / "pip.py").write_text(text, encoding="utf-8")
    return directory


def environment() -> dict[str, str]:
    """Return the environment of a user who has just logged in, without the programs of the tests and of fleets."""
    foreign = ("COVERAGE_", "PYTHON", "VIRTUAL_ENV", "XDG_", "ZC_ZK_", "ZKDEPLOYMENT_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    programs = [place for place in kept["PATH"].split(os.pathsep) if Path(place) != Path(sys.prefix) / "bin"]
    return kept | {"PATH": os.pathsep.join(programs)}


def _install(checkout: Path, target: str) -> None:
    """Link the distributions of ``target``, such as ``.[server]``, into ``.venv`` of the checkout."""
    extras = Requirement(target.replace(".", _OURS, 1)).extras
    site, programs = _site(checkout), checkout / ".venv" / "bin"
    for found in (distribution(_OURS), *_required(checkout, extras)):
        for file in found.files or ():
            source = Path(str(found.locate_file(file))).resolve()
            if source.parent == Path(sys.prefix) / "bin":
                text = source.read_text(encoding="utf-8").replace(f"{sys.prefix}/", f"{checkout / '.venv'}/")
                (programs / source.name).write_text(text, encoding="utf-8")
                (programs / source.name).chmod(0o755)
            elif not file.parts[0].startswith(("..", "__editable__")) and source.exists():
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                if not (site / file).is_symlink():
                    (site / file).symlink_to(source)
    (site / f"{_OURS}.pth").write_text(f"{checkout / 'src'}\n", encoding="utf-8")


def _required(checkout: Path, extras: set[str]) -> Iterator[Distribution]:
    """Yield the distributions that ``setup.cfg`` requires for these extras, with all that these require."""
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(checkout / "setup.cfg", encoding="utf-8")
    ours = {"": settings["options"]["install_requires"], **settings["options.extras_require"]}
    wanted = [(_OURS, extra) for extra in ("", *extras)]
    seen = set(wanted)
    for name, extra in wanted:  # grows
        if name == _OURS:
            required = [Requirement(line) for line in ours[extra].split("\n") if line]
        else:
            yield distribution(name)
            every = [Requirement(line) for line in distribution(name).requires or ()]
            required = [each for each in every if each.marker is None or each.marker.evaluate({"extra": extra})]
        for each in required:
            found = {(canonicalize_name(each.name), more) for more in ("", *each.extras)} - seen
            seen |= found
            wanted += sorted(found)


def _site(checkout: Path) -> Path:
    base = str(checkout / ".venv")
    return Path(sysconfig.get_path("purelib", "venv", {"base": base, "platbase": base}))


if __name__ == "__main__":
    _install(Path(sys.argv[1]), sys.argv[2])
