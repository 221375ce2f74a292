"""A real Nagios for the sandbox and the tests, and the member of a sandbox that is Nagios with its bridge."""

from __future__ import annotations

import getpass
import grp
import os
import shlex
import shutil
import time
from pathlib import Path
from typing import Any

import zkdeployment
from zkdeployment.base.errors import ProgramError
from zkdeployment.base.values import dataclass
from zkdeployment.sandbox.layout import log_tail, nagios_configuration, write_private
from zkdeployment.sandbox.processes import BackgroundProcess, Deadline, SandboxDaemon, add_user

#: The directory into which ``scripts/test`` unpacks the packages, if this program runs from a checkout.
_UNPACKED = Path(zkdeployment.__file__).resolve().parents[2] / "build/nagios/usr"

_PROGRAMS = ("nagios4", "nagios")
_PLUGINS = ("lib/nagios/plugins", "lib64/nagios/plugins")

#: Seconds until Nagios has written its first status.
_START_LIMIT = 120.0

_CONFIGURATION = """\
cfg_dir={objects}
cfg_file={directory}/templates.cfg
log_file={directory}/events.log
log_archive_path={directory}
object_cache_file={directory}/objects.cache
status_file={directory}/status.dat
status_update_interval=1
lock_file={directory}/lock
temp_file={directory}/status.tmp
temp_path={directory}
check_result_path={directory}/results
command_file={directory}/commands
query_socket={directory}/query
state_retention_file={directory}/retention.dat
retain_state_information=1
use_retained_scheduling_info=1
nagios_user={user}
nagios_group={group}
service_inter_check_delay_method=n
host_inter_check_delay_method=n
check_external_commands=1
check_for_updates=0
enable_notifications=0
event_broker_options=0
illegal_object_name_chars=`~!$%^&*|'"<>?,()=
illegal_macro_output_chars=`~$&|'"<>
use_syslog=0
"""

#: The templates, and a host with a service, without which Nagios does not run.
_TEMPLATES = """\
define timeperiod {
    timeperiod_name  always
    alias            always
    sunday           00:00-24:00
    monday           00:00-24:00
    tuesday          00:00-24:00
    wednesday        00:00-24:00
    thursday         00:00-24:00
    friday           00:00-24:00
    saturday         00:00-24:00
}
define command {
    command_name  notify-nobody
    command_line  /bin/true
}
define contact {
    contact_name                   operator
    service_notification_commands  notify-nobody
    host_notification_commands     notify-nobody
    service_notification_period    always
    host_notification_period       always
}
define contact {
    name                           generic-contact
    service_notification_commands  notify-nobody
    host_notification_commands     notify-nobody
    service_notification_period    always
    host_notification_period       always
    register                       0
}
define host {
    name                  generic-host
    contacts              operator
    check_period          always
    notification_period   always
    max_check_attempts    1
    register              0
}
define service {
    name                generic-service
    contacts            operator
    check_period        always
    notification_period always
    max_check_attempts  1
    retry_interval      1
    register            0
}
define host {
    use        generic-host
    host_name  nagios
    address    127.0.0.1
}
define service {
    use                     generic-service
    host_name               nagios
    service_description     nagios
    check_command           notify-nobody
    active_checks_enabled   0
}
"""


@dataclass(frozen=True, slots=True)
class NagiosInstallation:
    """A Nagios 4 on this machine: its program and the directory of its plugins."""

    program: str
    plugins: Path


def find_nagios() -> NagiosInstallation:
    """Return the Nagios and the plugins of distribution packages, or those that ``scripts/test`` has unpacked.

    Raises ``ProgramError`` with a hint at the installation.
    """
    roots = (Path("/usr"), _UNPACKED)
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *(f"{root}/sbin" for root in roots)])
    programs = [found for name in _PROGRAMS if (found := shutil.which(name, path=path)) is not None]
    plugins = [
        place for root in roots for name in _PLUGINS if (place := root / name).joinpath("check_tcp").exists()
    ]
    if not programs or not plugins:
        missing = "nagios4 or nagios on the PATH" if not programs else "the plugins of Nagios"
        raise ProgramError(
            f"expected {missing}, found none; install a Nagios 4 with its plugins (Debian, Ubuntu: apt-get install"
            " --no-install-recommends nagios4-core monitoring-plugins-basic; Fedora: dnf install nagios"
            " nagios-plugins-all)"
        )
    return NagiosInstallation(programs[0], plugins[0])


