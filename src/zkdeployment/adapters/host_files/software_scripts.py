"""Finds the scripts of packages and checkouts in ``/opt``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from zkdeployment.adapters.host_files.paths import checked_name, converting_errors
from zkdeployment.errors import ScriptError
from zkdeployment.model.names import NameKind

if TYPE_CHECKING:
    from pathlib import Path

_DEPLOY_SCRIPTS = ("bin/zookeeper-deploy", "zookeeper-deploy")
_CONTROLLER_SCRIPT = "bin/starting-deployments"


class SoftwareScripts:
    """The scripts below ``root/opt``. Symbolic links to targets outside ``root`` are not followed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._opt = root / "opt"

    def deploy_script(self, package: str) -> str | None:
        """Return the path of a package's deploy script; ``None`` if there is none."""
        script = self._find(package, *_DEPLOY_SCRIPTS)
        return None if script is None else str(script)

    def is_controller(self, package: str) -> bool:
        """Whether a package has the scripts of a role controller."""
        return self._find(package, _CONTROLLER_SCRIPT) is not None

    def executable_deploy_script(self, package: str) -> str:
        """Return the path of a package's deploy script; raises ``ScriptError`` if missing or not executable."""
        script = self._find(checked_name(NameKind.PACKAGE, package), *_DEPLOY_SCRIPTS)
        if script is None:
            raise ScriptError(
                f"{package} has no deploy script: expected {self._opt / package / _DEPLOY_SCRIPTS[0]}; add the"
                " script to the package"
            )
        return _executable(script, "deploy script")

    def executable_controller_script(self, package: str, name: str) -> str:
        """Return the path of a role controller's script; raises ``ScriptError`` as for deploy scripts."""
        script = self._find(checked_name(NameKind.PACKAGE, package), f"bin/{name}")
        if script is None:
            expected = self._opt / package / "bin" / name
            raise ScriptError(
                f"the role controller {package} has no script {name}: expected {expected}; add it to the package"
            )
        return _executable(script, "role controller's script")

    def _find(self, package: str, *names: str) -> Path | None:
        for name in names:
            script = self._opt / package / name
            with converting_errors("read", script):
                if script.is_file() and script.resolve().is_relative_to(self._root.resolve()):
                    return script
        return None


def _executable(script: Path, kind: str) -> str:
    if not os.access(script, os.X_OK):
        raise ScriptError(f"the {kind} {script} is not executable; its package has to set mode 755")
    return str(script)
