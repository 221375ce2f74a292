"""A real ZooKeeper for the sandbox, the demo and the tests: installed, in a container, or an ensemble of three.

The container shares the machine's network and the server's directory, and its first process is a process of this
machine. The process is therefore found, reached and ended like a server without a container.
"""

from __future__ import annotations

import importlib
import os
import secrets
import shutil
import socket
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ProgramError
from zkdeployment.base.values import dataclass
from zkdeployment.sandbox.processes import BackgroundProcess, Deadline, slowdown

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zkdeployment.sandbox.layout import Layout


IMAGE = "zookeeper:3.9"

#: Replaces the image's own start script, which would change owners and users.
_SERVER = (
    'exec java "$@" -cp "$0:$(echo /apache-zookeeper-*-bin)/lib/*" {main} "$0/zoo.cfg" >>"$0/server.log" 2>&1'
)


def docker_problem() -> str | None:
    """Return the reason why this machine cannot run containers; ``None`` if it can."""
    try:
        client = importlib.import_module("testcontainers.core.docker_client").DockerClient()
        client.client.ping()
    except ImportError:
        return "testcontainers is not installed (pip install testcontainers)"
    except Exception as error:  # noqa: BLE001  the library passes on the errors of all layers below it
        return f"Docker does not answer ({type(error).__name__})"
    return None


def start_container(directory: Path, options: Sequence[str], main: str) -> int:
    """Start a server with the configuration in ``directory`` and return the id of its process.

    The container outlives this process and is removed when the server ends. Raises ``ProgramError``.
    """
    config = importlib.import_module("testcontainers.core.config").testcontainers_config
    config.ryuk_disabled = True  # because ryuk ends the container together with this process
    containers = importlib.import_module("testcontainers.core.container")
    try:
        container = containers.DockerContainer(IMAGE)
        container.with_name(f"zkdeployment-{uuid.uuid4().hex[:12]}")
        container.with_volume_mapping(str(directory), str(directory), "rw")
        container.with_kwargs(
            network_mode="host",
            auto_remove=True,
            user=f"{os.getuid()}:{os.getgid()}",
            entrypoint=["sh", "-c", _SERVER.format(main=main), str(directory), *options],
        )
        container.start()
        wrapped = container.get_wrapped_container()
        wrapped.reload()
        pid: int = wrapped.attrs["State"]["Pid"]
    except Exception as error:  # see above: errors of Docker, HTTP and other layers
        raise ProgramError(f"cannot start {IMAGE} in a container: {error}") from error
    return pid


#: The places of ZooKeeper's jars in distributions and packages, besides ``ZOOKEEPER_HOME``.
PLACES = (
    "/usr/share/java/zookeeper.jar",  # Debian, Ubuntu: the manifest names the other jars, except those below
    "/usr/share/java/zookeeper/*.jar",
    "/usr/share/zookeeper/lib/*.jar",
    "/usr/share/zookeeper/*.jar",
    "/usr/lib/zookeeper/lib/*.jar",
    "/opt/zookeeper/lib/*.jar",
)

#: Jars that the manifest does not name: a logger, and parts of Netty for encrypted connections.
_NOT_NAMED = ("slf4j-simple", "netty-codec", "netty-resolver")

_LOOPBACK = "127.0.0.1"
_START_LIMIT = 120.0
_PORT_LIMIT = 2.0
_PORTS = range(20000, 32000)
_PORT_ATTEMPTS = 100

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

_OPTIONS = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    # The data need not survive a crash of the machine.
    "-Dzookeeper.forceSync=no",
)

#: The longest session in milliseconds, and the ticks until a server of an ensemble has to be up and to answer.
_TIMES = {"session": 6000, "join": 80, "answer": 40}

_CONFIGURATION = """\
dataDir={data}
clientPortAddress={address}
clientPort={port}
tickTime=250
minSessionTimeout=500
maxSessionTimeout={session}
initLimit={join}
syncLimit={answer}
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr,ruok,mntr,cons,dump,wchs,isro
{ensemble}"""

_LOG4J = """\
log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %-5p %c{1}: %m%n
"""

_LOGBACK = """\
<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{ISO8601} %-5level %logger{0}: %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="console"/></root>
</configuration>
"""


@dataclass(frozen=True, slots=True)
class ZooKeeperInstallation:
    """A ZooKeeper on this machine: the java program, the jars, and their origin.

    ``java`` is ``None`` if it is in a container image.
    """

    java: str | None
    classpath: tuple[str, ...]
    origin: str


