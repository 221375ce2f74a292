"""The keys of tenants on nodes, by the ssh program as root.

The keys are in a block at the end of ``authorized_keys`` that begins with a marker line. Both are as Duffy 3
writes them, so that nodes can be handed over.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.adapters import process
from zkdeployment.errors import ProgramError
from zkdeployment.pools.lease import TENANT_MARKER
from zkdeployment.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

#: The options without a configuration file: nodes are made again and again, so their host keys are not known.
_OPTIONS = (
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "CheckHostIP=no",
)

#: The options in any case: nothing may ask a question, and nothing of this machine is forwarded.
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

#: Bytes that a node may print, and characters of them in an error: tenants are root on nodes.
_OUTPUT_LIMIT = 65536
_SHOWN = 500

#: Cuts the block off. A missing line end before it would join the next block to the last key.
_CUT = """
set -e
file={file}
sed -i '/^### DUFFY tenant credentials$/,$d' "$file"
[ -z "$(tail -c 1 "$file")" ] || echo >>"$file"
"""

_APPEND = """
cat >>"$file"
"""

#: Ends all connections but this one: the processes of sshd that are not its listener and not above this shell.
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
    """Implements ``TenantKeys``.

    ``key`` is the file of the private key that all nodes admit. ``configuration`` is a configuration of ssh, with
    ports, jump hosts or known hosts. ``authorized_keys`` is the file on the nodes. ``timeout`` is in seconds.
    """

    key: Path | None = None
    configuration: Path | None = None
    authorized_keys: str = "/root/.ssh/authorized_keys"
    timeout: float = 60.0

    def write(self, address: str, key: str) -> None:
        self._run(address, self._cut + _APPEND, f"{TENANT_MARKER}\n{key}\n")

    def remove(self, address: str) -> None:
        self._run(address, self._cut + _END_CONNECTIONS)

    @property
    def _cut(self) -> str:
        return _CUT.format(file=shlex.quote(self.authorized_keys))

    def _run(self, address: str, script: str, text: str = "") -> None:
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
