"""The sample packages and their tree: two small HTTP services, built from one spec file.

``hello`` runs on every host, twice on the first; ``worker`` runs on the hosts of a role. Nothing runs on hosts
that can be leased.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.host import Identity, idle_role
from zkdeployment.base.machine import process
from zkdeployment.sandbox.repositories import build_packages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


#: The sample packages: name and version.
PACKAGES = (("hello", "1.0"), ("hello", "1.1"), ("worker", "2.0"))

#: Seconds for the start of an instance.
_TIMEOUT = 60.0

_SOURCE = Path(__file__).parent / "package"

#: The spec file of the packages of the sample operating system.
SYSTEM_SPEC = _SOURCE / "system.spec"

_HELLO = """\
/demo
  /texts
    greeting = 'Hello from the sandbox'

  /hello : hello
    version = '{version}'
    greeting => /demo/texts greeting
{properties}    /providers
    /deploy
{targets}"""

_WORKER = """
  /worker : worker
    version = '2.0'
    queue = 'letters'
    /providers
    /deploy
      /{target}
"""


def build(directory: Path, packages: Iterable[tuple[str, str]] = PACKAGES) -> list[Path]:
    """Build packages, each a name and a version, in ``directory``, and return the RPM files.

    Raises ``ProgramError`` with the output of rpmbuild.
    """
    return [
        file
        for name, version in packages
        for file in build_packages(
            _SOURCE / "service.spec",
            directory,
            {"service": name, "service_version": version, "service_source": str(_SOURCE)},
        )
    ]


def start_services(root: Path, environment: Mapping[str, str]) -> None:
    """Start the deployed instances of the sample services on a host after a boot.

    Raises ``ProgramError`` if an instance cannot be started.
    """
    for program in sorted(root.glob("var/lib/*/*/run")):
        configuration = root / "opt" / program.parents[1].name / "lib" / "zdaemon.conf"
        argv = ["zdaemon", "-C", str(configuration), "start"]
        process.run(argv, cwd=program.parent, env=environment, timeout=_TIMEOUT).check()


def tree(
    hosts: Sequence[Identity], *, version: str = "1.0", worker: bool = True, error_rate: float | None = None
) -> str:
    """Return the text of the sample tree for these hosts, with ``hello`` at ``version``.

    ``error_rate`` is the share of the requests to ``hello`` for ``/work`` that fail. ``worker`` runs on the hosts
    of the first role, or on the last host if no host has a role.
    """
    hosts = [host for host in hosts if host.role is None or idle_role(host.role) is None]
    names = list(dict.fromkeys(host.role or host.id for host in hosts))
    targets = "".join(
        f"      /{name}\n        n = 2\n" if index == 0 else f"      /{name}\n" for index, name in enumerate(names)
    )
    properties = "" if error_rate is None else f"    error_rate = {error_rate}\n"
    text = _HELLO.format(version=version, properties=properties, targets=targets)
    if worker and hosts:
        text += _WORKER.format(target=next((host.role for host in hosts if host.role), hosts[-1].id))
    return text
