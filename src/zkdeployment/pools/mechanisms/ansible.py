"""The mechanism ``ansible``: playbooks make and remove nodes, and the ssh program admits tenants as root.

The playbooks are run by ansible-runner with the contract of Duffy 3: ``duffy_in`` and ``duffy_out``. The keys of
tenants are in a block at the end of ``authorized_keys`` that begins with a marker line. Duffy 3 writes the same
block, so nodes can be handed over. A program on the node may drop the marker or move lines, so keys are removed
wherever they are.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import shutil
import socket
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, unquote

import psutil
import yaml
from jinja2 import TemplateError
from jinja2.sandbox import SandboxedEnvironment

from zkdeployment.agent.rules.lease import TENANT_MARKER
from zkdeployment.base.errors import AbandonedError, ProgramError, without_secrets
from zkdeployment.base.machine import process
from zkdeployment.base.machine.public_keys import ssh_key_problem
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.text import printable
from zkdeployment.base.values import dataclass
from zkdeployment.pools.documents import AnsibleMechanism, NodePool, Playbook
from zkdeployment.pools.mechanisms import playbook_guard
from zkdeployment.pools.mechanisms.playbook_guard import JOB, OUTCOME
from zkdeployment.pools.rules.node import PoolNode, end_of_deprovisioning, shortened
from zkdeployment.pools.rules.results import MechanismOutcome, PlaybookRun, deprovisioned, provisioned

if TYPE_CHECKING:
    from zkdeployment.base.machine.clock import Clock


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
        owner = _owner(os.getpid())
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
            reason = shortened(without_secrets(done.stderr.strip()), _SHOWN_CHARACTERS)
            return _EndedRun(done.stderr.splitlines(), ProgramError(f"{name} could not be run: {reason}"))
        shown = (shortened(without_secrets(line), _SHOWN_CHARACTERS) for line in lines[-_SHOWN_LINES:])
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
        return _owner(int(number)) != f"{namespace}/{number}/{begun}"

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


def _owner(pid: int) -> str:
    """Return a text that identifies a process on this machine, even after its id is reused."""
    return f"{_namespace()}/{pid}/{process.start_time(pid)}"


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


#: The options without a configuration file; host keys are not checked, because nodes are made again and again.
_OPTIONS = (
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "CheckHostIP=no",
)

#: The options in all cases: ssh may not prompt, and may not forward anything from this machine.
_FIXED_OPTIONS = (
    "BatchMode=yes",
    "ConnectTimeout=10",
    "EscapeChar=none",
    "ForwardAgent=no",
    "ForwardX11=no",
    "LogLevel=ERROR",
    "RequestTTY=no",
    "ServerAliveInterval=10",
    "ServerAliveCountMax=3",
)

#: The limits of bytes that a node may print, and of their characters in an error, because tenants are root there.
_OUTPUT_LIMIT = 65536
_SHOWN = 500

#: Cuts the block off, and deletes lines. A missing line end before the block would join the next one to the last
#: key.
_CUT = """
set -e
file={file}
sed -i -e '/^### DUFFY tenant credentials$/,$d'{deletions} "$file"
[ -z "$(tail -c 1 "$file")" ] || echo >>"$file"
"""

#: Prints a line with the number of a key if another line of the file has the key.
_FIND = """
if grep -q -e {line} "$file"; then echo 'known {number}'; fi
"""

#: Asks for the block and appends it. A node that was frozen gets no block, because the connection has ended.
_ASKING = "ready for the keys"
_APPEND = f"""
echo '{_ASKING}'
cat >>"$file"
"""

#: The regular expression of a line with a key: only letters, digits, ``+``, ``/`` and ``=`` are in a key.
_LINE = r"\(^\|[[:space:]]\){blob}\([[:space:]]\|$\)"

#: The command of sed that deletes such lines.
_DELETION = r"\,{line},d"

#: Ends all connections but this one: all processes of sshd but its listener and the ancestors of this shell.
_END_CONNECTIONS = """
keep=' '
pid=$$
while [ "${pid:-0}" -gt 1 ]; do
    keep="$keep$pid "
    pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status")
