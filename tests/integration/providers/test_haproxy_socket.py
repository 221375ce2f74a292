"""The servers of the real HAProxy agree with its file, whichever way a change takes."""

import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from support.balancers import running_haproxy
from support.waiting import wait_until
from zkdeployment.base.errors import ProgramError
from zkdeployment.providers.balancers import CheckedFile, command
from zkdeployment.providers.haproxy_socket import RunningServers, RuntimeSocket

A, B, C = "a:80", "b:80", "::1:80"


def content(**weights):
    """Return a file with the servers a, b and c of these weights; a weight of ``None`` is not stated."""
    names = {"a": A, "b": B, "c": C}
    lines = [
        f"    server {names[name]} 127.0.0.1:9{'' if weight is None else f' weight {weight}'}\n"
        for name, weight in weights.items()
    ]
    return f"backend web\n    default-server check inter 60s\n{''.join(lines)}".encode()


class Haproxy:
    """A running HAProxy with its file, and the reloads that were made for the file."""

    def __init__(self, balancer, place) -> None:
        self.balancer, self.count = balancer, place / "reloads"
        self.count.touch()
        self.reload = ("sh", "-c", f"echo >> {self.count}; {balancer.reload}")
        self.file = self.open()

    def open(self, path=None, reload=None, limit=10.0, file=None, patience=60.0):
        running = RunningServers(RuntimeSocket(path or self.balancer.admin, limit), patience)
        check = command(self.balancer.check)
        return CheckedFile(file or self.balancer.file, check, self.reload if reload is None else reload, running)

    @property
    def reloads(self):
        return len(self.count.read_text())

    def load(self, text, file=None):
        """Load a file, and wait for the new process after a reload; return whether HAProxy was reloaded."""
        pid, reloads = self.balancer.pid, self.reloads
        (file or self.file).load(text)
        if self.reloads > reloads:
            self.wait_for_other_process(pid)
        return self.reloads > reloads

    def reload_by_others(self):
        pid = self.balancer.pid
        subprocess.run(self.balancer.reload.split(), check=True)
        self.wait_for_other_process(pid)

    def wait_for_other_process(self, pid):
        wait_until(lambda: self.balancer.pid != pid, "the new process of HAProxy")
        wait_until(lambda: not self.balancer.is_reloading, "the end of the reload")

    def drained(self):
        return {name for name, (_, is_drained) in self.balancer.servers.items() if is_drained}


@pytest.fixture
def haproxy(tmp_path):
    with running_haproxy(tmp_path) as balancer:
        yield Haproxy(balancer, tmp_path)


def test_weights_and_the_set_of_servers_in_use_change_without_a_reload(haproxy):
    assert haproxy.load(content(a=1, b=2, c=3))
    pid = haproxy.balancer.pid
    assert not haproxy.load(content(a=256, b=0, c=3))
    assert haproxy.balancer.servers == {A: (256, False), B: (0, False), C: (3, False)}
    assert not haproxy.load(content(a=256))
    assert haproxy.balancer.servers == {A: (256, False), B: (0, True), C: (3, True)}
    assert not haproxy.load(content(a=256, b=5))
    assert haproxy.balancer.servers == {A: (256, False), B: (5, False), C: (3, True)}
    assert not haproxy.load(content())
    assert haproxy.drained() == {A, B, C}
    assert (haproxy.balancer.pid, haproxy.reloads) == (pid, 1)
    assert haproxy.balancer.file.read_bytes() == content()


def test_a_server_that_is_used_again_gets_requests_before_its_next_check(haproxy):
    haproxy.load(content(a=1))

    def is_up():
        (line,) = [line for line in haproxy.balancer.ask("show stat").splitlines() if line.startswith(f"web,{A},")]
        return "UP" in line.split(",")[17]

    wait_until(lambda: not is_up(), "the failed check of a server that accepts no connection")
    haproxy.load(content())
    assert not haproxy.load(content(a=1))
    assert is_up()


def test_a_server_without_a_stated_weight_keeps_that_of_the_configuration(haproxy):
    assert haproxy.load(content(a=None, b=2))
    assert not haproxy.load(content(b=3))
    assert not haproxy.load(content(a=None, b=2))
    assert haproxy.balancer.servers == {A: (1, False), B: (2, False)}
    assert haproxy.load(content(a=1, b=2))


@contextmanager
def listening(place, answer):
    """Yield the path of a socket at which a program calls ``answer`` with each connection."""
    path = place / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve():
            while True:
                try:
                    channel, _ = listener.accept()
                except OSError:
                    return
                answer(channel)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield path
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def flood(channel):
    with channel:
        try:
            while True:
                channel.sendall(b"0" * (1 << 20))
        except OSError:
            return


