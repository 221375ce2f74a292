"""Playbooks, run by ansible-runner with the contract of Duffy 3: ``duffy_in`` and ``duffy_out``."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, unquote

import psutil
import yaml
from jinja2 import TemplateError
from jinja2.sandbox import SandboxedEnvironment

from zkdeployment.base.errors import AbandonedError, ProgramError
from zkdeployment.base.machine import process
from zkdeployment.pools.mechanisms import playbook_guard
from zkdeployment.pools.mechanisms.playbook_guard import JOB, OUTCOME
from zkdeployment.pools.rules.node import shortened
from zkdeployment.pools.rules.results import PlaybookRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.pools.documents.values import AnsibleMechanism, Playbook

#: The variable in the environment of a playbook and of all programs that it starts.
_MARK = "ZKDEPLOYMENT_PLAYBOOK"

#: The tag of texts in YAML.
_YAML_TEXT = "tag:yaml.org,2002:str"

#: The beginning of the names of directories for runs of playbooks; the owner follows.
_PLACE = "zkdeployment-playbook-"

#: The number of lines of Ansible's output that an error shows.
_SHOWN_LINES = 20

#: The most characters of each of these lines, because a line may have the result of a whole task.
_SHOWN_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class AnsiblePlaybooks:
    """Runs playbooks, from any thread.

    ``timeout`` is the limit of a playbook in seconds. ``is_stopped`` is called several times a second, and the
    playbook is ended when it returns true. ``permitted`` returns the number of seconds in which no other worker
    can begin the work: a playbook ends before that time is over, even if this process dies or is frozen.
    ``record`` is called with each run that has ended.
    """

    timeout: float = 3600.0
    is_stopped: Callable[[], bool] = lambda: False
    permitted: Callable[[], float] = lambda: math.inf
    record: Callable[[PlaybookRun], object] = lambda _run: None

    def render(self, value: Any, values: Mapping[str, Any]) -> Any:
        """Return a value with all texts in it rendered as templates; raises ``ProgramError`` for invalid ones."""
        return rendered(value, values)

    def run(
        self,
        mechanism: AnsibleMechanism,
        playbook: Playbook,
        values: Mapping[str, Any],
        nodes: Sequence[Mapping[str, Any]],
    ) -> object:
        """Run a playbook for nodes, given as ``duffy_in``, and return the last value of its fact ``duffy_out``.

        ``values`` are those of the pool, for the templates in the playbook's variables. Raises ``ProgramError`` if
        the playbook fails, exceeds its time limit, or does not set the fact.
        """
        end_abandoned_playbooks()  # left by a killed worker, whose work this may be
        given = {"duffy_in": {"nodes": [dict(node) for node in nodes]}}
        variables = {**rendered(playbook.extra_vars, {**values, **given}), **given}
        owner = _owner(psutil.Process())
        with tempfile.TemporaryDirectory(prefix=f"{_PLACE}{quote(owner, safe='')}-") as place:
            _write_variables(Path(place), variables)
            job = {
                "project_dir": mechanism.topdir,
                "playbook": playbook.playbook,
                "envvars": {_MARK: f"{owner}/{uuid.uuid4()}", "PATH": _path()},
            }
            (Path(place) / JOB).write_text(json.dumps(job), encoding="utf-8")
            begun = time.time()
            ended = self._guarded(Path(place), _name(mechanism, playbook))
        run = PlaybookRun(
            id=0,
            pool=str(values.get("name", "")),
            playbook=playbook.playbook,
            nodes=tuple(int(node["id"]) for node in nodes),
            begun=begun,
            seconds=max(0.0, time.time() - begun),
            succeeded=ended.error is None,
            output="\n".join(ended.lines),
        )
        self.record(run)
        if ended.error is not None:
            raise ended.error
        if not ended.found:
            raise ProgramError(f"{_name(mechanism, playbook)} did not set the fact duffy_out; expected set_fact")
        return ended.output

    def _guarded(self, place: Path, name: str) -> _EndedRun:
        """Return the outcome of a playbook; unless it succeeded, all its programs have ended, too.

        Raises ``AbandonedError`` if the playbook was ended because this worker must not continue.
        """
        deadline = time.monotonic() + self.timeout
        with _Leash(self.permitted) as leash:
            done = process.run(
                [sys.executable, "-m", playbook_guard.__name__, str(place), str(leash.end)],
                pass_fds=[leash.end],
                tick=lambda: leash.hold(is_over=self.is_stopped() or time.monotonic() > deadline),
            )
        file = place / OUTCOME
        outcome = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
        if outcome is not None and outcome["successful"]:
            return _EndedRun(outcome["lines"], None, outcome["found"], outcome["output"])
        if self.is_stopped():
            raise AbandonedError(f"{name} was ended with this program")
        if leash.is_lost:
            raise AbandonedError(f"{name} was ended because ZooKeeper did not answer this worker")
        lines = [] if outcome is None else outcome["lines"]
        if time.monotonic() > deadline:
            return _EndedRun(lines, ProgramError(f"{name} did not end within {self.timeout:g} s and was ended"))
        if outcome is None:
            reason = shortened(done.stderr.strip(), _SHOWN_CHARACTERS)
            return _EndedRun(done.stderr.splitlines(), ProgramError(f"{name} could not be run: {reason}"))
        shown = (shortened(line, _SHOWN_CHARACTERS) for line in lines[-_SHOWN_LINES:])
        error = ProgramError("\n".join([f"{name} failed with status {outcome['rc']}:", *shown]))
        return _EndedRun(lines, error)


@dataclass(frozen=True, slots=True)
class _EndedRun:
    """The lines that Ansible printed, the error of a run that failed, and the fact if it was ``found``."""

    lines: Sequence[str]
    error: ProgramError | None
    found: bool = False
    output: object = None


class _Leash:
    """The pipe through which a worker permits a playbook to run; closing the pipe ends the playbook.

    ``end`` is the descriptor of the reading end, for the playbook's guard. ``is_lost`` is whether the permission
    ran out.
    """

    def __init__(self, permitted: Callable[[], float]) -> None:
        self._permitted = permitted
        self.end, self._own = os.pipe()
        self.is_lost = False
        self._is_held = True
        os.set_blocking(self._own, False)

    def __enter__(self) -> Self:
        self.hold(is_over=False)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.end)
        self._release()

    def hold(self, *, is_over: bool) -> None:
        """Permit the playbook to run for some more seconds, or end it."""
        seconds = self._permitted()
        self.is_lost = self.is_lost or (self._is_held and seconds <= 0)
        if self._is_held:
            with contextlib.suppress(OSError):  # the program has ended, or does not read
                os.write(self._own, f"{max(0.0, seconds):.3f}\n".encode())
        if is_over or self.is_lost:
            self._release()

    def _release(self) -> None:
        if self._is_held:
            self._is_held = False
            os.close(self._own)


def _write_variables(place: Path, variables: Mapping[str, Any]) -> None:
    """Write the variables of a playbook as the file of ansible-runner, with all texts in them marked as unsafe.

    Otherwise Ansible would evaluate templates in the variables, some of which come from tenants, who are root on
    nodes.
    """
    file = place / "env" / "extravars"
    file.parent.mkdir(mode=0o700)
    file.write_text(yaml.dump(variables, Dumper=_UnsafeDumper, explicit_start=True), encoding="ascii")


class _UnsafeDumper(yaml.SafeDumper):
    """Writes YAML in which texts have the tag that prevents Ansible from evaluating them as templates.

    JSON is not usable, because Ansible gives a meaning to some keys of JSON objects.
    """

    def ignore_aliases(self, _data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.Node:
        """Represent a text; a text that could be read as a number or another value is quoted, without a tag."""
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
        with contextlib.suppress(ValueError):  # not the name of a worker's directory
            if is_abandoned(f"{owner}/"):
                shutil.rmtree(place, ignore_errors=True)


def _end_programs(is_meant: Callable[[str], bool]) -> None:
    """Kill programs that playbooks left running; ansible-runner does not end tasks in sessions of their own."""
    for program in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            mark = program.environ().get(_MARK)
            if mark is not None and is_meant(mark):
                program.kill()


def _owner(process: psutil.Process) -> str:
    """Return a text that identifies a process on this machine, even after its id is reused."""
    return f"{_namespace()}/{process.pid}/{process.create_time()}"


def _namespace() -> str:
    """Return the namespace of process ids that this process belongs to."""
    return str(Path("/proc/self/ns/pid").readlink())


def rendered(value: Any, values: Mapping[str, Any]) -> Any:
    """Return a value with all texts in it rendered as templates; raises ``ProgramError`` for an invalid one.

    As in Duffy, a variable that does not exist is empty, and a line end at the end of a template is dropped.
    """
    if isinstance(value, Mapping):
        return {key: rendered(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [rendered(item, values) for item in value]
    if not isinstance(value, str):
        return value
    environment = SandboxedEnvironment()
    try:
        return environment.from_string(value).render(values)
    except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
        raise ProgramError(f"cannot render the template {value!r}: {error}") from error


def _name(mechanism: AnsibleMechanism, playbook: Playbook) -> str:
    return f"the playbook {Path(mechanism.topdir) / playbook.playbook}"
