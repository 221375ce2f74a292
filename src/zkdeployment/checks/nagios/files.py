"""The files of Nagios: definitions and scripts of checks in its configuration, and the results in its status file.

No value can begin a macro, a directive or another command: names of objects have only harmless characters, and
arguments are in the script, in single quotes, in which a shell interprets nothing.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated

from zkdeployment.base.records import OMITTED, Record
from zkdeployment.base.text import printable
from zkdeployment.base.values import dataclass
from zkdeployment.checks.nagios.check import (
    NagiosCheck,
    NagiosContact,
    check_from_text,
    check_to_text,
    is_instance,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping


#: The beginning of the names of commands; the id of the check instance follows.
_COMMAND = "zkdeployment-"

#: The beginnings of the names of files: those of one check, and those that checks share.
_OF_CHECK = "check-"
_SHARED = ("host-", "contact-")

_FILE = re.compile(
    rf"{_OF_CHECK}(?P<instance>[0-9a-f-]{{36}})\.(?:cfg|sh)|(?:{'|'.join(_SHARED)})[A-Za-z0-9._-]+\.cfg"
)
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
    return is_object_file(name) and name.startswith(_SHARED)


def is_temporary_file(name: str) -> bool:
    """Whether a file name begins like that of a temporary file for one of the ``object_files``."""
    return name.startswith(tuple(f".{beginning}" for beginning in (_OF_CHECK, *_SHARED)))


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
    # A dot cannot separate names with dots; the illegal separator gives them a digest.
    separator = "/" if "." in contact.duty + contact.name else "."
    return _legal(f"{contact.duty}{separator}{contact.name}", r"[^A-Za-z0-9._-]")


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


#: Nagios only warns of a duplicate definition, but the errors that follow do not name the definition.
_ERROR = re.compile(r"^\s*(?:Error: *|Warning: *(?=Duplicate definition))(.+)$", re.MULTILINE)
_LIMIT = 1000


def verification_words(output: str) -> str:
    """Return the errors in the output of a verification that failed, in one line."""
    errors = list(dict.fromkeys(match[1].strip() for match in _ERROR.finditer(output)))
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return printable(" / ".join(errors or lines[-3:]))[:_LIMIT] or "Nagios printed nothing"


#: The author of downtimes in Nagios.
DOWNTIME_AUTHOR = "zkdeployment"

_BLOCK = re.compile(r"^(info|servicestatus|servicedowntime) \{\n(.*?)^\s*\}$", re.MULTILINE | re.DOTALL)
_STATES = {"0": "ok", "1": "warning", "2": "critical", "3": "unknown"}
_OUTPUT_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class NagiosResult(Record):
    """The result of a check: its state, the time ``since`` which it has the state, and the plugin's output.

    ``checked`` is when the plugin ran last, 0 if that is unknown. Times are in seconds since the epoch.
    ``config_id`` is the configuration that ran; a status file does not name it.
    """

    state: str
    output: str
    since: float
    checked: Annotated[float, OMITTED] = 0.0
    config_id: Annotated[str, OMITTED] = ""


@dataclass(frozen=True, slots=True)
class NagiosStatus:
    """The status that Nagios has written at the time ``created``.

    ``results`` are keyed by check instance; checks that have not run yet are missing. ``downtimes`` are the ends
    of downtimes by host name.
    """

    created: float = 0.0
    results: Mapping[str, NagiosResult] = field(default_factory=dict)
    downtimes: Mapping[str, float] = field(default_factory=dict)


def read_status_file(text: str) -> NagiosStatus:
    """Return the status in the text of a status file; unreadable parts are missing."""
    created = 0.0
    results: dict[str, NagiosResult] = {}
    downtimes: dict[str, float] = {}
    for kind, body in _BLOCK.findall(text):
        values = _values(body)
        if kind == "info":
            created = _number(values, "created")
        elif kind == "servicedowntime":
            if values.get("author") == DOWNTIME_AUTHOR:
                host, end = values.get("host_name", ""), _number(values, "end_time")
                downtimes[host] = max(end, downtimes.get(host, 0.0))
        elif (instance := instance_of_command(values.get("check_command", ""))) is not None:
            state = _STATES.get(values.get("current_state", ""))
            if state is not None and values.get("has_been_checked") == "1":
                output = values.get("plugin_output", "")[:_OUTPUT_LIMIT]
                since, checked = _number(values, "last_state_change"), _number(values, "last_check")
                results[instance] = NagiosResult(state, output, since, checked)
    return NagiosStatus(created, results, downtimes)


def _values(body: str) -> dict[str, str]:
    # Only Nagios ends lines with \n: the output of a plugin may have any other separator of lines.
    lines = (line.strip().partition("=") for line in body.split("\n"))
    return {key: value for key, separator, value in lines if separator}


def _number(values: Mapping[str, str], key: str) -> float:
    try:
        number = float(values.get(key, ""))
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0


#: The most characters of the outputs in a request, whose body may have 1 MiB; and the addition for each result.
_BATCH = 100_000
_EACH = 150

#: Seconds. Downtimes are short and renewed: they end by themselves if the bridge is killed.
_DOWNTIME = 180
_RENEWED = 90


def result_batches(results: Mapping[str, NagiosResult]) -> Iterator[dict[str, NagiosResult]]:
    """Yield the results in parts that fit into one request each; one empty part if there are no results."""
    batch: dict[str, NagiosResult] = {}
    size = 0
    for instance, result in sorted(results.items()):
        size += len(result.output) + _EACH
        if batch and size > _BATCH:
            yield batch
            batch, size = {}, len(result.output) + _EACH
        batch[instance] = result
    yield batch


def changed_results(
    results: Mapping[str, NagiosResult], reported: Mapping[str, NagiosResult], *, refresh: bool
) -> dict[str, NagiosResult]:
    """Return the results that differ from those that were reported.

    With ``refresh``, each new run of the plugin makes the result differ; otherwise only another output or another
    state does.
    """
    return {
        instance: result
        for instance, result in results.items()
        if (former := reported.get(instance)) is None
        or (result if refresh else replace(result, checked=former.checked)) != former
    }


def results_of_checks(
    results: Mapping[str, NagiosResult], checks: Mapping[str, NagiosCheck], written: Mapping[str, float]
) -> dict[str, NagiosResult]:
    """Return the results of these checks with their configurations.

    ``written`` is when the definition of each check was written: Nagios keeps the result of a former definition
    until the plugin has run again. Nagios records whole seconds.
    """
    return {
        instance: replace(result, config_id=checks[instance].config_id)
        for instance, result in results.items()
        if instance in checks and result.checked >= int(written.get(instance, 0.0))
    }


def downtime_hosts(hosts: Collection[str], checks: Iterable[NagiosCheck]) -> frozenset[str]:
    """Return the names in Nagios of the given hosts (by id) that have checks."""
    return frozenset(nagios_host_name(check) for check in checks if check.host_id in hosts)


def due_downtimes(hosts: Collection[str], ends: Mapping[str, float], now: float) -> dict[str, float]:
    """Return the hosts that need a downtime now, with its end; ``ends`` are the ends of present downtimes."""
    return {host: now + _DOWNTIME for host in sorted(hosts) if ends.get(host, 0.0) < now + _RENEWED}


def downtime_command(host: str, now: float, end: float) -> str:
    """Return the external command for a downtime of all services of a host."""
    comment = "deployment or maintenance in progress"
    return (
        f"[{now:.0f}] SCHEDULE_HOST_SVC_DOWNTIME;{host};{now:.0f};{end:.0f};1;0;{end - now:.0f};"
        f"{DOWNTIME_AUTHOR};{comment}"
    )
