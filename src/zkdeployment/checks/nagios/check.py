"""A check of one deployment, read from the details in an answer of the service.

Values from the tree reach this module unchanged. ``check_problem`` reports the few values that Nagios cannot use.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import UnusableCheckError
from zkdeployment.base.values import dataclass
from zkdeployment.checks.documents import EMAIL_PATTERN, PHONE_PATTERN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PLUGIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}")
_ADDRESS = re.compile(r"[A-Za-z0-9_:\[][A-Za-z0-9._:%\[\]-]{0,252}")
_INSTANCE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EMAIL = re.compile(EMAIL_PATTERN)
_PHONE = re.compile(PHONE_PATTERN)

#: Bytes. The kernel accepts 128 KiB for an argument and about 2 MiB for all.
_ARGUMENT_LIMIT = 100_000
_ARGUMENTS_LIMIT = 1_000_000

#: Seconds.
_LONGEST_INTERVAL = 100_000 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class NagiosContact:
    """A contact of the on-call duty ``duty``; ``email`` or ``phone`` may be missing."""

    duty: str
    name: str
    email: str | None = None
    phone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NagiosCheck:
    """A check of deployment ``number`` of the service ``path`` on a host; ``interval`` is in seconds.

    ``instance`` is the id of the check instance, ``config_id`` that of its version, and ``configuration`` the name
    of the document. ``contacts`` are notified in place of the contacts of the template.
    """

    instance: str
    config_id: str
    configuration: str
    host_id: str
    host_name: str
    address: str
    path: str
    number: int
    command: str
    arguments: tuple[str, ...]
    interval: float
    contacts: tuple[NagiosContact, ...] = ()


def is_instance(text: str) -> bool:
    """Whether a text is the id of a check instance."""
    return _INSTANCE.fullmatch(text) is not None


def read_check(instance: str, details: Mapping[str, Any]) -> NagiosCheck:
    """Return the check that the details of a deployment describe.

    Raises ``UnusableCheckError`` if a value is missing, has another type, or cannot be used.
    """
    host = details.get("host")
    if not isinstance(host, dict):
        raise UnusableCheckError("expected the object host in the details, found none")
    arguments = details.get("arguments")
    if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
        raise UnusableCheckError("expected a list of texts as arguments in the details, found something else")
    number, interval = details.get("number"), details.get("interval")
    if not isinstance(number, int) or not isinstance(interval, int | float):
        raise UnusableCheckError("expected numbers as number and interval in the details, found something else")
    name = _text(host, "name")
    check = NagiosCheck(
        instance=instance,
        config_id=_text(details, "config_id"),
        configuration=_text(details, "configuration"),
        host_id=_text(host, "id"),
        host_name=name,
        address=_text(host, "address") if host.get("address") is not None else name,
        path=_text(details, "path"),
        number=number,
        command=_text(details, "command"),
        arguments=tuple(arguments),
        interval=interval,
        contacts=tuple(_read_contacts(details.get("on_call"))),
    )
    problem = check_problem(check)
    if problem is not None:
        raise UnusableCheckError(problem)
    return check


def check_problem(check: NagiosCheck) -> str | None:
    """Return why Nagios cannot run a check; ``None`` if it can."""
    if not _PLUGIN.fullmatch(check.command):
        return f"expected the bare name of a plugin as command, found {check.command[:100]!a}"
    if not _ADDRESS.fullmatch(check.address):
        return f"expected a name or an address of the host, found {check.address[:100]!a}"
    if not (math.isfinite(check.interval) and 0 < check.interval <= _LONGEST_INTERVAL):
        return f"expected an interval of more than 0 and less than 100000 days, found {check.interval:g}"
    total = 0
    for position, argument in enumerate(check.arguments, start=1):
        if "\0" in argument:
            return f"argument {position} contains a NUL character, which no program accepts"
        try:
            length = len(argument.encode())
        except UnicodeEncodeError:
            return f"argument {position} is not valid Unicode: {argument[:100]!a}"
        total += length
        if length > _ARGUMENT_LIMIT:
            return f"argument {position} is too long: expected at most {_ARGUMENT_LIMIT} bytes, found {length}"
    if total > _ARGUMENTS_LIMIT:
        return f"the arguments are too long: expected at most {_ARGUMENTS_LIMIT} bytes, found {total}"
    return None


def check_to_text(check: NagiosCheck) -> str:
    """Return a check as one line of ASCII, from which ``check_from_text`` returns the same check."""
    return json.dumps(
        {
            "config_id": check.config_id,
            "configuration": check.configuration,
            "host": {"id": check.host_id, "name": check.host_name, "address": check.address},
            "path": check.path,
            "number": check.number,
            "command": check.command,
            "arguments": check.arguments,
            "interval": check.interval,
            **({"on_call": _on_call(check.contacts)} if check.contacts else {}),
        }
    )


def check_from_text(instance: str, text: str) -> NagiosCheck | None:
    """Return the check that ``check_to_text`` encoded; ``None`` for other texts."""
    try:
        details = json.loads(text)
        return read_check(instance, details) if isinstance(details, dict) else None
    except (ValueError, RecursionError, UnusableCheckError):
        return None


def _read_contacts(on_call: object) -> Iterator[NagiosContact]:
    """Yield the contacts of a duty; raises ``UnusableCheckError`` for values that Nagios or a shell interprets."""
    if on_call is None:
        return
    contacts = on_call.get("contacts") if isinstance(on_call, dict) else None
    if not isinstance(on_call, dict) or not isinstance(contacts, list):
        raise UnusableCheckError(
            "expected an object with contacts as on_call in the details, found something else"
        )
    for contact in contacts:
        if not isinstance(contact, dict):
            raise UnusableCheckError("expected objects as contacts in the details, found something else")
        email, phone = contact.get("email"), contact.get("phone")
        if email is not None and not (isinstance(email, str) and _EMAIL.fullmatch(email)):
            raise UnusableCheckError(f"expected an email address of a contact, found {str(email)[:100]!a}")
        if phone is not None and not (isinstance(phone, str) and _PHONE.fullmatch(phone)):
            raise UnusableCheckError(f"expected a phone number of a contact, found {str(phone)[:100]!a}")
        yield NagiosContact(duty=_text(on_call, "name"), name=_text(contact, "name"), email=email, phone=phone)


def _on_call(contacts: Sequence[NagiosContact]) -> dict[str, object]:
    """Return the duty from which ``_read_contacts`` returns these contacts."""
    return {
        "name": contacts[0].duty,
        "contacts": [
            {"name": contact.name, "email": contact.email, "phone": contact.phone} for contact in contacts
        ],
    }


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    if not isinstance(value, str) or not value:
        raise UnusableCheckError(f"expected a text as {key} in the details, found {str(value)[:100]!a}")
    return value
