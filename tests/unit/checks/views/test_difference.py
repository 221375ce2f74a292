"""The effect of a change of the basis on check instances."""

from dataclasses import replace

from hypothesis import given

from support.checks.bases import check_bases
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Facts, Identity
from zkdeployment.checks.documents import CheckConfiguration, CheckConstraints, OnCall, OnCallContact
from zkdeployment.checks.rules.spawning import CheckBasis, CheckedHost, wanted_instances
from zkdeployment.checks.rules.workflow import same_details
from zkdeployment.checks.views.wanted import check_difference, shown_command

TCP = CheckConfiguration("tcp", "/shop", "nagios1", "check_tcp", ("-p", "{property.port}"))
BASIS = CheckBasis(
    {"tcp": TCP},
    {"h1": (Assignment("/shop/web", 1, "web", "web"),)},
    {"/shop/web": {"port": 80}},
    {"h1": CheckedHost(Identity("h1", "h1.example.com"), "192.0.2.1", Facts())},
)


def test_instances_are_added_changed_and_removed():
    ping = CheckConfiguration("ping", "/shop", "nagios1", "check_ping")
    after = replace(BASIS, configurations={"tcp": TCP, "ping": ping}, properties={"/shop/web": {"port": 81}})
    forth, back = check_difference(BASIS, after), check_difference(after, BASIS)
    assert [*forth.describe()] == ["check ping: instances: 1 added", "check tcp: instances: 1 changed"]
    assert [*back.describe()] == ["check ping: instances: 1 removed", "check tcp: instances: 1 changed"]
    ((old, new),) = forth.changed
    assert (shown_command(old), shown_command(new)) == (("check_tcp", "-p", "80"), ("check_tcp", "-p", "81"))
    assert forth.to_json()["counts"] == {"added": 1, "changed": 1, "removed": 0}
    assert forth.to_json()["changed"][0]["after"]["details"]["arguments"] == ["-p", "81"]
    assert not check_difference(BASIS, BASIS)


def test_another_monitoring_system_is_a_change():
    moved = check_difference(BASIS, replace(BASIS, configurations={"tcp": replace(TCP, monitoring="nagios2")}))
    assert [(old.system, new.system) for old, new in moved.changed] == [("nagios1", "nagios2")]


def test_another_on_call_duty_is_a_change_of_the_services_below_its_node():
    ann = OnCall("shop", "/shop", (OnCallContact("ann", "ann@example.com"),))
    bob = OnCall("web", "/shop/web", (OnCallContact("bob", phone="+49 30 1"),))
    on_call = replace(BASIS, duties={"/shop": ann})
    ((_, new),) = check_difference(BASIS, on_call).changed
    assert new.details()["on_call"] == {
        "name": "shop",
        "contacts": [{"name": "ann", "email": "ann@example.com"}],
    }
    ((_, nearer),) = check_difference(on_call, replace(BASIS, duties={"/shop": ann, "/shop/web": bob})).changed
    assert nearer.details()["on_call"] == {"name": "web", "contacts": [{"name": "bob", "phone": "+49 30 1"}]}
    other = OnCall("other", "/other", ann.contacts)
    assert not check_difference(on_call, replace(BASIS, duties={"/shop": ann, "/other": other}))
    everywhere = OnCall("all", "", ann.contacts)
    assert check_difference(BASIS, replace(BASIS, duties={"": everywhere})).changed


def test_instances_with_faults_stay_and_are_named():
    missing = "{property.port} has no value: the service has no property port"
    without_port = check_difference(BASIS, replace(BASIS, properties={}))
    assert not without_port
    assert [*without_port.describe()] == [f"check instances of /shop/web stay unchanged (1): {missing}"]
    listed = replace(TCP, constraints=CheckConstraints(attributes=("port",)))
    before = replace(BASIS, configurations={"tcp": listed}, properties={"/shop/web": {"port": [80, 81]}})
    overfull = check_difference(before, replace(before, properties={"/shop/web": {"port": [*range(1001)]}}))
    assert (bool(overfull), len(overfull.errors)) == (False, 1)


@given(check_bases(), check_bases())
def test_instances_that_are_not_added_changed_or_removed_are_the_same(before, after):
    difference = check_difference(before, after)
    touched = {found.id for found in (*difference.added, *difference.removed)}
    touched |= {old.id for old, _ in difference.changed}
    old, new = (
        {found.id: found for found in wanted_instances(basis) if not found.faults} for basis in (before, after)
    )
    held = {found.id for found in wanted_instances(after) if found.faults}
    for instance in (old.keys() | new.keys()) - touched - held:
        assert old[instance].system == new[instance].system
        assert same_details(old[instance].details(), new[instance].details())
