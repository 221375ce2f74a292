"""The real HAProxy and nginx for tests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

from support.waiting import wait_until
from zkdeployment.sandbox.zookeeper import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = Path(__file__).resolve().parents[2]

#: Where ``scripts/lib.sh`` unpacks the programs if the machine has no packages of them.
_UNPACKED = _HERE / "build" / "balancers"

_HAPROXY = """\
global
    stats socket {socket} level admin expose-fd listeners
    stats socket {socket}.readers level user
    hard-stop-after 10s
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend web
    bind 127.0.0.1:{port}
    default_backend web
"""

_NGINX = """\
pid {place}/nginx.pid;
error_log {place}/error.log;
worker_processes 2;
events {{}}
http {{
    access_log off;
    client_body_temp_path {place}/body;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    include {place}/conf.d/*;
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass http://web; }}
    }}
}}
"""


def program(name: str) -> str:
    """Return the path of a load balancer's program."""
    return shutil.which(name) or str(_UNPACKED / "usr" / "sbin" / name)


def environment() -> dict[str, str]:
    """Return the variables with which the programs find their libraries."""
    libraries = ":".join(map(str, (_UNPACKED / "usr" / "lib").glob("*-linux-gnu")))
    return {**os.environ, "LD_LIBRARY_PATH": libraries}


@dataclass(frozen=True)
class Balancer:
    """A load balancer at ``port``: the example of its template, its file, and the commands of the filter.

    HAProxy also has the socket ``admin``, and one beside it with the suffix ``.readers``, which permits no change.
    """

    port: int
    example: str
    file: Path
    check: str
    reload: str
    admin: Path | None = None

    def ask(self, command: str) -> str:
        """Return the answer of HAProxy to a command for its socket."""
        with socket.socket(socket.AF_UNIX) as channel:
            wait_until(lambda: channel.connect_ex(str(self.admin)) == 0, "the socket of HAProxy")
            channel.sendall(f"{command}\n".encode())
            return b"".join(iter(lambda: channel.recv(1 << 16), b"")).decode()

    @property
    def pid(self) -> int:
        """The process of HAProxy that accepts connections."""
        return int(dict(line.partition(": ")[::2] for line in self.ask("show info").splitlines())["Pid"])

    @property
    def is_reloading(self) -> bool:
        """Whether HAProxy ignores the signal of its next reload, because it has not finished the last one."""
        status = Path(f"/proc/{self.reload.split()[-1]}/status").read_text(encoding="utf-8")
        masks = dict(line.split(":", 1) for line in status.splitlines())
        return not int(masks["SigCgt"], 16) >> (signal.SIGUSR2 - 1) & 1

    @property
    def servers(self) -> dict[str, tuple[int, bool]]:
        """The weights of the servers of HAProxy, and whether each is drained."""
        _, columns, *lines = self.ask("show servers state web").split("\n")
        states = [dict(zip(columns[2:].split(), line.split(), strict=True)) for line in lines if line]
        return {
            state["srv_name"]: (int(state["srv_uweight"]), state["srv_admin_state"] == "8") for state in states
        }

    def get(self, path: str = "/") -> tuple[int, bytes]:
        """Return the status and the body of an answer, on a connection of its own."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def answers(self) -> bool:
        """Return whether the load balancer forwards requests to a server."""
        try:
            return self.get()[0] == 200
        except (OSError, HTTPException):
            return False


@contextmanager
def running_haproxy(place: Path) -> Iterator[Balancer]:
    """Run HAProxy in ``place``, with an empty backend in the file that a filter is to keep."""
    main, file, port = place / "haproxy.cfg", place / "conf.d" / "web.cfg", free_port()
    file.parent.mkdir(parents=True)
    short = Path(tempfile.mkdtemp(prefix="haproxy-"))  # the path of a socket has at most 97 characters
    main.write_text(_HAPROXY.format(socket=short / "socket", port=port), encoding="utf-8")
    file.write_text("backend web\n", encoding="utf-8")
    argv = [program("haproxy"), "-W", "-db", "-f", str(main), "-f", str(file.parent)]
    with (place / "haproxy.log").open("w") as log:
        process = subprocess.Popen(argv, env=environment(), stdout=log, stderr=subprocess.STDOUT)
    try:
        check = f"{program('haproxy')} -c -f {main} -f {file.parent}"
        balancer = Balancer(
            port,
            "haproxy.cfg.j2",
            file,
            f"env LD_LIBRARY_PATH={environment()['LD_LIBRARY_PATH']} {check}",
            f"kill -USR2 {process.pid}",
            short / "socket",
        )
        wait_until(lambda: _listens(port), "HAProxy listens")
        # Its first process listens before it obeys the signal of a reload.
        wait_until(lambda: not balancer.is_reloading, "HAProxy can be reloaded")
        yield balancer
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(short)


@contextmanager
def running_nginx(place: Path) -> Iterator[Balancer]:
    """Run nginx in ``place``, with a server that answers nothing in the file that a filter is to keep."""
    main, file, port = place / "nginx.conf", place / "conf.d" / "web.conf", free_port()
    file.parent.mkdir(parents=True)
    main.write_text(_NGINX.format(place=place, port=port), encoding="utf-8")
    file.write_text("upstream web { server 127.0.0.1:9 max_fails=0; }\n", encoding="utf-8")
    argv = [program("nginx"), "-c", str(main), "-e", str(place / "error.log")]
    process = subprocess.Popen([*argv, "-g", "daemon off;"])
    try:
        wait_until(lambda: _listens(port), "nginx listens")
        command = " ".join(argv)
        yield Balancer(port, "nginx.conf.j2", file, f"{command} -t", f"{command} -s reload")
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
