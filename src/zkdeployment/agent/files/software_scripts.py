"""Finds the scripts of packages and checkouts in ``/opt``."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from zkdeployment.agent.checkouts.working_copies import working_copy
from zkdeployment.agent.files.paths import checked_name, converting_errors
from zkdeployment.base.errors import ScriptError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files
from zkdeployment.base.machine.files import foreign_part
from zkdeployment.base.names import NameKind

if TYPE_CHECKING:
    from pathlib import Path

_DEPLOY_SCRIPTS = ("bin/zookeeper-deploy", "zookeeper-deploy")
_CONTROLLER_SCRIPT = "bin/starting-deployments"


class SoftwareScripts:
    """The scripts below ``root/opt``. Symbolic links to targets outside ``root`` are not followed.

    They run as root. A script that other users may change counts as missing, so that its package is reinstalled.
    The script of a checkout is taken back from the agent's own working copy before it runs.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._opt = root / "opt"
        self._reported: set[str] = set()

    def deploy_script(self, package: str) -> str | None:
        """Return the path of a package's deploy script; ``None`` if it does not exist."""
        script = self._find(package, *_DEPLOY_SCRIPTS)
        return str(script) if script is not None and self._is_usable(package, script) else None

    def is_controller(self, package: str) -> bool:
        """Whether a package has the scripts of a role controller."""
        script = self._find(package, _CONTROLLER_SCRIPT)
        return script is not None and self._is_usable(package, script)

    def executable_deploy_script(self, package: str) -> str:
        """Return the path of a package's deploy script; raises ``ScriptError`` if missing or not executable."""
        script = self._find(checked_name(NameKind.PACKAGE, package), *_DEPLOY_SCRIPTS)
        if script is None:
            raise ScriptError(
                f"{package} has no deploy script: expected {self._opt / package / _DEPLOY_SCRIPTS[0]}; add the"
                " script to the package"
            )
        return self._executable(package, script, "deploy script")

    def executable_controller_script(self, package: str, name: str) -> str:
        """Return the path of a role controller's script; raises ``ScriptError`` as for deploy scripts."""
        script = self._find(checked_name(NameKind.PACKAGE, package), f"bin/{name}")
        if script is None:
            expected = self._opt / package / "bin" / name
            raise ScriptError(
                f"the role controller {package} has no script {name}: expected {expected}; add it to the package"
            )
        return self._executable(package, script, "role controller's script")

    def _find(self, package: str, *names: str) -> Path | None:
        for name in names:
            script = self._opt / package / name
            with converting_errors("read", script):
                if script.is_file() and script.resolve().is_relative_to(self._root.resolve()):
                    return script
        return None

    def _is_usable(self, package: str, script: Path) -> bool:
        """Whether no other user may change a script, or it can be taken back; log once that it is ignored."""
        with converting_errors("read", script):
            part = foreign_part(script, self._root)
        if part is None or self._original(package, script).is_file():
            return True
        if str(script) not in self._reported:
            self._reported.add(str(script))
            get_logger().warning("script-ignored", file=str(script), reason=_objection(part))
        return False

    def _executable(self, package: str, script: Path, kind: str) -> str:
        """Return the path of a script that only root may change; raises ``ScriptError`` if it does not exist."""
        with converting_errors("restore", script):
            if foreign_part(script, self._root) is not None:
                self._take_back(package, script)
            if (part := foreign_part(script, self._root)) is not None:
                raise ScriptError(f"the {kind} {script} is not run: {_objection(part)}")
        if not os.access(script, os.X_OK):
            raise ScriptError(f"the {kind} {script} is not executable; its package has to set mode 755")
        return str(script)

    def _take_back(self, package: str, script: Path) -> None:
        """Restore the committed content of a checkout's script; root then owns the script and its directories."""
        original = self._original(package, script)
        if not original.is_file():
            return
        place = self._opt / package
        for part in reversed(script.relative_to(place).parents):
            descriptor = os.open(place / part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fchown(descriptor, os.geteuid(), os.getegid())
                os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & ~0o022)
            finally:
                os.close(descriptor)
        files.replace(script, original.read_bytes(), mode=stat.S_IMODE(original.stat().st_mode) & ~0o022)
        get_logger().warning("script-taken-back", file=str(script), reason="other users could change it")

    def _original(self, package: str, script: Path) -> Path:
        return working_copy(self._root, package) / script.relative_to(self._opt / package)


def _objection(part: Path) -> str:
    return (
        f"other users may change {part}, and root runs the script: expected a file and directories that only root"
        " may change; make root their owner, and take the right to write away from others"
    )