done
for directory in /proc/[0-9]*; do
    pid=${directory#/proc/}
    case $keep in *" $pid "*) continue ;; esac
    case $(tr '\\0' ' ' 2>/dev/null <"$directory/cmdline" || true) in
        *'[listener]'*) ;;
        'sshd: '* | 'sshd-session: '*) kill "$pid" 2>/dev/null || true ;;
    esac
done
"""


@dataclass(frozen=True, slots=True)
class SshTenantKeys:
    """The keys of tenants on nodes. All methods may be called from any thread; they raise ``ProgramError``.

    ``key`` is the file of the private key that all nodes admit. ``configuration`` is a configuration of ssh, with
    ports, jump hosts or known hosts. ``authorized_keys`` is the file on the nodes. ``timeout`` is in seconds.
    ``is_stopped`` is called several times a second; when it returns true, ssh is ended with an
    ``AbandonedError``.
    """

    key: Path | None = None
    configuration: Path | None = None
    authorized_keys: str = "/root/.ssh/authorized_keys"
    timeout: float = 60.0
    is_stopped: Callable[[], bool] = lambda: False

    def write(self, address: str, keys: Sequence[str]) -> tuple[str, ...]:
        """Make a node admit a tenant's keys instead of those of any earlier tenant.

        Return the keys that the node did not admit before; a key from another owner counts as admitted.
        """
        find = (_FIND.format(line=shlex.quote(_line_with(key)), number=number) for number, key in enumerate(keys))
        block = "".join(f"{line}\n" for line in (TENANT_MARKER, *keys))
        printed = self._run(address, self._cut(()) + "".join(find) + _APPEND, block, f"{_ASKING}\n").splitlines()
        return tuple(key for number, key in enumerate(keys) if f"known {number}" not in printed)

    def remove(self, address: str, keys: Sequence[str]) -> None:
        """Remove all keys of tenants from a node and end the tenant's connections; other keys stay.

        The ``keys`` are removed wherever they are, other keys of tenants only from their place in the file.
        """
        self._run(address, self._cut(keys) + _END_CONNECTIONS)

    def probe(self, address: str) -> None:
        """Log in to a node, and raise ``ProgramError`` if that fails."""
        self._run(address, "true")

    def _cut(self, keys: Sequence[str]) -> str:
        deletions = "".join(f" -e {shlex.quote(_DELETION.format(line=_line_with(key)))}" for key in keys)
        return _CUT.format(file=shlex.quote(self.authorized_keys), deletions=deletions)

    def _run(self, address: str, script: str, text: str = "", ready: str = "") -> str:
        options = _FIXED_OPTIONS if self.configuration is not None else (*_OPTIONS, *_FIXED_OPTIONS)
        argv = ["ssh", "-F", "none" if self.configuration is None else str(self.configuration)]
        if self.key is not None:
            argv += ["-i", str(self.key), "-o", "IdentitiesOnly=yes"]
        for option in options:
            argv += ["-o", option]
        done = process.run(
            [*argv, "-l", "root", "--", address, script],
            timeout=self.timeout,
            text=text,
            ready=ready.encode(),
            output_limit=_OUTPUT_LIMIT,
            tick=self._check_stopped,
        )
        if done.status:
            words = printable(" ".join((done.stderr.strip() or done.stdout.strip()).split()))
            raise ProgramError(f"ssh to root at {address} failed: {words[-_SHOWN:] or f'status {done.status}'}")
        return done.stdout

    def _check_stopped(self) -> None:
        if self.is_stopped():
            raise AbandonedError("ssh was ended, because this worker must not continue")


def _line_with(key: str) -> str:
    """Return the regular expression of lines with a public key; raises ``ProgramError`` for anything else."""
    problem = ssh_key_problem(key)
    if problem is not None:
        raise ProgramError(f"the tenant's key is not valid: {problem}")
    return _LINE.format(blob=key.split()[1])


#: The most seconds that all lookups together may take.
_LIMIT = 10.0


def _name_of(address: str) -> str:
    return socket.gethostbyaddr(address)[0]


def reverse_names(
    addresses: Collection[str], limit: float = _LIMIT, lookup: Callable[[str], str] = _name_of
) -> Mapping[str, str]:
    """Return the host names of addresses, without addresses that have no valid name, or none in time."""
    found: dict[str, str] = {}

    def find(address: str) -> None:
        with contextlib.suppress(OSError, UnicodeError):
            name = lookup(address).rstrip(".")
            if name_problem(NameKind.HOST_NAME, name) is None:
                found[address] = name

    deadline = time.monotonic() + limit
    threads = [threading.Thread(target=find, args=(address,), daemon=True) for address in addresses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)


class AnsibleNodes:
    """Makes and removes nodes by playbooks (a ``PoolMechanism``).

    ``names`` returns the host names of addresses, if they have one.
    """

    def __init__(
        self,
        playbooks: AnsiblePlaybooks,
        keys: SshTenantKeys,
        clock: Clock,
        names: Callable[[Collection[str]], Mapping[str, str]] = reverse_names,
    ) -> None:
        self._names = names
        self._playbooks = playbooks
        self._keys = keys
        self._clock = clock

    def reuse_values(self, pool: NodePool) -> Mapping[str, int | str] | None:
        if pool.reuse is None:
            return None
        return {key: rendered(value, pool.values) for key, value in pool.reuse.items()}

    def provision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        mechanism = _mechanism(pool)
        given = [_given(node) for node in nodes]
        output = self._playbooks.run(mechanism, mechanism.provision, pool.values, given)
        return self._named(provisioned(nodes, output, self._clock.now()))

    def _named(self, outcome: MechanismOutcome) -> MechanismOutcome:
        """Return an outcome in which nodes without a name from their playbook have the name of their address."""
        nameless = {
            node.id for node in outcome.nodes if "ipaddr" in _result(node) and not _result(node).get("hostname")
        }
        names = (
            self._names({node.ipaddr or "" for node in outcome.nodes if node.id in nameless}) if nameless else {}
        )
        named = (
            replace(node, hostname=names.get(node.ipaddr or "", node.ipaddr)) if node.id in nameless else node
            for node in outcome.nodes
        )
        return replace(outcome, nodes=tuple(named))

    def deprovision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        mechanism = _mechanism(pool)
        if mechanism.deprovision is None:
            ended = (end_of_deprovisioning(node, self._clock.now()) for node in nodes)
            return MechanismOutcome(tuple(ended))
        given = [{**_given(node), "data": dict(node.data)} for node in nodes]
        output = self._playbooks.run(mechanism, mechanism.deprovision, pool.values, given)
        return deprovisioned(nodes, output, self._clock.now())

    def probe(self, node: PoolNode) -> None:
        self._keys.probe(_address(node))

    def write_keys(self, node: PoolNode, keys: Sequence[str]) -> tuple[str, ...]:
        return self._keys.write(_address(node), keys)

    def remove_keys(self, node: PoolNode) -> None:
        self._keys.remove(_address(node), node.keys)


def _mechanism(pool: NodePool) -> AnsibleMechanism:
    if not isinstance(pool.mechanism, AnsibleMechanism):
        raise ProgramError(f"the pool {pool.name} has another mechanism now; expected ansible")
    return pool.mechanism


def _result(node: PoolNode) -> Mapping[str, Any]:
    """Return the playbook's result for a node; empty for a node that no playbook provisioned."""
    result: Mapping[str, Any] = node.data.get("provision", {})
    return result


def _given(node: PoolNode) -> dict[str, Any]:
    """Return a node as an item of ``duffy_in``."""
    return {"id": node.id, "hostname": node.hostname, "ipaddr": node.ipaddr}


def _address(node: PoolNode) -> str:
    if node.ipaddr is None:
        raise ProgramError(f"node {node.id} has no address")
    return node.ipaddr
