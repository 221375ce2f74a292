"""The settings of checks and of the Nagios bridge."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.values import dataclass
from zkdeployment.config.addresses import BASE_URL, LISTEN, is_plain_path
from zkdeployment.config.forms import (
    COMMAND,
    PATH,
    POSITIVE_SECONDS,
    REQUIRED,
    Form,
    Report,
    Section,
    SectionSettings,
    checked,
    matching,
    setting,
)

_TEMPLATE = matching(r"[A-Za-z0-9_][A-Za-z0-9._ -]{0,120}", "the name of a template of Nagios")


def _plain_path(text: str, report: Report) -> Path | None:
    path = PATH.read(text, report)
    if path is None or is_plain_path(str(path)):
        return path
    report(f"expected a path of letters from a to z, digits and . _ + @ : - only, found {str(path)!r}")
    return None


@dataclass(frozen=True, kw_only=True)
class ChecksSettings(SectionSettings):
    """The settings of checks that are rolled out to monitoring systems: the table of ``[checks]``."""

    SECTION: ClassVar[str] = "checks"
    PLACE: ClassVar[int] = 50

    interval: float = setting(POSITIVE_SECONDS, 20.0)
    """The number of seconds between two turns of the life cycle of check instances, which the leading coordinator
    runs.

    A turn without a change reads two nodes for each monitoring system with a callback, and two more, for any
    number of instances. A coordinator that takes over reads all instances once: with 100,000 of them its memory
    grows from 50 MB to 110 MB, with a peak of 135 MB.
    """


@dataclass(frozen=True, kw_only=True)
class NagiosSettings(SectionSettings):
    """The settings of the Nagios bridge: the table of ``[nagios]``."""

    SECTION: ClassVar[str] = "nagios"
    PLACE: ClassVar[int] = 70

    server: str = setting(BASE_URL, REQUIRED)
    """The URL of the service: ``https://HOST[:PORT]``.

    Example: https://deploy.example.com
    """

    user: str = setting(checked(partial(name_problem, NameKind.USER)), REQUIRED)
    """The user of the service, with the role ``monitoring``. Its name is the name of the monitoring system.

    Example: nagios1
    """

    key_file: Path = setting(PATH, REQUIRED)
    """The file with the user's API key, one line. The file must not be accessible for everyone.

    Example: /etc/zkdeployment/nagios.key
    """

    objects: Path = setting(Form(_plain_path), REQUIRED)
    """The directory for definitions of hosts and services, used by nothing else; ``nagios.cfg`` names it with
    ``cfg_dir``.

    The bridge keeps its scripts there, too. The user of Nagios must be able to read the directory. Files get the
    group of the directory if its setgid bit is set.

    Example: /etc/nagios/zkdeployment
    """

    plugins: Path = setting(Form(_plain_path), Path("/usr/lib64/nagios/plugins"))
    """The directory of the plugins.

    The command of a check is the name of a file in this directory.
    """

    host_template: str = setting(_TEMPLATE, "generic-host")
    """The template of Nagios that hosts use: contacts, periods, attempts."""

    service_template: str = setting(_TEMPLATE, "generic-service")
    """The template of Nagios that services use: periods, attempts, and the contacts of services without an on-call
    duty.
    """

    contact_template: str = setting(_TEMPLATE, "generic-contact")
    """The template of Nagios that the contacts of on-call duties use: notification commands and periods."""

    command_file: Path | None = setting(PATH)
    """The pipe for external commands, which downtimes need.

    Without this pipe, hosts get no downtime while they are in a deployment step or in maintenance, and the first
    run of a plugin comes when Nagios has scheduled it.

    Example: /var/spool/nagios/cmd/nagios.cmd
    """

    status_file: Path | None = setting(PATH)
    """The status file of Nagios, which has the results.

    Without this file, no results are reported, and a rollout succeeds without a run of its plugin.

    Example: /var/spool/nagios/status.dat
    """

    verify: tuple[str, ...] = setting(COMMAND, REQUIRED)
    """The command that verifies the configuration of Nagios, in the syntax of a shell. No shell runs the command.

    If the file of ``-v FILE`` has a line ``cfg_dir=OBJECTS``, the bridge verifies changes in a copy before it
    writes them (:doc:`../monitoring`).

    Example: /usr/sbin/nagios -v /etc/nagios/nagios.cfg
    """

    reload: tuple[str, ...] = setting(COMMAND, REQUIRED)
    """The command that makes Nagios read its configuration again. No shell runs the command.

    Example: pkill -HUP --pidfile /run/nagios/nagios.pid
    """

    listen: str | None = setting(LISTEN)
    """The address and port at which the bridge receives pokes: those of the callback in the document of the
    monitoring system.

    A poke only names an instance that the bridge then fetches, so it needs no login.

    Example: 0.0.0.0:8421
    """

    interval: float | None = setting(POSITIVE_SECONDS)
    """The number of seconds between two polls. Default: 30, or no polls with ``listen``.

    Example: 30
    """

    @classmethod
    def complete(cls, section: Section, values: dict[str, Any]) -> None:
        """Report missing keys; a bridge that receives no pokes polls by default."""
        cls.report_missing(section)
        if "listen" not in values:
            values.setdefault("interval", 30.0)


SECTIONS = (ChecksSettings, NagiosSettings)
