"""The status of intents: its resources, its four outputs and its filters."""

import json
from dataclasses import replace

import pytest

from zkdeployment.base.deployment import Assignment, Deployment, DeploymentFailure
from zkdeployment.base.errors import ConfigurationError, NotFoundError
from zkdeployment.base.host import Identity
from zkdeployment.intents.documents import ClusterIntents, DeploymentIntentGroup, IntentState
from zkdeployment.intents.rules.instances import InstanceService, IntentInstance, IntentRecord
from zkdeployment.intents.rules.reality import (
    FleetReports,
    RecordedDeployment,
    ReportedHost,
    ReportedHosts,
    ServiceProvider,
)
from zkdeployment.intents.rules.resources import (
    instance_resources,
    is_terminating,
    read_query,
    require_apps,
    row_from_json,
    row_to_json,
    status_body,
)

SHOP = DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", {"front": ("/p1/front",), "db": ("/p1/db",)})
FRONT = Assignment("/p1/front", 2, "front", "front", version="2.0")
DB = Assignment("/p1/db", 1, "db", "db", version="9")
INSTANCE = IntentInstance(
    id=7,
    instantiated=100.0,
    by="alice",
    changed=8,
    apps=SHOP.apps,
    services=(
        InstanceService("db", "db1.example.com", DB, 1, {"version": "9"}),
        InstanceService("front", "web", FRONT, 2, {"version": "2.0", "greeting": "hello"}),
    ),
)
RECORD = IntentRecord(SHOP, IntentState.INSTANTIATED, (INSTANCE,))


def host(host_id, *markers, role="web", **options):
    deployments = {Deployment(path, number): RecordedDeployment("p", "2.0", at) for path, number, at in markers}
    return ReportedHost(Identity(host_id, f"{host_id}.example.com", role), deployments=deployments, **options)


DONE = host("w1", ("/p1/front", 0, 8), ("/p1/front", 1, 3), completed=9, facts={"rack": "r1"}, address="192.0.2.1")
FAILED = host("w2", ("/p1/front", 0, 8), failure=DeploymentFailure(8, "deploy", "/p1/front", 1), error="exit 1")
ABSENT = host("w3", is_present=False, completed=3)
SILENT = ReportedHost(Identity("w4", "w4.example.com", "web"))
DATABASE = host("db1", ("/p1/db", 0, 8), role=None, completed=8)


def reports(*hosts, providers=(), clusters=()):
    return FleetReports(ReportedHosts(hosts), tuple(providers), frozenset(clusters))


FLEET = reports(DONE, FAILED, ABSENT, SILENT, DATABASE)


def status(fleet=FLEET, record=RECORD, **parameters):
    query = read_query({name: [value] if isinstance(value, str) else value for name, value in parameters.items()})
    require_apps(query, SHOP)
    return json.loads(json.dumps(status_body(record, query, fleet)))


def statuses(fleet, instance=INSTANCE):
    return {
        row.name: (row.cluster, None if row.rsync is None else row.rsync.value, row.exists.value)
        for row in instance_resources(instance, fleet)
    }


def test_each_host_of_each_cluster_has_its_resources_with_both_statuses():
    assert statuses(FLEET) == {
        "db1:/p1/db.0": ("db1.example.com", "Applied", "Present"),
        "w1:/p1/front.0": ("web", "Applied", "Present"),
        "w1:/p1/front.1": ("web", "Applied", "Present"),
        "w2:/p1/front.0": ("web", "Applied", "Present"),
        "w2:/p1/front.1": ("web", "Failed", "NotPresent"),
        "w3:/p1/front.0": ("web", "Retrying", "NotPresent"),
        "w3:/p1/front.1": ("web", "Retrying", "NotPresent"),
        "w4:/p1/front.0": ("web", "Pending", "Unknown"),
        "w4:/p1/front.1": ("web", "Pending", "Unknown"),
    }


def test_a_host_that_failed_at_packages_failed_at_each_deployment_of_these_packages():
    failed = host("w1", failure=DeploymentFailure(8, "packages", packages=frozenset({"front"})))
    old = host("w2", failure=DeploymentFailure(7, "packages", packages=frozenset({"front"})))
    found = statuses(reports(failed, old))
    assert {name: rsync for name, (_, rsync, _) in found.items() if name.startswith("w")} == {
        "w1:/p1/front.0": "Failed",
        "w1:/p1/front.1": "Failed",
        "w2:/p1/front.0": "Pending",
        "w2:/p1/front.1": "Pending",
    }