def close_with(text):
    def answer(channel):
        with channel:
            channel.recv(1000)
            channel.sendall(text)

    return answer


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([].append, "expected answers within 0.5 seconds, found none"),
        (flood, "expected an answer of at most 8388608 bytes, found more"),
        (close_with(b""), "expected the process of HAProxy from its socket, found ''"),
        (close_with(b"Pid: 7\n"), "expected the servers of web from HAProxy, found 'Pid: 7'"),
        (close_with(b"\xff\x1b\n"), r"expected the process of HAProxy from its socket, found '\ufffd\x1b'"),
        (None, "No such file or directory"),
    ],
    ids=["silent", "endless", "closed", "another program", "garbage", "missing"],
)
def test_haproxy_is_reloaded_if_its_socket_cannot_be_used(answer, reason, haproxy):
    place = haproxy.balancer.admin.parent
    with capture_logs() as logs:
        if answer is None:
            file = haproxy.open(place / "missing")
            assert [haproxy.load(content(a=weight), file) for weight in (1, 2)] == [True, True]
        else:
            with listening(place, answer) as path:
                file = haproxy.open(path, limit=0.5 if "0.5 seconds" in reason else 10.0)
                assert [haproxy.load(content(a=weight), file) for weight in (1, 2)] == [True, True]
    assert haproxy.balancer.servers == {A: (2, False)}
    (log,) = [log for log in logs if log["event"] == "balancer-reloading"]
    assert reason in log["reason"]
    assert log["log_level"] == "warning"


@pytest.mark.parametrize(
    ("text", "level", "reason"),
    [
        (content(a=1, b=1), "info", "the line of server web/b:80 differs from the file of the last reload"),
        (content(a=1) + b"    fullconn 9\n", "info", "other lines than those of servers differ"),
        (content(a=2) + b"    # comment\n", None, None),
    ],
    ids=["a new server", "another line", "a comment"],
)
def test_haproxy_is_reloaded_if_its_socket_cannot_make_the_change(text, level, reason, haproxy):
    haproxy.load(content(a=1))
    with capture_logs() as logs:
        assert haproxy.load(text) == (level is not None)
    found = [log for log in logs if log["event"] == "balancer-reloading"]
    assert [log["log_level"] for log in found] == ([] if level is None else [level])
    assert all(reason in log["reason"] for log in found)


def test_haproxy_is_reloaded_if_its_socket_refuses_the_change(haproxy):
    file = haproxy.open(haproxy.balancer.admin.with_name("socket.readers"))
    haproxy.load(content(a=1), file)
    with capture_logs() as logs:
        assert haproxy.load(content(a=2), file)
    assert haproxy.balancer.servers == {A: (2, False)}
    (log,) = [log for log in logs if log["event"] == "balancer-reloading"]
    assert log["reason"] == "HAProxy refused 'set server web/a:80 weight 2': 'Permission denied'"


def test_a_process_that_a_reload_has_not_replaced_yet_gets_no_change(haproxy):
    haproxy.load(content(a=1, b=1))
    file = haproxy.open(reload=("sh", "-c", f"echo >> {haproxy.count}"))
    for text in (content(a=1, b=1), content(a=1)):
        file.load(text)
    assert haproxy.reloads == 3
    assert haproxy.drained() == set()
    haproxy.reload_by_others()
    assert not haproxy.load(content(), file)
    assert haproxy.drained() == {A}


