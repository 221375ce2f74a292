"""The shipped Nagios definitions in a real Nagios that checks a real ZooKeeper and a host."""

import re
import sys
import time
from pathlib import Path

import pytest

from support.checks.nagios import Nagios
from support.zookeeper import write_node

SHIPPED = Path(__file__).resolve().parents[3] / "etc/nagios/zkdeployment.cfg"
PROGRAM = Path(sys.executable).parent / "check_zkdeployment"


@pytest.fixture
def nagios(tmp_path, config, zookeeper):
    """Return a Nagios that runs the shipped example services for this ZooKeeper and this host."""
    text = SHIPPED.read_text()
    _, examples = text.split("# Examples of their use:\n")
    services = re.sub("^# ?", "", examples, flags=re.MULTILINE)
    assert "!zk1:2181,zk2:2181,zk3:2181!" in services
    on_host = re.search(r"command\[check_zkdeployment\]=.*", text)[0]
    on_host = on_host.replace("/usr/lib64/nagios/plugins/check_zkdeployment", str(PROGRAM))
    return Nagios(
        tmp_path / "nagios",
        shipped=SHIPPED,
        services=services.replace("zk1:2181,zk2:2181,zk3:2181", zookeeper),
        check=PROGRAM,
        on_host=on_host.replace("/etc/zkdeployment/zkdeployment.cfg", str(config)),
    )


@pytest.mark.nightly
def test_nagios_runs_both_checks_and_sees_a_failure(nagios, client, tmp_path):
    node = {"name": "h1.example.com", "version": "r1"}
    client.create("/hosts", b'{"version": "r1"}')
    write_node(client, "/hosts/h1", node, ephemeral=True)
    (tmp_path / "status").write_text(f"{time.time()} 123 r1 done\n")
    output = nagios.verify()
    assert "Total Warnings: 0" in output
    assert "Checked 3 services" in output  # with the one that Nagios itself needs
    with nagios.running():
        assert nagios.wait_for("zkdeployment", 0).startswith("ZKDEPLOYMENT OK - r1")
        assert nagios.wait_for("zkdeployment fleet", 0).startswith("ZKDEPLOYMENT OK - Converged at r1")
        (tmp_path / "status").write_text(f"{time.time()} 123 r1 error\n")
        write_node(client, "/hosts/h1", node | {"error": "the script of /web 0 failed"})
        assert "the script of /web 0 failed" in nagios.wait_for("zkdeployment", 2)
        assert "the script of /web 0 failed" in nagios.wait_for("zkdeployment fleet", 2)
