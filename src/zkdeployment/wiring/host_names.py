"""The full name of the host of an agent: configured, known to the machine, or recorded while it was known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.adapters.host_files.identity_file import IdentityFile
from zkdeployment.adapters.host_files.run_directory import RunDirectory
from zkdeployment.adapters.systemd import SystemdNotifier
from zkdeployment.config.load import machine_name
from zkdeployment.errors import HostFilesError, RefusedError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from zkdeployment.config.settings import Settings
    from zkdeployment.daemons.control import Control

_NAME_POLL = 10.0  # seconds between two requests for the machine's full name


def wait_for_full_name(settings: Settings, control: Control) -> Settings | None:
    """Return the settings with the host's full name when it is known; ``None`` if stopped before."""
    notifier = SystemdNotifier()
    waiting = False
    while not control.stopping:
        try:
            return with_full_name(settings)
        except RefusedError as error:
            if not waiting:
                get_logger().error("host-name-awaited", reason=str(error))
                notifier.ready()  # a waiting agent must not block the boot of the machine
                notifier.status(str(error))
            waiting = True
        notifier.watchdog()
        control.wait(_NAME_POLL)
        settings = replace(settings, identity=replace(settings.require_identity(), name=machine_name()))
    return None


def with_full_name(settings: Settings) -> Settings:
    """Return the settings with the host's full name.

    Raises ``RefusedError`` if the machine's name has no domain, and no recorded name completes it.
    """
    identity = settings.require_identity()
    if settings.named:
        return settings
    recorded = RunDirectory(settings.require_run_directory()).read_identity() or _identity_file(settings).read()
    full = identity.completed(recorded)
    if full is None:
        raise RefusedError(
            f"the full name of this host is not known: expected a name with a domain, like {recorded} before,"
            f" found {identity.name!r}; correct DNS, or set host-name in the configuration"
        )
    if full != identity:
        get_logger().warning("host-name-remembered", found=identity.name, name=full.name)
    return replace(settings, identity=full)


def record_name(settings: Settings) -> None:
    """Record the host's full name for the time when DNS does not answer; a failure is only logged."""
    try:
        _identity_file(settings).write(settings.require_identity())
    except HostFilesError as error:
        get_logger().warning("identity-not-recorded", reason=str(error))


def _identity_file(settings: Settings) -> IdentityFile:
    """Return the file that keeps the host's name over reboots, which may clear the run directory."""
    return IdentityFile(settings.root / "var" / "lib" / "zkdeployment" / "identity")