class NagiosServer:
    """A Nagios with all its files in ``directory``; the bridge writes into ``objects``."""

    def __init__(self, installation: NagiosInstallation, directory: Path) -> None:
        self.directory = directory
        self.plugins = installation.plugins
        self.objects = directory / "objects"
        self.status_file = directory / "status.dat"
        self.command_file = directory / "commands"
        self.log = directory / "nagios.log"
        self._program = installation.program
        self._configuration = directory / "nagios.cfg"
        self._process_id = directory / "process-id"
        self._process = BackgroundProcess(directory / "nagios.pid")

    @property
    def pid(self) -> int | None:
        """The process id while Nagios runs."""
        return self._process.pid

    @property
    def verify(self) -> str:
        """The command that verifies the configuration."""
        return shlex.join([self._program, "-v", str(self._configuration)])

    @property
    def reload(self) -> str:
        """The command that makes Nagios read its configuration again."""
        return shlex.join(["/bin/sh", "-c", f'kill -HUP "$(cat {shlex.quote(str(self._process_id))})"'])

    def configure(self, more: str = "") -> None:
        """Write the configuration, without any host; ``more`` are further lines of the main file."""
        for place in (self.objects, self.directory / "results"):
            place.mkdir(parents=True, exist_ok=True)
        text = _CONFIGURATION.format(
            directory=self.directory,
            objects=self.objects,
            user=getpass.getuser(),
            group=grp.getgrgid(os.getgid()).gr_name,
        )
        self._configuration.write_text(text + more, encoding="utf-8")
        (self.directory / "templates.cfg").write_text(_TEMPLATES, encoding="utf-8")

    def start(self) -> None:
        """Start Nagios unless it runs, and return when it checks; raises ``ProgramError`` if it does not start."""
        if self._process.alive:
            return
        self.objects.mkdir(exist_ok=True)  # without the directory Nagios does not start, and the bridge fills it
        for remains in (self.status_file, self.command_file):
            remains.unlink(missing_ok=True)
        argv = [self._program, str(self._configuration)]
        pid = self._process.start(argv, log=self.log, cwd=self.directory)
        self._process_id.write_text(f"{pid}\n", encoding="ascii")
        deadline = Deadline(_START_LIMIT)
        while not (self.status_file.exists() and self.command_file.exists()):
            if self._process.pid is None or deadline.passed:
                raise ProgramError(f"Nagios did not start: {log_tail(self.log)}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End Nagios and return when it has ended."""
        self._process.stop()

    def kill(self) -> None:
        """End Nagios like a crash."""
        self._process.kill()


#: The user of the bridge, whose name is that of the monitoring system.
NAGIOS_USER = "nagios1"


@dataclass(frozen=True, slots=True)
class SandboxNagios:
    """The Nagios of the sandbox ``owner``, with all its files in ``directory``."""

    owner: Path
    directory: Path

    @property
    def exists(self) -> bool:
        """Whether the sandbox has a Nagios."""
        return self._configuration.exists()

    @property
    def bridge(self) -> SandboxDaemon:
        """The bridge."""
        return SandboxDaemon(self.owner, self.directory, "bridge", ["nagios", str(self._configuration)])

    @property
    def pid(self) -> int | None:
        """The process id of Nagios while it runs."""
        return self._server.pid

    def status(self) -> dict[str, Any] | None:
        """Return the process ids of Nagios and of its bridge; ``None`` without a Nagios."""
        return {"pid": self.pid, "bridge": self.bridge.pid} if self.exists else None

    def create(self, url: str, zookeeper: str) -> None:
        """Write the configuration of Nagios and of a bridge to the service at ``url``, and add its user."""
        server = self._server
        server.configure()
        key_file = self.directory / "key"
        write_private(key_file, f"{add_user(zookeeper, NAGIOS_USER, 'monitoring')}\n")
        text = nagios_configuration(
            {
                "server": url,
                "user": NAGIOS_USER,
                "key-file": str(key_file),
                "objects": str(server.objects),
                "plugins": str(server.plugins),
                "command-file": str(server.command_file),
                "status-file": str(server.status_file),
                "verify": server.verify,
                "reload": server.reload,
                "interval": "1",
            },
            root=self.directory,
        )
        write_private(self._configuration, text)

    def start(self) -> None:
        """Start Nagios and its bridge, unless they run."""
        self._server.start()
        self.bridge.start()

    def stop(self) -> None:
        """End the bridge and Nagios."""
        self.bridge.stop()
        self._server.stop()

    def kill(self) -> None:
        """End the bridge and Nagios like a crash."""
        self.bridge.kill()
        self._server.kill()

    @property
    def _server(self) -> NagiosServer:
        return NagiosServer(find_nagios(), self.directory)

    @property
    def _configuration(self) -> Path:
        return self.directory / "bridge.cfg"