def find_installation(
    environment: Mapping[str, str] | None = None, places: Sequence[str] = PLACES
) -> ZooKeeperInstallation:
    """Return the ZooKeeper in ``ZOOKEEPER_HOME``, of the distribution's package, or of a container image.

    Raises ``ProgramError`` with the places that were searched and a hint at the installation.
    """
    environment = os.environ if environment is None else environment
    home = environment.get("ZOOKEEPER_HOME")
    if home:
        jars = _jars(f"{home}/lib/*.jar") + _jars(f"{home}/*.jar")
        if not _is_zookeeper(jars):
            raise ProgramError(f"expected lib/zookeeper-*.jar in ZOOKEEPER_HOME, found none in {home}")
        return ZooKeeperInstallation(_java(environment), jars, home)
    for place in places:
        jars = _jars(place)
        if _is_zookeeper(jars):
            more = [jar for name in _NOT_NAMED for jar in _jars(f"/usr/share/java/{name}.jar") if len(jars) == 1]
            return ZooKeeperInstallation(_java(environment), (*jars, *more), place)
    problem = docker_problem()
    if problem is None:
        return ZooKeeperInstallation(None, (), f"container image {IMAGE}")
    raise ProgramError(
        f"no ZooKeeper found: ZOOKEEPER_HOME is not set, found none at {', '.join(places)}, and no container: "
        f"{problem}; install it (Debian, Ubuntu: apt-get install zookeeper) or unpack a release and set"
        " ZOOKEEPER_HOME to its directory"
    )


def _jars(pattern: str) -> tuple[str, ...]:
    path = Path(pattern)
    return tuple(sorted(str(jar) for jar in path.parent.glob(path.name)))


def _is_zookeeper(jars: Sequence[str]) -> bool:
    return any(Path(jar).name.startswith("zookeeper") for jar in jars)


def _java(environment: Mapping[str, str]) -> str:
    home = environment.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else environment.get("PATH"))
    if java is None:
        raise ProgramError(
            f"ZooKeeper needs java, which is not in {f'JAVA_HOME ({home})' if home else 'the PATH'}; install a"
            " runtime (Debian, Ubuntu: apt-get install default-jre-headless; Fedora: dnf install java-headless)"
        )
    return java


