"""Sandboxes, driven by the commands as a user would."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from zkdeployment.sandbox import rpms

if TYPE_CHECKING:
    from collections.abc import Sequence

Done: TypeAlias = "subprocess.CompletedProcess[str]"

#: Where our programs are.
PROGRAMS = Path(sys.executable).parent


class Box:
    """A sandbox in ``directory`` and its commands; each returns what ``subprocess.run`` does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def command(self, *words: object, timeout: float = 90) -> Done:
        """Run ``zkdeployment`` as anybody would."""
        return subprocess.run(
            [PROGRAMS / "zkdeployment", *map(str, words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def sandbox(self, verb: str, *words: object, timeout: float = 90) -> Done:
        """Run ``zkdeployment sandbox VERB -d DIR …``."""
        return self.command("sandbox", verb, "-d", self.directory, *words, timeout=timeout)

    def run(self, *words: object, timeout: float = 90) -> Done:
        """Run a command in the sandbox's shell."""
        return self.sandbox("shell", "--", *words, timeout=timeout)

    def zkdeployment(self, *words: object, timeout: float = 90) -> Done:
        """Run ``zkdeployment`` in the sandbox's shell."""
        return self.run("zkdeployment", *words, timeout=timeout)

    def up(self, *words: object) -> Done:
        """Start it, or fail the test."""
        done = self.sandbox("up", *words)
        assert done.returncode == 0, done.stderr
        return done

    @property
    def status(self) -> dict[str, Any]:
        """What ``sandbox status`` says."""
        read: dict[str, Any] = json.loads(self.sandbox("status", "-o", "json").stdout)
        return read

    def push(self, text: str, message: str = "a push") -> str:
        """Make ``text`` the tree and return the revision."""
        with tempfile.TemporaryDirectory() as tree:
            (Path(tree) / "tree.zk").write_text(text, encoding="utf-8")
            done = self.sandbox("push", tree, "-m", message)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def wait(self, revision: str, timeout: float = 60) -> Done:
        """Run ``status --wait`` for a revision."""
        return self.zkdeployment("status", "--wait", revision, "--timeout", str(timeout))

    def root(self, host: str) -> Path:
        """A host's root directory."""
        return Path(self.status["hosts"][host]["root"])

    def log(self, host: str) -> str:
        """What a host's agent printed."""
        return Path(self.status["hosts"][host]["log"]).read_text(encoding="utf-8")


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
) -> Path:
    """Build a package with one script, its deploy script unless ``places`` say otherwise."""
    source = directory / f"{name}-{version}"
    source.mkdir(parents=True)
    (source / "script").write_text(script, encoding="utf-8")
    spec = source / "package.spec"
    spec.write_text(_SPEC.format(mode=mode, script=source / "script", places=" ".join(places)), encoding="utf-8")
    (built,) = rpms.build(spec, directory, {"wanted_name": name, "wanted_version": version})
    return built