def test_a_marker_that_was_lost_by_hand_is_applied_and_not_present():
    assert statuses(reports(host("w1", completed=8)))["w1:/p1/front.0"] == ("web", "Applied", "NotPresent")


def test_a_host_name_that_was_never_seen_has_resources_that_wait_for_the_host():
    assert statuses(reports()) == {"db1.example.com:/p1/db.0": ("db1.example.com", "Retrying", "Unknown")}


def test_a_resource_that_never_existed_is_terminated_with_its_instance():
    ended = replace(INSTANCE, changed=9, services=tuple(replace(each, wanted=0) for each in INSTANCE.services))
    assert statuses(reports(), ended) == {"db1.example.com:/p1/db.0": ("db1.example.com", "Terminated", "Unknown")}


def test_a_terminated_instance_is_terminated_where_the_undeployment_is_recorded():
    ended = replace(INSTANCE, changed=9, services=tuple(replace(each, wanted=0) for each in INSTANCE.services))
    left = host("w1", ("/p1/front", 1, 8), completed=8)
    fleet = reports(left, DATABASE)
    found = statuses(fleet, ended)
    assert found["w1:/p1/front.0"] == ("web", "Terminated", "NotPresent")
    assert found["w1:/p1/front.1"] == ("web", "Pending", "Present")
    assert is_terminating(instance_resources(ended, fleet))
    assert not is_terminating(instance_resources(ended, reports(host("w1"), SILENT)))


def test_a_deployment_that_moved_to_another_target_of_the_same_host_is_wanted():
    moved = (
        InstanceService("db", "db1", DB, 0),
        InstanceService("db", "db1.example.com", DB, 1),
    )
    for services in (moved, moved[::-1]):
        found = statuses(reports(DATABASE), replace(INSTANCE, services=services))
        assert found == {"db1:/p1/db.0": ("db1.example.com", "Applied", "Present")}


def test_the_end_does_not_wait_for_deployments_that_are_not_resources():
    ended = replace(INSTANCE, changed=9, services=tuple(replace(each, wanted=0) for each in INSTANCE.services))
    assert not is_terminating(instance_resources(ended, reports(host("w1", ("/p1/front", 5, 8)))))


def test_a_resource_that_exists_only_in_reality_has_no_rsync_status():
    stranger = ServiceProvider("/p1/front/providers/192.0.2.9:80", "/p1/front")
    mine = ServiceProvider("/p1/front/providers/192.0.2.1:80", "/p1/front")
    said = ServiceProvider("/p1/front/providers/x", "/p1/front", "w1", Deployment("/p1/front", 4))
    elsewhere = ServiceProvider("/other/providers/x", "/other", "w1")
    extra = replace(DONE, deployments={**DONE.deployments, Deployment("/p1/front", 2): RecordedDeployment()})
    other = {Deployment("/other", 0): RecordedDeployment()}
    fleet = reports(
        replace(extra, deployments={**extra.deployments, **other}),
        providers=[stranger, mine, said, elsewhere, stranger],
    )
    body = status(fleet, app="front")
    assert body["rsync-status"] == {"Applied": 2}
    assert body["cluster-status"] == {"Present": 5}
    (app,) = body["resources"]
    listed = {
        (cluster["name"], resource["GVK"]["Kind"], resource["Name"], "rsync-status" in resource)
        for cluster in app["clusters"]
        for resource in cluster["resources"]
    }
    assert listed == {
        ("-", "Provider", "/p1/front/providers/192.0.2.9:80", False),
        ("web", "Provider", "/p1/front/providers/x", False),
        ("web", "Deployment", "w1:/p1/front.0", True),
        ("web", "Deployment", "w1:/p1/front.1", True),
        ("web", "Deployment", "w1:/p1/front.2", False),
    }
    assert "Provider" not in json.dumps(status(fleet, output="rsync"))
    assert "w1:/p1/front.2" not in json.dumps(status(fleet, output="rsync"))


