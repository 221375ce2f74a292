"""The keys of tenants on nodes, by the ssh program as root.

The keys are in a block at the end of ``authorized_keys`` that begins with a marker line. Duffy 3 writes the same
block, so nodes can be handed over. A program on the node may drop the marker or move lines, so keys are removed
wherever they are.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.agent.rules.lease import TENANT_MARKER
from zkdeployment.base.errors import ProgramError
from zkdeployment.base.machine import process
from zkdeployment.base.public_keys import ssh_key_problem
from zkdeployment.base.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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

#: Appends the block.
_APPEND = """
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
    """

    key: Path | None = None
    configuration: Path | None = None
    authorized_keys: str = "/root/.ssh/authorized_keys"
    timeout: float = 60.0

    def write(self, address: str, keys: Sequence[str]) -> tuple[str, ...]:
        """Make a node admit a tenant's keys instead of those of any earlier tenant.

        Return the keys that the node did not admit before; a key from another owner counts as admitted.
        """
        find = (_FIND.format(line=shlex.quote(_line_with(key)), number=number) for number, key in enumerate(keys))
        block = "".join(f"{line}\n" for line in (TENANT_MARKER, *keys))
        printed = self._run(address, self._cut(()) + "".join(find) + _APPEND, block).splitlines()
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

    def _run(self, address: str, script: str, text: str = "") -> str:
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
            output_limit=_OUTPUT_LIMIT,
        )
        if done.status:
            words = printable(" ".join((done.stderr.strip() or done.stdout.strip()).split()))
            raise ProgramError(f"ssh to root at {address} failed: {words[-_SHOWN:] or f'status {done.status}'}")
        return done.stdout


def _line_with(key: str) -> str:
    """Return the regular expression of lines with a public key; raises ``ProgramError`` for anything else."""
    problem = ssh_key_problem(key)
    if problem is not None:
        raise ProgramError(f"the tenant's key is not valid: {problem}")
    return _LINE.format(blob=key.split()[1])
