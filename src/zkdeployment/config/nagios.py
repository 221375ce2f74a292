"""The section ``[nagios]``: the service that the bridge asks, and the Nagios on this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.config.section import NAGIOS_NEEDED
from zkdeployment.config.server import base_url_problem, listen_problem

if TYPE_CHECKING:
    from zkdeployment.config.section import Section

_PLUGINS = Path("/usr/lib64/nagios/plugins")
_INTERVAL = 30.0

#: Paths that are the same in Nagios' files and for a shell.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._/+@:-]*")
_TEMPLATE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._ -]{0,120}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NagiosSettings:
    """The settings of the bridge: the service at ``server`` with a user and its key, and the files of Nagios.

    ``verify`` and ``reload`` are commands. The bridge listens for pokes at ``listen``, ``HOST:PORT``, and polls
    every ``interval`` seconds.
    """

    server: str
    user: str
    key_file: Path
    objects: Path
    verify: tuple[str, ...]
    reload: tuple[str, ...]
    plugins: Path = _PLUGINS
    host_template: str = "generic-host"
    service_template: str = "generic-service"
    contact_template: str = "generic-contact"
    command_file: Path | None = None
    status_file: Path | None = None
    listen: str | None = None
    interval: float | None = _INTERVAL


def read_nagios(section: Section) -> NagiosSettings | None:
    """Return the settings of the bridge; ``None`` if there are problems, which are reported to the section."""
    for key in NAGIOS_NEEDED:
        if section.text(key) is None:
            section.report(key, "not specified in [nagios]")
    server, user = section.checked("server", base_url_problem), section.checked("user", _user_problem)
    key_file, objects = section.path("key-file"), _plain_path(section, "objects")
    plugins = _plain_path(section, "plugins") or _PLUGINS
    verify, reload = section.command("verify"), section.command("reload")
    host_template = section.checked("host-template", _template_problem) or "generic-host"
    service_template = section.checked("service-template", _template_problem) or "generic-service"
    contact_template = section.checked("contact-template", _template_problem) or "generic-contact"
    command_file, status_file = section.path("command-file"), section.path("status-file")
    listen = section.checked("listen", listen_problem)
    interval = section.number("interval", positive=True)
    if server is None or user is None or key_file is None or objects is None or not verify or not reload:
        return None
    return NagiosSettings(
        server=server.rstrip("/"),
        user=user,
        key_file=key_file,
        objects=objects,
        verify=verify,
        reload=reload,
        plugins=plugins,
        host_template=host_template,
        service_template=service_template,
        contact_template=contact_template,
        command_file=command_file,
        status_file=status_file,
        listen=listen,
        interval=_INTERVAL if interval is None and listen is None else interval,
    )


def _plain_path(section: Section, key: str) -> Path | None:
    path = section.path(key)
    if path is not None and not _PLAIN_PATH.fullmatch(str(path)):
        section.report(
            key, f"expected a path of letters from a to z, digits and . _ + @ : - only, found {str(path)!r}"
        )
        return None
    return path


def _user_problem(value: str) -> str | None:
    return name_problem(NameKind.USER, value)


def _template_problem(value: str) -> str | None:
    return None if _TEMPLATE.fullmatch(value) else f"expected the name of a template of Nagios, found {value!r}"
