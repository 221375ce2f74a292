"""Additions of a newer version to records survive each change by this version, on a real ZooKeeper."""

from __future__ import annotations

import pytest

from support.pools.builders import make_node
from support.waiting import ManualClock
from zkdeployment.base.act import Act
from zkdeployment.checks import paths as check_paths
from zkdeployment.checks.rules.monitoring_system import SystemContact
from zkdeployment.checks.store.systems import ZooKeeperMonitoringSystems
from zkdeployment.fleet.store.audit import ZooKeeperActLog
from zkdeployment.fleet.views.history import FailedLogin, LoginProblem
from zkdeployment.pools import paths as pool_paths
from zkdeployment.pools.rules.node import NodeEvent
from zkdeployment.pools.rules.snapshot import PoolChange
from zkdeployment.pools.store.leases import ZooKeeperLeases
from zkdeployment.pools.store.store import ZooKeeperPools
from zkdeployment.publishing.records import PublicationRecord, PublicationRequest, Refusal
from zkdeployment.publishing.store.history import folded
from zkdeployment.publishing.store.requests import answer_request, asking, read_request, write_refusal
from zkdeployment.service.users.key_hashes import KeyHasher
from zkdeployment.service.users.login_store import FAILED_LOGINS, record_failed_login
from zkdeployment.service.users.user import NewUser, Role
from zkdeployment.service.users.user_store import USERS, ZooKeeperUsers, user_path
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode, pack, unpack
from zkdeployment.zookeeper.transactions import Set

ACT = Act("ann", "hold the fleet", "", 1.0)


@pytest.fixture
def add(session):
    """Add the key ``later`` to a node, or to the first record of a list in it."""

    def add(path, listed=None):
        node = session.get(path)
        properties = dict(node.properties)
        record = properties if listed is None else properties[listed][0]
        record["later"] = [1]
        session.commit(Set(path, encode(properties), node.version))

    return add


def test_the_record_of_a_node_of_a_pool(session):
    store = ZooKeeperPools(session)
    node = make_node(1, pool="web")
    store.commit(PoolChange(nodes=(node,)), store.read())
    path = f"{pool_paths.NODES}/1"
    session.commit(Set(path, pack({**unpack(session.get(path).data), "later": [1]})))
    read = store.read()
    store.commit(PoolChange(nodes=(read.nodes[1].after(NodeEvent.RESERVED, 2, session=3),)), read)
    stored = unpack(session.get(path).data)
    assert (stored["state"], stored["later"]) == ("contextualizing", [1])


@pytest.mark.parametrize("change", ["retire", "reset_key"])
def test_the_record_of_a_user_and_the_counter_of_users(session, add, change):
    users = ZooKeeperUsers(session, (), KeyHasher(), ManualClock())
    users.add(NewUser(name="ci", role=Role.TENANT, node_quota=2), ACT)
    add(user_path("ci"))
    add(USERS)
    getattr(users, change)("ci", ACT)
    users.add(NewUser(name="qa", role=Role.TENANT), ACT)
    assert session.get(user_path("ci")).properties["later"] == [1]
    assert session.get(USERS).properties == {"last_id": 2, "later": [1]}


def test_the_lease_of_a_host(session, add):
    leases = ZooKeeperLeases(session)
    leases.give("h1", "ci-web", ())
    add(pool_paths.lease_path("h1"))
    leases.give("h1", "spare", ())
    assert session.get(pool_paths.lease_path("h1")).properties == {
        "role": "spare",
        "number": 2,
        "keys": [],
        "later": [1],
    }


def test_the_contact_and_the_callback_of_a_monitoring_system(session, add):
    systems = ZooKeeperMonitoringSystems(session)
    systems.set_callback("nagios", "https://nagios.example.com/poke")
    systems.note_contact("nagios", SystemContact(fetched=1.0))
    add(check_paths.system_path("nagios"))
    add(f"{check_paths.system_path('nagios')}/contact")
    systems.set_callback("nagios", None)
    systems.note_contact("nagios", SystemContact(fetched=100.0))
    assert session.get(check_paths.system_path("nagios")).properties == {"later": [1]}
    assert session.get(f"{check_paths.system_path('nagios')}/contact").properties["later"] == [1]


def test_acts_failed_logins_and_refusals_in_lists(session, add):
    session.ensure(paths.OURS)
    ZooKeeperActLog(session).record(ACT)
    add(paths.AUDIT, "acts")
    ZooKeeperActLog(session).record(ACT)
    assert [act.get("later") for act in session.get(paths.AUDIT).properties["acts"]] == [[1], None]

    failed = FailedLogin(1.0, "ann", "192.0.2.1", LoginProblem.WRONG)
    record_failed_login(session, (), failed)
    add(FAILED_LOGINS, "failed")
    record_failed_login(session, (), failed)
    assert [one.get("later") for one in session.get(FAILED_LOGINS).properties["failed"]] == [[1], None]

    write_refusal(session, Refusal("r1", ("wrong",), 1.0))
    add(paths.REFUSALS, "refusals")
    write_refusal(session, Refusal("r2", ("wrong",), 2.0))
    write_refusal(session, Refusal("r1", ("wrong",), 3.0))
    written = {one["revision"]: one for one in session.get(paths.REFUSALS).properties["refusals"]}
    assert (written["r1"]["later"], written["r1"]["time"]) == ([1], 1.0)


def test_a_request_for_a_publication(session, add):
    session.ensure(paths.OURS)
    session.commit(asking(session, PublicationRequest(id="7", by="ann", reason="", time=1.0)))
    add(paths.REQUEST)
    assert answer_request(session, read_request(session), "the tip is refused")
    properties = session.get(paths.REQUEST).properties
    assert (properties["later"], properties["error"]) == ([1], "the tip is refused")


def test_the_record_of_a_publication_and_the_results_of_hosts():
    result = {"id": "h1", "name": "n1", "time": 1.0, "seconds": 2.0, "error": None, "failed": None, "later": [1]}
    value = {"revision": "r1", "time": 5.0, "results": [result], "later": [2]}
    stored = unpack(folded(PublicationRecord.from_json(value)))
    assert stored["later"] == [2]
    assert stored["results"] == [result]
    known = PublicationRecord.from_json(PublicationRecord("r1", 5.0).to_json())
    assert not known.unknown