class ZooKeeperServer:
    """A server with all its files in ``directory``, which is reachable on the loopback interface only.

    ``port`` 0 is the previous port of the directory's server, or else a free port. Each server of an ensemble has
    its ``number`` and the same ``ensemble``: a mapping of numbers to ``HOST:PORT:PORT``, for the communication
    between the servers. ``more`` are further lines of the configuration.
    """

    def __init__(
        self,
        installation: ZooKeeperInstallation,
        directory: Path,
        *,
        port: int = 0,
        number: int = 1,
        ensemble: Mapping[int, str] | None = None,
        more: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.number = number
        self.log = directory / "server.log"
        self.port = port or _port_of(directory) or free_port()
        self._installation = installation
        self._ensemble = ensemble or {}
        self._more = more
        self._process = BackgroundProcess(directory / "server.pid")

    @property
    def address(self) -> str:
        """``HOST:PORT``, which is a connection string."""
        return f"{_LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id while the server runs."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the server's process runs."""
        return self._process.alive

    def start(self, *, wait: bool = True) -> None:
        """Start the server unless it runs; return when it serves, or at once without ``wait`` (for an ensemble).

        Raises ``ProgramError`` with the end of its log if it does not start.
        """
        if not self.alive:
            self._check_port()
            self._configure()
            self._launch()
        if wait:
            self.wait()

    def wait(self, timeout: float = _START_LIMIT) -> None:
        """Return when the server serves; raises ``ProgramError`` if it ends, or after ``timeout`` seconds."""
        deadline = Deadline(timeout)
        while not self.serving():
            if not self.alive or deadline.passed:
                raise ProgramError(f"ZooKeeper did not start on {self.address}: {self._log_end()}")
            time.sleep(0.02)

    def serving(self) -> bool:
        """Whether the server answers and has a quorum."""
        try:
            with socket.create_connection((_LOOPBACK, self.port), timeout=2) as connection:
                connection.sendall(b"srvr")
                return b"Mode:" in connection.makefile("rb").read()
        except OSError:
            return False

    def stop(self) -> None:
        """End the server; its data is kept for the next start."""
        self._process.stop()

    def kill(self) -> None:
        """End the server like a crash."""
        self._process.kill()

    def _check_port(self) -> None:
        """Raise ``ProgramError`` if another program uses the port for longer than a killed server takes to end."""
        deadline = Deadline(_PORT_LIMIT)
        while True:
            try:
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind((_LOOPBACK, self.port))
            except OSError as error:
                if deadline.passed:
                    raise ProgramError(f"ZooKeeper cannot listen on {self.address}: {error.strerror}") from error
                time.sleep(0.02)
            else:
                return

    def _configure(self) -> None:
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        lines = [f"server.{number}={address}\n" for number, address in sorted(self._ensemble.items())]
        lines += [f"{line}\n" for line in self._more]
        # On a busy machine, clients that get no processor for some seconds keep their sessions.
        times = {name: round(value * slowdown()) for name, value in _TIMES.items()}
        text = _CONFIGURATION.format(
            data=data, address=_LOOPBACK, port=self.port, ensemble="".join(lines), **times
        )
        (self.directory / "zoo.cfg").write_text(text, encoding="utf-8")
        (self.directory / "log4j.properties").write_text(_LOG4J, encoding="ascii")
        (self.directory / "logback.xml").write_text(_LOGBACK, encoding="ascii")
        (data / "myid").write_text(f"{self.number}\n", encoding="ascii")

    def _launch(self) -> None:
        java = self._installation.java
        if java is None:
            self._process.adopt(start_container(self.directory, _OPTIONS, _MAIN))
            return
        classpath = ":".join((str(self.directory), *self._installation.classpath))
        argv = [java, *_OPTIONS, "-cp", classpath, _MAIN, str(self.directory / "zoo.cfg")]
        self._process.start(argv, log=self.log, cwd=self.directory)

    def _log_end(self) -> str:
        try:
            return self.log.read_text(encoding="utf-8", errors="replace")[-1000:].strip() or "its log is empty"
        except OSError as error:
            return f"no log ({error.strerror})"


def _port_of(directory: Path) -> int:
    try:
        text = (directory / "zoo.cfg").read_text(encoding="utf-8")
    except FileNotFoundError:
        return 0
    ports = [line.partition("=")[2] for line in text.splitlines() if line.startswith("clientPort=")]
    return int(ports[0]) if ports else 0


def free_port(given: Collection[int] = ()) -> int:
    """Return an unused port of the loopback interface that is not ``given`` already.

    The port is outside the range for outgoing connections. Otherwise a client of a stopped server could occupy the
    server's port, or connect to itself.
    """
    for _ in range(_PORT_ATTEMPTS):
        port = secrets.choice(_PORTS)
        if port in given:
            continue
        try:
            with socket.socket() as probe:
                probe.bind((_LOOPBACK, port))
        except OSError:
            continue
        return port
    raise ProgramError(f"no free port found between {_PORTS.start} and {_PORTS.stop}")


def free_ports(count: int) -> list[int]:
    """Return different unused ports of the loopback interface, as ``free_port`` does."""
    ports: list[int] = []
    for _ in range(count):
        ports.append(free_port(ports))
    return ports


_ATTEMPTS = 3


def start_ensemble(layout: Layout, count: int) -> dict[int, tuple[int, int, int]]:
    """Start ``count`` new servers on free ports, and return these ports when all servers serve.

    Raises ``ProgramError`` with the end of a server's log.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        free = iter(free_ports(3 * count))
        ports = {number: (next(free), next(free), next(free)) for number in range(1, count + 1)}
        started = servers(layout, ports)
        try:
            for server in started:
                server.start(wait=False)
            for server in started:
                server.wait()
        except ProgramError:
            # Another program may have taken a port before the server did, so the next attempt uses other ports.
            for server in started:
                server.kill()
            if attempt == _ATTEMPTS:
                raise
            for server in started:
                shutil.rmtree(server.directory, ignore_errors=True)  # some servers may not have created theirs
        else:
            return ports
    raise AssertionError


def servers(layout: Layout, ports: Mapping[int, tuple[int, int, int]]) -> list[ZooKeeperServer]:
    """Return the servers in the order of their numbers, running or not."""
    installation = find_installation()
    several = {
        number: f"127.0.0.1:{peers}:{election}" for number, (_, peers, election) in ports.items() if len(ports) > 1
    }
    return [
        ZooKeeperServer(installation, layout.server(number), port=client, number=number, ensemble=several)
        for number, (client, _, _) in sorted(ports.items())
    ]
