"""The operating systems of hosts, from system nodes and reports, and the warnings of the monitor."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from nagiosplugin import Range

from support.builders import make_identity, make_known_host
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.system import HostSystem, WantedSystem
from zkdeployment.fleet.views.fleet_health import AlarmTimes
from zkdeployment.fleet.views.health import Health, HealthLimits
from zkdeployment.publishing.targets.systems import system_target
from zkdeployment.system.alarms import SystemSettings, system_alarms
from zkdeployment.system.views import SystemsStatus, has_systems, systems_status

DAY = 86_400.0
NOW = 100 * DAY
OLD, NEW = "2026-10-16", "2026-11-20"
NODE = Assignment("/os/web", 0, "system", "system", system=WantedSystem("/os/web", NEW))
TARGETS = {system_target("web"): (NODE,)}
DONE = HostSystem(NEW, 1, "5.14-2", "5.14-2", updated=NOW - DAY)
DUE = HostSystem(NEW, 1, "5.14-1", "5.14-2", ("kernel-core", "systemd"), NOW - 3 * DAY, updated=NOW - 3 * DAY)
LATE = HostSystem(OLD, 1, "5.14-1", "5.14-1", advisories=2, updated=NOW - 60 * DAY)
LATE = replace(LATE, exceptions={"excluded": "bash, tool", "modular": "nodejs:18"})


def status(*systems, targets=TARGETS):
    hosts = [make_identity(number, "web") for number in range(1, len(systems) + 1)]
    known = {
        host.id: make_known_host(number, system=system)
        for number, (host, system) in enumerate(zip(hosts, systems, strict=True), 1)
    }
    return systems_status(hosts, known, targets)


def test_each_host_with_a_system_node_or_an_update_has_a_row():
    found = status(DONE, DUE, LATE, None)
    assert [row.cells(NOW) for row in found.hosts] == [
        ("app1", NEW, NEW, "5.14-2", "", "-", ""),
        ("app2", NEW, NEW, "5.14-1 (installed: 5.14-2)", "for 3 d: kernel-core, systemd", "-", ""),
        ("app3", OLD, NEW, "5.14-1", "", "2", "excluded: bash, tool; modular: nodejs:18"),
        ("app4", "-", NEW, "-", "", "-", ""),
    ]
    assert found.summary == "2 hosts at 2026-11-20, 1 at 2026-10-16, 1 not updated yet; 1 needs a reboot"
    assert status(DONE, None, targets={}).hosts[0].cells(NOW)[1:3] == (NEW, "-")
    assert len(status(DONE, None, targets={}).hosts) == 1
    assert status(None, HostSystem(kernel="5.14-1"), targets={}) == SystemsStatus()
    assert status(HostSystem(kernel="5.14-1")).hosts[0].cells(NOW)[1:4] == ("-", NEW, "5.14-1")
    assert (has_systems(TARGETS), has_systems({"web": (replace(NODE, system=None),)})) == (True, False)


def test_a_node_that_only_reboots_wants_no_release():
    node = replace(NODE, system=WantedSystem("/os/web", NEW, "none"))
    (row,) = status(LATE, targets={system_target("web"): (node,)}).hosts
    assert (row.path, row.release, row.wanted) == ("/os/web", OLD, None)


def test_the_record_of_a_host_is_what_it_reported():
    assert status(DUE).to_json() == {
        "hosts": [
            {"id": "h1", "name": "app1", "path": "/os/web", "wanted": NEW, "system": DUE.to_json()},
        ],
        "summary": "1 host at 2026-11-20; 1 needs a reboot",
    }


LIMITS = HealthLimits(Range("15"), Range("30"))


@pytest.mark.parametrize(
    ("system", "settings", "warning"),
    [
        (DONE, {}, None),
        (DUE, {}, None),
        (DUE, {"reboot_days": 2}, "1 host has a reboot due: app1 (3 d)"),
        (LATE, {}, f"1 host lacks the wanted release: app1 ({OLD} instead of {NEW})"),
        (LATE, {"release_days": 61}, None),
        (None, {"release_days": 2}, f"1 host lacks the wanted release: app1 (never updated instead of {NEW})"),
        (replace(DONE, kernel="5.14-1"), {}, "1 host runs another kernel than its newest one: app1"),
        (replace(DONE, kernel="5.14-1"), {"kernels": False}, None),
    ],
)
def test_the_monitor_warns_by_the_days_of_its_configuration(system, settings, warning):
    configured = SimpleNamespace(given_or_default=lambda table: table(**settings))
    found = [*system_alarms(status(system), AlarmTimes(NOW, 3 * DAY, LIMITS, configured))]
    assert found == ([] if warning is None else [(Health.WARNING, warning)])
    assert SystemSettings().reboot_days == 7