def test_reports_that_come_twice_do_not_double_a_resource():
    providers = [ServiceProvider("/p1/front/providers/192.0.2.1:80", "/p1/front", "w1")] * 2
    once = reports(DONE, providers=providers[:1])
    twice = reports(DONE, DONE, providers=providers)
    assert status(once, output="detail") == status(twice, output="detail")


IDENTITY = {
    "name": "shop",
    "project": "p1",
    "composite-app-name": "store",
    "composite-app-version": "v1",
    "composite-profile-name": "plain",
    "state": "Instantiated",
}
COUNTS = {"Pending": 2, "Applied": 4, "Failed": 1, "Retrying": 2}
GVK = {"Group": "zkdeployment", "Version": "v1", "Kind": "Deployment"}


def test_a_summary_has_identity_state_and_counts_in_the_order_of_the_seed():
    body = status(output="summary")
    assert body == {
        **IDENTITY,
        "rsync-status": COUNTS,
        "cluster-status": {"NotPresent": 3, "Present": 4, "Unknown": 2},
    }
    assert [*body] == [*IDENTITY, "rsync-status", "cluster-status"]
    assert [*body["rsync-status"]] == ["Pending", "Applied", "Failed", "Retrying"]


def test_the_error_of_a_host_is_that_of_the_deployment_that_failed():
    def errors(*hosts):
        body = status(reports(*hosts), output="detail", app="front")
        (cluster,) = body["resources"][0]["clusters"]
        return {each["Name"]: (each["status"]["step"], each["status"]["error"]) for each in cluster["resources"]}

    failed = replace(FAILED, step="deploy")
    assert errors(failed) == {"w2:/p1/front.0": (None, None), "w2:/p1/front.1": ("deploy", "exit 1")}
    packages = replace(failed, failure=DeploymentFailure(8, "packages", packages=frozenset({"front"})))
    assert errors(packages) == {"w2:/p1/front.0": ("deploy", "exit 1"), "w2:/p1/front.1": ("deploy", "exit 1")}
    elsewhere = replace(failed, failure=DeploymentFailure(8, "packages", packages=frozenset({"other"})))
    assert set(errors(elsewhere).values()) == {(None, None)}
    disk_full = replace(failed, failure=DeploymentFailure(8, "configure"))
    assert set(errors(disk_full).values()) == {("deploy", "exit 1")}


def test_all_is_the_default_and_lists_resources_by_app_and_cluster():
    body = status(reports(DATABASE))
    assert body == status(reports(DATABASE), output="all")
    assert body["resources"] == [
        {
            "app-name": "db",
            "clusters": [
                {
                    "name": "db1.example.com",
                    "resources": [
                        {
                            "GVK": GVK,
                            "Name": "db1:/p1/db.0",
                            "rsync-status": "Applied",
                            "cluster-status": "Present",
                        }
                    ],
                }
            ],
        }
    ]


def test_detail_adds_metadata_spec_and_status():
    mine = ServiceProvider("/p1/front/providers/192.0.2.1:80", "/p1/front", properties={"pid": 4})
    body = status(reports(DONE, providers=[mine]), output="detail", resource="w1:/p1/front.0")
    (resource,) = body["resources"][0]["clusters"][0]["resources"]
    assert resource == {
        "GVK": GVK,
        "Name": "w1:/p1/front.0",
        "metadata": {"labels": {"zkdeployment/instance": 7, "zkdeployment/app": "front"}, "host": {"rack": "r1"}},
        "spec": {
            "package": "front",
            "version": "2.0",
            "subtype": None,
            "properties": {"version": "2.0", "greeting": "hello"},
        },
        "status": {
            "marker": {"package": "p", "version": "2.0", "sequence": 8},
            "step": None,
            "error": None,
            "providers": [{"path": "/p1/front/providers/192.0.2.1:80", "pid": 4}],
        },
        "rsync-status": "Applied",
        "cluster-status": "Present",
    }


