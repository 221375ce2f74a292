"""The history that a chaos run writes of reboots."""

from chaos.histories import HistoryWriter
from chaos.observations import HostBooted, HostWentDown, RebootsSeen
from chaos.pushed import PushedTree
from histories.checker import judge, read_history
from zkdeployment.base.deployment import Assignment, DesiredState

CONTROLLED = DesiredState(controller=Assignment("/roles/edge", 1, "ctl", "ctl", version="1.0"))
TREE = PushedTree({"host1": DesiredState(), "host2": DesiredState(), "host3": CONTROLLED})


def written(file, *observations):
    writer = HistoryWriter(file, {"r1": TREE}.get)
    for observation in observations:
        writer.see(observation)
    with file.open(encoding="utf-8") as lines:
        return read_history(lines)


def seen(time, boots, **stopped):
    return RebootsSeen(time, boots, {host: stopped.get(host) for host in boots})


def test_each_change_of_a_recorded_reboot_is_one_event(tmp_path):
    history = written(
        tmp_path / "history",
        seen(1.0, {"host1": ("b1", False)}),
        seen(2.0, {"host1": ("b1", False)}),
        seen(3.0, {"host1": ("b1", True)}, host1=True),
        seen(4.0, {"host1": ("b1", True)}),
        seen(5.0, {"host1": ("b2", False)}),
        seen(6.0, {}),
    )
    assert [(event["time"], event["event"]) for event in history] == [
        (1.0, "reboot"),
        (3.0, "missing"),
        (5.0, "reboot"),
        (6.0, "back"),
    ]


def test_a_host_is_down_under_the_lock_of_its_node_or_of_its_role(tmp_path):
    story = [HostWentDown(float(number), f"host{number}", "/os/plain", "r1") for number in (1, 2, 3)]
    assert [event["lock"] for event in written(tmp_path / "history", *story)] == [
        "/os/plain",
        "/os/plain",
        "/roles/edge",
    ]


def test_the_checker_judges_when_hosts_were_down_and_not_when_that_was_observed(tmp_path):
    one, other = (HostWentDown(at, host, "/os/plain", "r1") for at, host in ((1.0, "host1"), (3.0, "host2")))
    booted = HostBooted(2.0, "host1")
    assert judge(written(tmp_path / "good", one, other, booted)) == []
    found = judge(written(tmp_path / "bad", one, other))
    assert found == ["two hosts of /os/plain are down at 3.0 s: host1 and host2"]
