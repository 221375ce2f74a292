"""Misbehaving scripts: they stop the fleet and do not impair the agent."""

import signal

import psutil
import pytest

from support.agents import AgentHost, Fleet, put_script
from support.waiting import wait_until

#: Ignores SIGTERM, sets resource limits, changes its directory, signals its process group, and never ends.
STUBBORN = """\
#!/bin/sh
trap '' TERM
kill -TERM 0
echo $$ > "$ZKDEPLOYMENT_ROOT/pid"
setsid sleep 600 &
cd /
umask 777
ulimit -n 4
while :; do sleep 1; done
"""


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    host = fleet.host("h1", script_timeout="10")
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    return host


def test_a_hanging_script_that_ignores_signals_is_killed_and_stops_the_fleet(fleet, host):
    put_script(host.root, "foo", STUBBORN)
    with host.process() as agent:
        wait_until(lambda: "error" in host.node, "the failure")
        assert host.node["error"] == "deploy /who/myfoo 0 did not end within 10 s and was killed"
        script = int((host.root / "pid").read_text())
        wait_until(lambda: not psutil.pid_exists(script), "the script is gone")
        assert fleet.version is None
        assert host.markers == []
        assert not (host.run / "script").exists()
        host.config.write_text(host.config.read_text().replace("script-timeout = 10", "script-timeout = 100"))
        agent.send_signal(signal.SIGHUP)
        put_script(host.root, "foo")
        fleet.set_version("r1")
        host.wait_for_version("r1")
        assert agent.poll() is None
    for left in psutil.process_iter(["cmdline", "environ"]):
        if (left.info["environ"] or {}).get("ZKDEPLOYMENT_ROOT") == str(host.root):
            assert left.info["cmdline"] == ["sleep", "600"], "only with systemd a session of its own is in reach"
            left.kill()


@pytest.mark.nightly
def test_an_endless_line_of_output_does_not_increase_the_agents_memory(fleet, host):
    put_script(host.root, "foo", "#!/bin/sh\nexec head -c 60000000 /dev/zero\n")
    host.config.write_text(host.config.read_text().replace("script-timeout = 10", "script-timeout = 100"))
    fleet.set_version(False)
    with host.new_process("--verbose") as child:
        agent = psutil.Process(child.pid)
        wait_until(lambda: host.node, "registered")
        most = before = agent.memory_info().rss
        fleet.set_version("r1")

        def is_done() -> bool:
            nonlocal most
            most = max(most, agent.memory_info().rss)
            assert child.poll() is None
            return host.has_finished("r1")

        wait_until(is_done, "the line's end")
        assert most - before < 32 << 20
    (log,) = (host.root / "var/log/zkdeployment").glob("*.log")
    assert log.stat().st_size < 11 << 20
