"""The instances that a client sees while a service moves from three hosts to three other hosts.

Real agents, a real syncer and a real ZooKeeper; the deploy scripts run instances with ``zkdeployment provide``.
"""

import contextlib
import os
import signal
import sys

import pytest

from support.agents import Fleet, HostPackages, put_script, wait_for_versions
from support.publishing import Publishing
from support.waiting import wait_until
from zkdeployment.publishing.records import GuardOverrides

#: Starts an instance and returns when it is registered, or ends it and returns when it has ended.
SCRIPT = f"""\
#!/bin/sh
file="$ZKDEPLOYMENT_ROOT/instance"
runs() {{ [ -e "$file.pid" ] && grep -q "^State:.[^Z]" "/proc/$(cat "$file.pid")/status"; }}
if [ "$1" = -u ]; then
  kill "$(cat "$file.pid")"
  while runs; do sleep 0.02; done
  exit 0
fi
runs && exit 0
setsid {sys.executable} -m zkdeployment provide "$1/providers" "$ZKDEPLOYMENT_HOST_ID:80" \
  </dev/null >"$file.log" 2>&1 &
echo $! > "$file.pid"
until grep -q instance-registered "$file.log"; do sleep 0.02; done
"""

TREE = """
/shop
  /db : foo
    version = '1.0'
    undeploy = '{undeploy}'
    /providers
    /deploy
{hosts}
"""


class ProvidingPackages(HostPackages):
    """The fake package manager, whose packages have the script that runs instances."""

    def commit(self, transaction):
        super().commit(transaction)
        for script in (self._root / "opt").glob("*/bin/zookeeper-deploy"):
            put_script(self._root, script.parent.parent.name, SCRIPT)


@pytest.fixture
def hosts(fleet: Fleet):
    """Six hosts with running agents; remaining instances are ended afterwards."""
    hosts = [fleet.host(f"h{number}") for number in range(1, 7)]
    with contextlib.ExitStack() as agents:
        for host in hosts:
            host.packages = ProvidingPackages(host.root, host.packages.available.values())
            agents.enter_context(host.agent())
        wait_until(lambda: all(host.node for host in hosts), "all hosts are registered")
        yield hosts
    for host in hosts:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((host.root / "instance.pid").read_text()), signal.SIGTERM)


@pytest.mark.nightly
def test_a_client_never_sees_fewer_instances_while_a_service_with_undeploy_last_moves(
    fleet: Fleet, publishing: Publishing, hosts
):
    old, new = hosts[:3], hosts[3:]
    seen: list[list[str]] = []

    def publish(to, undeploy: str) -> None:
        """Move the service to hosts, and wait until all hosts have finished."""
        listed = "\n".join(f"      /{host.id}" for host in to)
        revision = publishing.push(TREE.format(undeploy=undeploy, hosts=listed))
        publishing.sync(force=True, overrides=GuardOverrides(mass_removal=True))
        wait_for_versions(hosts, revision)
        wait_until(
            lambda: seen[-1] == [f"{host.id}:80" for host in to] if seen else True, "the client sees the end"
        )

    publish(old, "last")
    fleet.client.ChildrenWatch("/shop/db/providers", lambda names: seen.append(sorted(names)))
    assert seen == [["h1:80", "h2:80", "h3:80"]]
    publish(new, "last")
    assert min(map(len, seen)) == 3, seen
    assert max(map(len, seen)) == 6, seen

    # The same client sees what is missing with the default.
    del seen[:-1]
    publish(old, "first")
    assert min(map(len, seen)) < 3, seen
