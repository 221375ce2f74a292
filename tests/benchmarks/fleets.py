"""Generates trees of large fleets, a git repository that contains such a tree, and a syncer for the repository."""

from collections.abc import Callable
from pathlib import Path

import zkdeployment.programs  # noqa: F401  installs the features, also in processes that benchmarks spawn
from support.repository import Repository
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.program import collect_rarely
from zkdeployment.publishing.daemon.signing import signing_file
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.ports import PublicationSigner, TreeSource
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.zookeeper.session import Session

#: The number of services of a customer, and of hosts of a service.
SERVICES = 10
DEPLOYED = 5
#: The number of services a host runs; 81 nodes per customer result in about five nodes per host.
LOAD = 3
#: The number of services of ``services_text``.
MANY_SERVICES = 100


def fleet_text(hosts: int, *, version: str = "1.0") -> str:
    """Return a tree of customers with ten services, each deployed on five hosts.

    ``version`` is the version of the first service. The services of a host are different applications.
    """
    lines = ["/databases"]
    customers = max(1, hosts * LOAD // (SERVICES * DEPLOYED))
    lines += [f"  /customer{customer}" for customer in range(customers)]
    for customer in range(customers):
        lines.append(f"/customer{customer}")
        for service in range(SERVICES):
            number = customer * SERVICES + service
            lines += [
                f"  /service{service} : application{service} main",
                f"    version = '{version if number == 0 else f'1.{service}'}'",
                f"    threads = {4 + service}",
                f"    database -> /databases/customer{customer}",
                "    /providers",
                "    /deploy",
            ]
            # Each pass over the hosts shifts them by one service.
            place = number * DEPLOYED
            place += place // hosts * DEPLOYED
            lines += [f"      /{host_name((place + n) % hosts)}" for n in range(DEPLOYED)]
    return "\n".join(lines) + "\n"


def services_text(hosts: int, *, version: str = "1.0", rerun: str) -> str:
    """Return a tree of 100 services, each on as many hosts as give each host three services.

    ``version`` is the version of the first service.
    """
    deployed = max(1, hosts * LOAD // MANY_SERVICES)
    lines = ["/services"]
    for number in range(MANY_SERVICES):
        lines += [
            f"  /service{number} : application{number} main",
            f"    version = '{version if number == 0 else f'1.{number}'}'",
            f"    rerun = '{rerun}'",
            "    /providers",
            "    /deploy",
            *(f"      /{host_name((number * deployed + n) % hosts)}" for n in range(deployed)),
        ]
    return "\n".join(lines) + "\n"


def host_name(number: int) -> str:
    """Return the name of a host of the fleet."""
    return f"host{number}.example.com"


def unlike_text(nodes: int) -> str:
    """Return a tree in which all lines differ, so that the parser's caches do not help."""
    lines = ["/top"]
    for n in range(nodes - 1):
        lines += [
            f"  /node{n} : type{n} sub{n}",
            f"    version{n} = '1.{n}'",
            f"    n{n} = {n}",
            f"    l{n} -> ../node{n}",
        ]
    return "\n".join(lines) + "\n"


class FleetRepository:
    """A git repository with the tree of a fleet; each push changes the version of the first service."""

    def __init__(self, directory: Path, hosts: int, text: Callable[..., str] = fleet_text) -> None:
        self.hosts = hosts
        self._text = text
        self._repository = Repository(directory)
        self._pushed = 0
        self.url = self._repository.url

    def push(self) -> str:
        """Commit the next change and return its revision."""
        self._pushed += 1
        text = self._text(self.hosts, version=f"{self._pushed}.0")
        return self._repository.commit({"fleet.zk": text})


def make_syncer(
    source: TreeSource, session: Session, signer: PublicationSigner | None = None, signed: Path | None = None
) -> Syncer:
    """Return a syncer with empty caches, like the syncer of a newly started command.

    With a ``signer``, publications are signed, and ``signed`` is the file that records the signatures.
    """
    collect_rarely()  # as in the command
    signing = None if signed is None else signing_file(signed)
    store = ZooKeeperPublications(session, signer=signer)
    return Syncer(source, store, SystemClock(), signer=signer, signing=signing)