#: A filter that dies after the file was written and some commands were given to the socket.
DYING = """
import os, pathlib, signal, sys
from zkdeployment.providers.balancers import CheckedFile
from zkdeployment.providers.haproxy_socket import RunningServers, RuntimeSocket

class Dying(RuntimeSocket):
    def ask(self, commands):
        if commands and commands[0].startswith("set "):
            super().ask(commands[:int(sys.argv[3])])
            os.kill(os.getpid(), signal.SIGKILL)
        return super().ask(commands)

path, admin = map(pathlib.Path, sys.argv[1:3])
file = CheckedFile(path, (), sys.argv[4:], RunningServers(Dying(admin)))
file.load(sys.stdin.buffer.readline().replace(b"|", b"\\n"))
print(flush=True)
file.load(sys.stdin.buffer.readline().replace(b"|", b"\\n"))
"""


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (0, {A: (1, False), B: (1, False), C: (1, False)}),
        (1, {A: (7, False), B: (1, False), C: (1, False)}),
        (2, {A: (7, False), B: (1, False), C: (1, True)}),
    ],
)
def test_file_and_servers_agree_after_a_death_between_them(number, told, haproxy):
    pid = haproxy.balancer.pid
    arguments = [haproxy.balancer.file, haproxy.balancer.admin, str(number), *haproxy.reload]
    with subprocess.Popen(
        [sys.executable, "-c", DYING, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdin.write(content(a=1, b=1, c=1).replace(b"\n", b"|") + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        haproxy.wait_for_other_process(pid)
        process.stdin.write(content(a=7).replace(b"\n", b"|") + b"\n")
        process.stdin.flush()
        assert process.wait() == -signal.SIGKILL
    assert haproxy.balancer.servers == told
    assert haproxy.balancer.file.read_bytes() == content(a=7) + b"\n"
    assert haproxy.load(content(a=7) + b"\n")
    assert haproxy.balancer.servers == {A: (7, False)}


def test_a_drained_server_that_a_reload_by_others_removed_is_added_by_a_reload(haproxy):
    haproxy.load(content(a=1, b=2))
    haproxy.load(content(a=1))
    haproxy.reload_by_others()
    assert haproxy.balancer.servers == {A: (1, False)}
    with capture_logs() as logs:
        assert haproxy.load(content(a=1, b=2))
    assert "the running HAProxy has no server web/b:80" in [log.get("reason") for log in logs]
    assert haproxy.balancer.servers == {A: (1, False), B: (2, False)}


def test_a_reload_by_others_with_the_former_file_is_noticed(haproxy):
    haproxy.load(content(a=1, b=2))
    haproxy.load(content(a=3))
    haproxy.balancer.file.write_bytes(content(a=1, b=2))  # the file that they read before the change
    haproxy.reload_by_others()
    haproxy.balancer.file.write_bytes(content(a=3))
    assert not haproxy.load(content(a=3))
    assert haproxy.balancer.servers == {A: (3, False), B: (2, True)}


def test_a_server_that_others_removed_is_added_by_one_reload(haproxy):
    haproxy.load(content(a=1, b=2))
    assert not haproxy.load(content(a=1, b=2))
    haproxy.balancer.file.write_bytes(content(a=1))
    haproxy.reload_by_others()
    with capture_logs() as logs:
        assert [haproxy.load(content(a=1, b=2)) for _ in range(3)] == [True, False, False]
    assert [log["reason"] for log in logs if log["event"] == "balancer-differs"] == [
        "the running HAProxy has no server web/b:80"
    ]
    assert haproxy.balancer.servers == {A: (1, False), B: (2, False)}


def test_a_reload_that_haproxy_ignored_is_repeated(haproxy, tmp_path):
    ignored = tmp_path / "ignored"
    file = haproxy.open(reload=("sh", "-c", f"echo >> {haproxy.count}; rm {ignored} || {haproxy.balancer.reload}"))
    haproxy.load(content(a=1), file)
    ignored.touch()
    file.load(content(a=1, b=2))
    haproxy.balancer.file.write_bytes(content(a=1))  # the file that the reload before read, during that one
    haproxy.reload_by_others()
    haproxy.balancer.file.write_bytes(content(a=1, b=2))
    assert [haproxy.load(content(a=1, b=2), file) for _ in range(2)] == [True, False]
    assert haproxy.balancer.servers == {A: (1, False), B: (2, False)}


def test_a_reload_that_does_not_replace_the_process_is_repeated(haproxy, tmp_path):
    ignored = tmp_path / "ignored"
    reload = f"echo >> {haproxy.count}; rm {ignored} || {haproxy.balancer.reload}"
    file = haproxy.open(reload=("sh", "-c", reload), patience=0.0)
    haproxy.load(content(a=1), file)
    ignored.touch()
    file.load(content(a=1, b=2))
    assert haproxy.balancer.servers == {A: (1, False)}
    assert [haproxy.load(content(a=1, b=2), file) for _ in range(2)] == [True, False]
    assert haproxy.balancer.servers == {A: (1, False), B: (2, False)}


def test_a_haproxy_that_does_not_read_the_file_is_not_reloaded_again_and_again(haproxy, tmp_path):
    file = haproxy.open(file=tmp_path / "other.cfg")
    assert [haproxy.load(content(a=1), file) for _ in range(4)] == [True, True, False, False]


def test_a_file_that_others_changed_is_loaded_by_a_reload(haproxy):
    haproxy.load(content(a=1, b=2))
    haproxy.balancer.file.write_bytes(content(a=1, b=2) + b"    fullconn 9\n")
    assert haproxy.load(content(a=1))
    assert haproxy.balancer.servers == {A: (1, False)}


def test_the_file_decides_weights_and_drains_and_an_operator_disables_servers(haproxy):
    haproxy.load(content(a=1, b=2, c=3))
    for change in (f"{A} weight 9", f"{B} state drain", f"{C} state maint"):
        assert haproxy.balancer.ask(f"set server web/{change}") == "\n"
    assert not haproxy.load(content(a=1, b=2, c=3))
    assert haproxy.balancer.servers == {A: (1, False), B: (2, False), C: (3, False)}
    assert " MAINT" in f" {haproxy.balancer.ask('show stat').partition(f'web,{C},')[2].split(',')[15]}"


def test_a_file_that_the_check_refuses_changes_no_server(haproxy):
    haproxy.load(content(a=1, b=2))
    with pytest.raises(ProgramError, match="nonsense"):
        haproxy.load(content(a=1) + b"    nonsense\n")
    assert haproxy.balancer.servers == {A: (1, False), B: (2, False)}
    assert not haproxy.load(content(a=1))
    assert haproxy.drained() == {B}
