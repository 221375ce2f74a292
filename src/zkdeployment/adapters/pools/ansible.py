"""Playbooks, run by ansible-runner with the contract of Duffy 3: ``duffy_in`` and ``duffy_out``."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import ansible_runner
import psutil
import yaml
from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from zkdeployment.errors import ProgramError
from zkdeployment.pools.reasons import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zkdeployment.documents.pools.values import AnsibleMechanism, Playbook

#: The names of the module that sets facts.
_SET_FACT = frozenset({"set_fact", "ansible.builtin.set_fact", "ansible.legacy.set_fact"})

#: The variable in the environment of a playbook and of all programs that it starts.
_MARK = "ZKDEPLOYMENT_PLAYBOOK"

#: The tag of texts in YAML.
_YAML_TEXT = "tag:yaml.org,2002:str"

#: The beginning of the names of directories for runs of playbooks; the owner follows.
_PLACE = "zkdeployment-playbook-"

#: The number of lines of Ansible's output that an error shows.
_SHOWN_LINES = 20

#: The most characters of each of them: a line may have the result of a whole task.
_SHOWN_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class AnsiblePlaybooks:
    """Implements ``PlaybookRunner``.

    ``timeout`` is the limit of a playbook in seconds. ``is_stopped`` is asked about once a second; the playbook is
    ended when it returns true.
    """

    timeout: float = 3600.0
    is_stopped: Callable[[], bool] = lambda: False

    def render(self, value: Any, values: Mapping[str, Any]) -> Any:
        return rendered(value, values)

    def run(
        self,
        mechanism: AnsibleMechanism,
        playbook: Playbook,
        values: Mapping[str, Any],
        nodes: Sequence[Mapping[str, Any]],
    ) -> object:
        end_abandoned_playbooks()  # of a worker that was killed, whose work this may be
        given = {"duffy_in": {"nodes": [dict(node) for node in nodes]}}
        variables = {**rendered(playbook.extra_vars, {**values, **given}), **given}
        deadline = time.monotonic() + self.timeout
        mark = f"{_owner(psutil.Process())}/{uuid.uuid4()}"
        with tempfile.TemporaryDirectory(prefix=f"{_PLACE}{quote(_owner(psutil.Process()), safe='')}-") as place:
            _write_variables(Path(place), variables)
            run = ansible_runner.run(
                private_data_dir=place,
                project_dir=mechanism.topdir,
                playbook=playbook.playbook,
                envvars={_MARK: mark, "PATH": _path()},
                json_mode=True,
                quiet=True,
                cancel_callback=lambda: self.is_stopped() or time.monotonic() > deadline,
            )
            events = list(run.events)
            if run.status != "successful":
                _end_programs(lambda other: other == mark)
                reason = _lateness(self.timeout) if time.monotonic() > deadline else _failure(run, events)
                raise ProgramError(f"{_name(mechanism, playbook)} {reason}")
        found, output = _last_output(events)
        if not found:
            raise ProgramError(f"{_name(mechanism, playbook)} did not set the fact duffy_out; expected set_fact")
        return output


def _write_variables(place: Path, variables: Mapping[str, Any]) -> None:
    """Write the variables of a playbook as the file of ansible-runner, with all texts in them marked as unsafe.

    Ansible would evaluate templates in the variables otherwise, and tenants, who are root on nodes, write some.
    """
    file = place / "env" / "extravars"
    file.parent.mkdir(mode=0o700)
    file.write_text(yaml.dump(variables, Dumper=_UnsafeDumper, explicit_start=True), encoding="ascii")


class _UnsafeDumper(yaml.SafeDumper):
    """Writes YAML in which texts have the tag by which Ansible knows that they are no templates.

    JSON does not serve: Ansible gives some keys of its objects a meaning.
    """

    def ignore_aliases(self, _data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.Node:
        """Represent a text; one that reads as a number or the like has no tag, which would make it one."""
        encodable = text.encode(errors="replace").decode()
        tag = self.resolve(yaml.ScalarNode, encodable, (True, False))  # type: ignore[no-untyped-call]
        return self.represent_scalar("!unsafe" if tag == _YAML_TEXT else _YAML_TEXT, encodable, style='"')


_UnsafeDumper.add_representer(str, _UnsafeDumper.represent_text)


def _path() -> str:
    """Return the search path of programs, with those of this installation first: Ansible is one of them."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def end_abandoned_playbooks() -> None:
    """Kill playbooks that a worker on this machine left running when it was killed, with their directories."""

    def is_abandoned(mark: str) -> bool:
        namespace, number, begun, _ = mark.split("/")
        if namespace != _namespace():
            return False
        try:
            return _owner(psutil.Process(int(number))) != f"{namespace}/{number}/{begun}"
        except psutil.NoSuchProcess:
            return True

    _end_programs(is_abandoned)
    for place in Path(tempfile.gettempdir()).glob(f"{_PLACE}*-*"):
        owner = unquote(place.name.removeprefix(_PLACE).rpartition("-")[0])
        with contextlib.suppress(ValueError):  # it is not named by a worker
            if is_abandoned(f"{owner}/"):
                shutil.rmtree(place, ignore_errors=True)


def _end_programs(is_meant: Callable[[str], bool]) -> None:
    """Kill what playbooks left running: their tasks have sessions of their own, which ansible-runner leaves."""
    for program in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            mark = program.environ().get(_MARK)
            if mark is not None and is_meant(mark):
                program.kill()


def _owner(process: psutil.Process) -> str:
    """Return what identifies a process on this machine, also after its id is used again."""
    return f"{_namespace()}/{process.pid}/{process.create_time()}"


def _namespace() -> str:
    """Return the namespace of process ids that this process belongs to."""
    return str(Path("/proc/self/ns/pid").readlink())


def _lateness(timeout: float) -> str:
    return f"did not end within {timeout:g} s and was ended"


def _failure(run: Any, events: Iterable[Any]) -> str:
    """Return why a run failed, with the end of Ansible's output."""
    if run.status == "canceled":
        return "was ended with this program"
    lines = [line for event in events for line in str(event.get("stdout", "")).splitlines() if line.strip()]
    shown = (shortened(line, _SHOWN_CHARACTERS) for line in lines[-_SHOWN_LINES:])
    return "\n".join([f"failed with status {run.rc}:", *shown])


def rendered(value: Any, values: Mapping[str, Any]) -> Any:
    """Return a value with all texts in it rendered as templates; raises ``ProgramError`` for an invalid one."""
    if isinstance(value, Mapping):
        return {key: rendered(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [rendered(item, values) for item in value]
    if not isinstance(value, str):
        return value
    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    try:
        return environment.from_string(value).render(values)
    except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
        raise ProgramError(f"cannot render the template {value!r}: {error}") from error


def _last_output(events: Sequence[Any]) -> tuple[bool, object]:
    """Return whether the fact was set, and its last value."""
    for event in reversed(events):
        data = event.get("event_data") or {}
        result = data.get("res") or {}
        if event.get("event") == "runner_on_ok" and data.get("task_action") in _SET_FACT:
            facts = result.get("ansible_facts") or {}
            if "duffy_out" in facts:
                return True, facts["duffy_out"]
    return False, None


def _name(mechanism: AnsibleMechanism, playbook: Playbook) -> str:
    return f"the playbook {Path(mechanism.topdir) / playbook.playbook}"
