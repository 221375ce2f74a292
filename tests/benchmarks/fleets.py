"""Trees of large fleets, a git repository that has one, and a syncer for it."""

from pathlib import Path

from support.repository import Repository
from zkdeployment.adapters.clock import SystemClock
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.publication.store import ZooKeeperPublications
from zkdeployment.daemons.syncer.syncer import Syncer
from zkdeployment.ports.publication import TreeSource

#: Services of a customer, and hosts of a service.
SERVICES = 10
DEPLOYED = 5
#: How many services a host runs: 81 nodes a customer then make about five nodes a host.
LOAD = 3


def fleet_text(hosts: int, *, version: str = "1.0") -> str:
    """Customers of ten services, each deployed on five hosts; ``version`` is that of the first service.

    The services of one host are different applications.
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
            # Each time round, the hosts move on by one service.
            place = number * DEPLOYED
            place += place // hosts * DEPLOYED
            lines += [f"      /{host_name((place + n) % hosts)}" for n in range(DEPLOYED)]
    return "\n".join(lines) + "\n"


def host_name(number: int) -> str:
    """Return the name of a host of the fleet."""
    return f"host{number}.example.com"


def unlike_text(nodes: int) -> str:
    """No line is like another: nothing that was read before helps."""
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
    """A real repository with the tree of a fleet; each push changes the version of the first service."""

    def __init__(self, directory: Path, hosts: int) -> None:
        self.hosts = hosts
        self._repository = Repository(directory)
        self._pushed = 0
        self.url = self._repository.url

    def push(self) -> str:
        """Commit the next change; return the revision."""
        self._pushed += 1
        text = fleet_text(self.hosts, version=f"{self._pushed}.0")
        return self._repository.commit({"fleet.zk": text})


def make_syncer(source: TreeSource, session: Session) -> Syncer:
    """Return a syncer that knows nothing yet, as each run of the command is."""
    return Syncer(source, ZooKeeperPublications(session), SystemClock())
