import dataclasses
from types import SimpleNamespace

from support.waiting import ManualClock
from zkdeployment.agent.reporting.host_reporting import AgentEvents, HostPresence
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.deployment import DeploymentFailure
from zkdeployment.base.host import Host, Identity

FAILED = Host(
    Identity(id="1", name="web1.example.com"),
    error="the script of /a failed",
    failed=DeploymentFailure(8, "deploy /a 0", "/a", 0),
    output="the disk is on fire",
)


def test_the_output_of_a_script_is_not_shown_with_another_error():
    presence = HostPresence(FAILED, SimpleNamespace(), Control(ManualClock()), AgentEvents())
    presence.set_error("the publication is not signed")
    assert presence.host == dataclasses.replace(FAILED, error="the publication is not signed", output=None)
