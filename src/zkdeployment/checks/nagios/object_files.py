"""The files of checks in Nagios' configuration: host and service definitions, and a script for each check.

No value can begin a macro, a directive or another command: names of objects have only harmless characters, and
arguments are in the script, in single quotes, in which a shell interprets nothing.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.checks.nagios.check import check_from_text, check_to_text, is_instance

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.checks.nagios.check import NagiosCheck, NagiosContact

#: The beginning of the names of commands; the id of the check instance follows.
_COMMAND = "zkdeployment-"

_FILE = re.compile(r"(?:check-(?P<instance>[0-9a-f-]{36})\.(?:cfg|sh)|(?:host|contact)-[A-Za-z0-9._-]+\.cfg)")
_DESCRIPTION = "# "
_NAME_LIMIT = 180

_HOST = """\
# Written by zkdeployment; changes are lost.
define host {{
    use        {template}
    host_name  {name}
    address    {address}
}}
"""

_CONTACT = """\
# Written by zkdeployment; changes are lost.
define contact {{
    use           {template}
    contact_name  {name}
    alias         {name}
{addresses}}}
"""

_CHECK = """\
{description}
# Written by zkdeployment; changes are lost.
define command {{
    command_name  {command}
    command_line  {script}
}}
define service {{
    use                  {template}
    host_name            {host}
    service_description  {service}
    check_command        {command}
    check_interval       {minutes:.6g}
{contacts}}}
"""


@dataclass(frozen=True, slots=True)
class NagiosObjectFile:
    """The content of a file in the objects directory, and whether it is a program."""

    text: str
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NagiosPlace:
    """The directories of objects and plugins, and the templates that hosts, services and contacts use."""

    objects: str
    plugins: str
    host_template: str
    service_template: str
    contact_template: str = "generic-contact"


def is_object_file(name: str) -> bool:
    """Whether a file name has the form of the names that ``object_files`` gives."""
    return _FILE.fullmatch(name) is not None


def instance_of_file(name: str) -> str | None:
    """Return the instance whose definition or script has this file name; ``None`` for other files."""
    match = _FILE.fullmatch(name)
    return None if match is None else match["instance"]


def is_shared_file(name: str) -> bool:
    """Whether a file name has the form that ``object_files`` gives to definitions of hosts and contacts."""
    return is_object_file(name) and name.startswith(("host-", "contact-"))


def object_files(checks: Iterable[NagiosCheck], place: NagiosPlace) -> dict[str, NagiosObjectFile]:
    """Return the files for checks, by name: one for each host and contact, and two for each check.

    Equal checks always give equal files. If checks disagree about the address of their host or of a contact, the
    check with the highest id decides.
    """
    files: dict[str, NagiosObjectFile] = {}
    for check in sorted(checks, key=lambda check: check.instance):
        host = nagios_host_name(check)
        files[f"host-{host}.cfg"] = NagiosObjectFile(
            _HOST.format(template=place.host_template, name=host, address=check.address)
        )
        for contact in check.contacts:
            name = _contact_name(contact)
            files[f"contact-{name}.cfg"] = NagiosObjectFile(
                _CONTACT.format(template=place.contact_template, name=name, addresses=_addresses(contact))
            )
        script = f"check-{check.instance}.sh"
        files[f"check-{check.instance}.cfg"] = NagiosObjectFile(
            _CHECK.format(
                description=_DESCRIPTION + check_to_text(check),
                command=_COMMAND + check.instance,
                script=f"{place.objects}/{script}",
                template=place.service_template,
                host=host,
                service=service_description(check),
                minutes=check.interval / 60,
                contacts=_contacts(check),
            )
        )
        words = (f"{place.plugins}/{check.command}", *check.arguments)
        files[script] = NagiosObjectFile(f"#!/bin/sh\nexec {' '.join(map(_quoted, words))}\n", executable=True)
    return files


def checks_in(files: Mapping[str, NagiosObjectFile]) -> dict[str, NagiosCheck]:
    """Return the checks whose definitions are among the files, by instance, without unreadable ones."""
    checks = {}
    for name, file in files.items():
        match = _FILE.fullmatch(name)
        if match is None or match["instance"] is None or file.executable or not is_instance(match["instance"]):
            continue
        first = file.text.partition("\n")[0]
        if first.startswith(_DESCRIPTION):
            check = check_from_text(match["instance"], first.removeprefix(_DESCRIPTION))
            if check is not None:
                checks[check.instance] = check
    return checks


def instance_of_command(check_command: str) -> str | None:
    """Return the instance of a ``check_command`` in Nagios; ``None`` for a command of another origin."""
    instance = check_command.removeprefix(_COMMAND)
    return instance if instance != check_command and is_instance(instance) else None


def nagios_host_name(check: NagiosCheck) -> str:
    """Return the name of a check's host in Nagios: the host's name, changed if it has illegal characters."""
    return _legal(check.host_name, r"[^A-Za-z0-9._-]")


def service_description(check: NagiosCheck) -> str:
    """Return the description of a check's service, which is unique on its host."""
    deployment = f"{check.configuration} {check.path} {check.number}"
    return f"{_legal(deployment, r'[^A-Za-z0-9._/:@ -]')} {check.instance[:8]}"


def _contacts(check: NagiosCheck) -> str:
    """Return the directives that name the contacts of a service, in place of the contacts of the template."""
    if not check.contacts:
        return ""
    names = ",".join(map(_contact_name, check.contacts))
    return f"    contacts             {names}\n    contact_groups       null\n"


def _contact_name(contact: NagiosContact) -> str:
    """Return the name of a contact in Nagios, unique for its duty."""
    return _legal(f"{contact.duty}.{contact.name}", r"[^A-Za-z0-9._-]")


def _addresses(contact: NagiosContact) -> str:
    given = (("email", contact.email), ("pager", contact.phone))
    return "".join(f"    {key:12}  {value}\n" for key, value in given if value is not None)


def _legal(text: str, illegal: str) -> str:
    """Return a text without illegal characters; a changed text gets a digest, so that it stays unique."""
    legal = re.sub(illegal, "_", text)[:_NAME_LIMIT]
    if not legal[:1].isalnum():
        legal = f"_{legal}"
    if legal == text:
        return legal
    return f"{legal}-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}"


def _quoted(word: str) -> str:
    """Return a word in single quotes; a single quote in the word is escaped outside of them."""
    return "'" + word.replace("'", "'\\''") + "'"