def test_rsync_has_metadata_and_spec_but_no_state_of_reality():
    body = status(output="rsync")
    assert body["rsync-status"] == COUNTS
    assert "cluster-status" not in json.dumps(body)
    assert "rack" not in json.dumps(body)
    resource = body["resources"][1]["clusters"][0]["resources"][0]
    assert [*resource] == ["GVK", "Name", "metadata", "spec", "rsync-status"]
    assert resource["metadata"] == {"labels": {"zkdeployment/instance": 7, "zkdeployment/app": "front"}}


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"app": "db"}, ["db1:/p1/db.0"]),
        ({"app": ["db", "front"], "resource": ["w1:/p1/front.0"]}, ["w1:/p1/front.0"]),
        ({"cluster": "db1.example.com"}, ["db1:/p1/db.0"]),
        ({"cluster": "ams+db1.example.com"}, ["db1:/p1/db.0"]),
        ({"cluster": ["db1.example.com", "nowhere"], "app": "front"}, []),
        ({"cluster": "fra+db1.example.com"}, []),
        ({"resource": ["w1:/p1/front.0", "db1:/p1/db.0"]}, ["db1:/p1/db.0", "w1:/p1/front.0"]),
        ({"resource": "unknown"}, []),
        ({"resource": "/p1/db"}, ["db1:/p1/db.0"]),
        ({"resource": ["/p1/", "none"], "app": "db"}, ["db1:/p1/db.0"]),
        ({"resource": "/p1/d"}, []),
        ({"resource": "w1:*"}, ["w1:/p1/front.0", "w1:/p1/front.1"]),
        ({"resource": "/p1/d?"}, ["db1:/p1/db.0"]),
    ],
)
def test_filters_are_combined_counts_follow_them_and_empty_levels_are_dropped(filters, names):
    body = status(reports(DONE, DATABASE, clusters=[("ams", "db1.example.com")]), **filters)
    listed = [
        resource["Name"]
        for app in body["resources"]
        for cluster in app["clusters"]
        for resource in cluster["resources"]
    ]
    assert listed == names
    assert body["rsync-status"] == ({"Applied": len(names)} if names else {})
    assert all(cluster["resources"] for app in body["resources"] for cluster in app["clusters"])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"output": "everything"}, "output is everything: expected one of: summary, all, detail, rsync"),
        ({"output": ["all", "rsync"]}, "output is all, rsync: expected one of"),
        ({"output": ""}, "output is empty: expected a value; leave output out"),
        ({"app": "mail"}, "p1/store/v1/shop has no app mail; expected one of: db, front"),
        ({"cluster": " "}, "cluster is empty"),
        ({"instance": "first"}, "instance is first: expected the id of one instance, a number"),
        ({"instance": ["1", "2"]}, "instance is 1, 2: expected the id of one instance"),
    ],
)
def test_a_malformed_query_is_refused_with_the_expected_form(parameters, message):
    with pytest.raises(ConfigurationError) as refused:
        status(**parameters)
    assert str(refused.value).startswith(message)


def test_a_group_that_was_never_instantiated_has_identity_and_state_only():
    created = IntentRecord(SHOP, IntentState.CREATED)
    assert status(record=created, output="detail") == {**IDENTITY, "state": "Created"}


def test_a_cluster_has_no_project_app_or_profile():
    web = ClusterIntents("ams", "web", {"vlan12": ("/net",)}, IntentState.APPLIED)
    vlan = Assignment("/net", 1, "vlan", "vlan")
    instance = replace(
        INSTANCE, apps=web.apps, services=(InstanceService("vlan12", "web", vlan, 1),), target="web"
    )
    other = host("x1", ("/net", 0, 8), role="other")
    query = read_query({})
    body = status_body(IntentRecord(web, IntentState.APPLIED, (instance,)), query, reports(DONE, other))
    assert [*body] == ["name", "state", "rsync-status", "cluster-status", "resources"]
    assert body["cluster-status"] == {"NotPresent": 1}


def test_an_instance_is_shown_by_its_id_and_all_are_listed_without_one():
    final = tuple(row_to_json(row) for row in instance_resources(INSTANCE, FLEET, with_details=True))
    former = replace(INSTANCE, id=3, terminated=5.0, final=final)
    record = replace(RECORD, instances=(former, INSTANCE))
    assert [entry["id"] for entry in status(record=record, instance="")["instances"]] == [7, 3]
    assert status(reports(), record, instance="3", output="detail") == status(output="detail")
    with pytest.raises(NotFoundError, match="has no instance 4; those that are recorded: 3, 7"):
        status(record=record, instance="4")


def test_a_row_survives_its_json_form():
    for row in instance_resources(INSTANCE, FLEET, with_details=True):
        assert row_from_json(json.loads(json.dumps(row_to_json(row)))) == row
