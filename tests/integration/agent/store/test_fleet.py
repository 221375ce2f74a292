"""The operations of an agent on the fleet: registration, stops and assignments."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from support.waiting import UNLIMITED, wait_until
from support.zookeeper import connected, expire_session, renew_session, sent_requests, through
from zkdeployment.agent.files.run_directory import SessionFile
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.cluster import INITIAL, Cluster
from zkdeployment.base.deployment import Assignment, Deployment, DeploymentFailure, DesiredState
from zkdeployment.base.errors import ConflictError, RefusedError, TreeError, UnreachableError
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.machine.files import JsonFile, json_object
from zkdeployment.base.stop import Stop
from zkdeployment.base.system import WantedSystem
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Create, Operation, Set, make_skeleton

WEB1 = Identity(id="1", name="web1.example.com")
HOST = Host(WEB1, version="abc", pid=4711, tags=("ssd",))
STOP = Stop(
    host_id="1",
    host_name="web1.example.com",
    revision="new",
    step="deploy /shop/web 0",
    reason="it fell",
    time=5.0,
)
ASSIGNMENT = Assignment("/shop/web", 2, "web", "web", version="1.2")


@pytest.fixture
def fleet(session):
    return ZooKeeperFleet(session, patience=0.3)


def put(client, path, value):
    data = json.dumps(value).encode()
    if client.exists(path):
        client.set(path, data)
    else:
        client.create(path, data, makepath=True)


def published(client, revision, targets):
    put(client, "/hosts", {"version": revision})
    for name, assignments in targets.items():
        put(client, f"/zkdeployment/targets/{name}", [assignment.to_json() for assignment in assignments])
    put(client, "/zkdeployment/targets", {"version": revision})


def wanted(fleet, identity, revision):
    fleet.cluster(identity)  # as agents do, so that the session knows the current state
    return fleet.wanted(identity, revision)


def test_the_first_agent_creates_hosts_at_the_initial_version(fleet, session):
    assert fleet.cluster(WEB1) is None
    assert fleet.register(HOST) is None
    assert fleet.cluster(WEB1) == Cluster(INITIAL)
    (host,) = ZooKeeperFleetReader(session).snapshot().hosts
    assert host.registered == host.since
    assert replace(host, since=None, registered=None) == HOST
    assert session.get("/hosts/1").owner == session.id


def test_unregistering_removes_the_node_and_may_be_repeated(fleet, session):
    fleet.unregister()
    fleet.register(HOST)
    assert session.children("/zkdeployment/host-names") == ["web1.example.com"]
    fleet.unregister()
    fleet.unregister()
    assert session.children("/hosts") == []
    assert session.children("/zkdeployment/host-names") == []


def test_a_host_is_updated(fleet, session):
    fleet.register(HOST)
    fleet.update_host(replace(HOST, step="deploy /a 0", steps=(1, 3)))
    assert session.get("/hosts/1").properties["steps"] == [1, 3]
    fleet.update_host(HOST)
    assert "steps" not in session.get("/hosts/1").properties


def test_registering_again_replaces_the_properties(fleet, session):
    fleet.register(HOST)
    fleet.register(replace(HOST, version="def"))
    assert session.get("/hosts/1").properties["version"] == "def"


def test_a_second_agent_with_the_same_id_is_refused_and_the_first_is_unchanged(fleet, other):
    first = ZooKeeperFleet(other)
    first.register(HOST)
    before = other.get("/hosts/1")
    with pytest.raises(RefusedError, match=r"host id 1: web1.example.com \(1\), process 4711"):
        fleet.register(replace(HOST, pid=1))
    assert other.get("/hosts/1") == before


@pytest.mark.parametrize("name", [WEB1.name, WEB1.id])
def test_of_two_hosts_that_register_a_name_or_an_id_as_a_name_concurrently_the_later_is_refused(
    session, other, name
):
    """The second host registers after the first has looked for the name, and before it has claimed it."""
    commit = session.commit

    def overtaken(*operations):
        session.commit = commit
        ZooKeeperFleet(other).register(replace(HOST, identity=Identity("2", name)))
        commit(*operations)

    make_skeleton(session)
    session.commit = overtaken
    with pytest.raises(RefusedError, match=rf"two hosts are called {name}: 2, which .* and 1, this one"):
        ZooKeeperFleet(session, patience=0.3).register(HOST)
    assert session.children("/hosts") == ["2"]
    assert session.children("/zkdeployment/host-names") == [name]


def test_a_registration_among_many_hosts_reads_a_constant_number_of_nodes(fleet, session, other, monkeypatch):
    make_skeleton(session)
    many = [
        operation
        for number in range(300)
        for operation in (
            Create(f"/hosts/h{number}", b"{}", ephemeral=True),
            Create(f"/zkdeployment/host-names/h{number}.example.com", b'{"host": "?"}', ephemeral=True),
        )
    ]
    other.commit(*many)
    sent = sent_requests(session, monkeypatch)
    fleet.register(HOST)
    assert sum(len(getattr(request, "requests", [request])) for request in sent) < 30


def test_a_host_whose_agent_claims_no_name_is_found(fleet, other, client):
    make_skeleton(other)
    other.commit(Create("/hosts/2", b'{"name": "web1.example.com"}', ephemeral=True))
    with pytest.raises(RefusedError, match=r"two hosts are called web1.example.com: 2, .* and 1"):
        fleet.register(HOST)
    assert client.get_children("/hosts") == ["2"]
    assert client.get_children("/zkdeployment/host-names") == []


def test_a_claim_whose_host_is_not_registered_is_replaced(fleet, other, client):
    ZooKeeperFleet(other).register(replace(HOST, identity=Identity("2", WEB1.name)))
    client.delete("/hosts/2")
    fleet.register(HOST)
    assert client.get("/zkdeployment/host-names/web1.example.com")[0] == b'{"host":"1"}'


def test_a_host_that_lost_its_name_while_it_was_away_is_refused(fleet, session, other, client):
    fleet.register(HOST)
    renew_session(session)
    ZooKeeperFleet(other).register(replace(HOST, identity=Identity("2", WEB1.name)))
    with pytest.raises(RefusedError, match=r"two hosts are called web1.example.com: 2, .* and 1"):
        fleet.update_host(HOST)
    assert client.get_children("/hosts") == ["2"]


def test_registration_waits_until_another_sessions_node_disappears(zookeeper, session):
    with Session(zookeeper) as dying:
        ZooKeeperFleet(dying).register(HOST)
        leave = threading.Timer(0.3, dying.close)
        leave.start()
        assert ZooKeeperFleet(session, patience=60).register(HOST) is None
        leave.join()
    assert session.get("/hosts/1").owner == session.id


@pytest.mark.parametrize("claims", [True, False], ids=["with a claim", "of an old agent"])
def test_a_replaced_host_registers_its_name_when_the_session_of_the_killed_one_ends(
    zookeeper, session, client, claims
):
    with Session(zookeeper) as dying:
        if claims:
            ZooKeeperFleet(dying).register(replace(HOST, identity=Identity("2", WEB1.name)))
        else:
            make_skeleton(dying)
            dying.commit(Create("/hosts/2", b'{"name": "web1.example.com"}', ephemeral=True))
        with capture_logs() as logs:

            def leave() -> None:
                wait_until(lambda: any(entry["event"] == "name-is-taken" for entry in logs), "the new host waits")
                dying.close()

            leaving = threading.Thread(target=leave)
            leaving.start()
            ZooKeeperFleet(session, patience=UNLIMITED).register(HOST)
            leaving.join()
    assert client.get_children("/hosts") == ["1"]
    assert client.get("/zkdeployment/host-names/web1.example.com")[0] == b'{"host":"1"}'
    (entry,) = [entry for entry in logs if entry["event"] == "name-is-taken"]
    assert (entry["name"], entry["host"]) == ("web1.example.com", "2")
    assert entry["seconds"] == pytest.approx(UNLIMITED, abs=60)


def test_a_persistent_nodes_version_is_adopted_after_waiting_for_a_name(zookeeper, session, client):
    with Session(zookeeper) as dying:
        make_skeleton(dying)
        client.create("/hosts/1", b'{"version": "old"}')
        dying.commit(Create("/hosts/2", b'{"name": "web1.example.com"}', ephemeral=True))
        leave = threading.Timer(0.3, dying.close)
        leave.start()
        assert ZooKeeperFleet(session, patience=60).register(HOST, adopt=True) == "old"
        leave.join()


def test_the_node_of_a_dead_predecessor_is_taken_over_immediately(session, other, tmp_path):
    memory = SessionFile(JsonFile(tmp_path / "session", json_object, dict))
    ZooKeeperFleet(other, memory=memory).register(HOST)
    assert memory.read_session() == other.id
    successor = ZooKeeperFleet(session, memory=memory, patience=0)
    successor.register(replace(HOST, pid=1))
    assert session.get("/hosts/1").owner == session.id
    assert memory.read_session() == session.id
    other.close()
    assert session.get("/hosts/1").properties["pid"] == 1


def test_an_update_after_a_session_loss_registers_the_host_again(fleet, session):
    fleet.register(HOST)
    renew_session(session)
    assert session.get("/hosts/1") is None
    fleet.update_host(replace(HOST, error="still here"))
    node = session.get("/hosts/1")
    assert node.owner == session.id
    assert node.properties["error"] == "still here"


def test_the_name_of_another_live_host_is_refused_and_the_error_names_both_hosts(fleet, other, client):
    ZooKeeperFleet(other).register(replace(HOST, identity=Identity("2", WEB1.name)))
    with pytest.raises(RefusedError, match=r"two hosts are called web1.example.com: 2, .* and 1"):
        fleet.register(HOST)
    assert client.get_children("/hosts") == ["2"]


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        (Identity("2", "1"), WEB1, "1"),
        (Identity(WEB1.name, "web2.example.com"), WEB1, WEB1.name),
    ],
)
def test_an_id_that_equals_another_live_hosts_name_is_refused_in_either_order(
    fleet, other, client, first, second, shared
):
    ZooKeeperFleet(other).register(replace(HOST, identity=first))
    with pytest.raises(RefusedError, match=f"two hosts are called {shared}: {first.id}, .* and {second.id}"):
        fleet.register(replace(HOST, identity=second))
    assert client.get_children("/hosts") == [first.id]


def test_the_name_and_the_id_of_a_host_may_be_equal(fleet, client):
    fleet.register(replace(HOST, identity=Identity("1", "1")))
    assert client.get_children("/hosts") == ["1"]


def test_a_registered_host_keeps_its_name_in_a_new_session_without_reading_other_hosts(
    fleet, session, client, monkeypatch
):
    fleet.register(HOST)
    renew_session(session)
    put(client, "/hosts/2", {"name": "other"})
    read_paths = []
    get_many = session.get_many
    monkeypatch.setattr(
        session, "get_many", lambda paths: get_many(read_paths.append(path) or path for path in paths)
    )
    fleet.update_host(HOST)
    assert session.get("/hosts/1").owner == session.id
    assert "/hosts/2" not in read_paths


def test_the_name_of_a_host_that_is_not_live_may_be_registered(fleet, client):
    put(client, "/hosts/old", {"name": WEB1.name, "version": "x"})
    fleet.register(HOST)
    assert sorted(client.get_children("/hosts")) == ["1", "old"]


def test_a_persistent_node_of_an_old_agent_is_adopted(fleet, session, client):
    put(client, "/hosts/1", {"name": "old", "version": "adopted"})
    assert fleet.register(HOST, adopt=True) == "adopted"
    node = session.get("/hosts/1")
    assert node.owner == session.id
    assert node.properties["version"] == "adopted"


def test_a_persistent_node_that_appears_after_registration_is_not_adopted(fleet, session, client):
    fleet.register(HOST, adopt=True)
    client.delete("/hosts/1")
    put(client, "/hosts/1", {"name": "made by hand", "version": "adopted"})
    fleet.update_host(replace(HOST, version=None, former="abc"))
    node = session.get("/hosts/1")
    assert node.owner == session.id
    assert (node.properties["version"], node.properties["former"]) == (None, "abc")


@pytest.mark.parametrize("data", [b"\xff\xfe", b"{", b"[1]", b'{"version": NaN}', b"{" * 100_000 + b"}" * 100_000])
def test_invalid_data_in_host_nodes_is_tolerated(fleet, session, client, data):
    client.create("/hosts", data)
    client.create("/hosts/1", data)
    client.create("/hosts/2", data)
    assert fleet.cluster(WEB1) == Cluster(None)
    assert fleet.register(HOST) is None
    assert [host.identity.id for host in ZooKeeperFleetReader(session).snapshot().hosts] == ["1", "2"]


def test_a_stop_is_one_transaction_and_keeps_the_other_properties_of_hosts(fleet, session, client):
    put(client, "/hosts", {"version": "new", "note": "kept"})
    fleet.register(HOST)
    fleet.stop_fleet(replace(HOST, error="it fell"), STOP)
    assert session.get("/hosts").properties == {"version": None, "note": "kept"}
    assert session.get("/hosts/1").properties["error"] == "it fell"
    snapshot = ZooKeeperFleetReader(session).snapshot()
    assert snapshot.stops == (STOP,)
    moments = {session.get(path).changed for path in ("/hosts", "/hosts/1", "/zkdeployment/stops/1")}
    assert len(moments) == 1


def test_a_second_stop_does_not_write_the_version_again(fleet, session, client):
    put(client, "/hosts", {"version": "new"})
    fleet.register(HOST)
    fleet.stop_fleet(HOST, STOP)
    before = session.get("/hosts")
    fleet.stop_fleet(HOST, replace(STOP, reason="again"))
    assert session.get("/hosts") == before
    assert ZooKeeperFleetReader(session).snapshot().stops[0].reason == "again"


def test_a_held_fleet_can_be_stopped(fleet, client):
    put(client, "/hosts", {"version": False})
    fleet.stop_fleet(HOST, STOP)
    assert fleet.cluster(WEB1) == Cluster(None)


@pytest.mark.parametrize(
    ("version", "sequence"),
    [("newer", 10), ("newer", 0), ("new", 10)],  # another revision; the same one, published again
)
def test_a_failure_of_an_earlier_publication_stops_nothing(fleet, session, client, version, sequence):
    published = {"version": version, "ordered": version, "sequence": 20, "since": 20}
    put(client, "/hosts", {"version": version})
    put(client, "/zkdeployment/targets", published)
    fleet.register(HOST)
    before = [session.get(path) for path in ("/hosts", "/hosts/1")]
    assert not fleet.stop_fleet(replace(HOST, failed=DeploymentFailure(sequence, STOP.step)), STOP)
    assert [session.get(path) for path in ("/hosts", "/hosts/1")] == before
    assert ZooKeeperFleetReader(session).snapshot().stops == ()
    assert fleet.stop_fleet(replace(HOST, failed=DeploymentFailure(20, STOP.step)), STOP)
    assert fleet.cluster(WEB1) == Cluster(None)


def test_a_failure_whose_revision_is_replaced_during_the_stop_stops_nothing(fleet, session, other, client):
    put(client, "/hosts", {"version": "new"})
    fleet.register(HOST)
    send = session.commit

    def publish(*operations: Operation):
        session.commit = send
        other.commit(Set("/hosts", b'{"version": "newer"}'))
        send(*operations)

    session.commit = publish
    assert not fleet.stop_fleet(HOST, STOP)
    assert session.commit == send
    assert fleet.cluster(WEB1) == Cluster("newer")


def test_a_stop_is_recorded_although_the_hosts_node_is_lost(fleet, session, client):
    put(client, "/hosts", {"version": "new"})
    fleet.register(HOST)
    renew_session(session)
    fleet.stop_fleet(HOST, STOP)
    assert fleet.cluster(WEB1) == Cluster(None)
    assert session.get("/hosts/1") is None
    assert ZooKeeperFleetReader(session).snapshot().stops == (STOP,)


def test_a_stop_works_without_any_nodes(fleet):
    fleet.stop_fleet(HOST, replace(STOP, revision=INITIAL))
    assert fleet.cluster(WEB1) == Cluster(None)


def test_a_stop_succeeds_despite_concurrent_writes_to_hosts(fleet, session, other, client):
    put(client, "/hosts", {"version": "new"})
    send, disturbed = session.commit, []

    def disturb(*operations: Operation):
        if len(disturbed) < 3 and any(isinstance(operation, Set) for operation in operations):
            disturbed.append(1)
            other.commit(Set("/hosts", json.dumps({"version": "new", "note": len(disturbed)}).encode()))
        send(*operations)

    session.commit = disturb
    fleet.stop_fleet(HOST, STOP)
    assert len(disturbed) == 3
    assert fleet.cluster(WEB1) == Cluster(None)


def test_a_change_of_the_version_wakes_the_agent(fleet, client):
    changed = threading.Event()
    fleet.watch_cluster(WEB1, changed.set)
    assert changed.wait()
    changed.clear()
    put(client, "/hosts", {"version": "new"})
    assert changed.wait()


def test_assignments_are_read_from_the_targets_of_the_cluster_version(fleet, client):
    published(client, "new", {"1": [ASSIGNMENT], "elsewhere": [replace(ASSIGNMENT, path="/no")]})
    assert wanted(fleet, WEB1, "new").assignments == (ASSIGNMENT,)
    assert wanted(fleet, Identity("9", "web9.example.com"), "new").assignments == ()


def test_targets_with_unusual_names_are_read(fleet, client):
    published(client, "new", {"web%20server%3A~": [ASSIGNMENT]})
    assert wanted(fleet, Identity("1", "web1", role="web server:~"), "new").assignments == (ASSIGNMENT,)


@pytest.mark.parametrize("targets", [None, {"version": "old"}, {"version": None}])
def test_assignments_are_read_from_the_tree_if_the_version_was_set_by_hand(fleet, client, targets):
    put(client, "/hosts", {"version": "by hand"})
    put(client, "/shop/web", {"type": "web", "version": "1.2"})
    put(client, "/shop/web/deploy/1", {"n": 2})
    put(client, "/shop/web/deploy/2", {})
    put(client, "/broken/deploy/2", {})
    if targets is not None:
        put(client, "/zkdeployment/targets", targets)
    assert fleet.wanted(WEB1, "by hand").assignments == (ASSIGNMENT,)


@pytest.mark.parametrize(
    "cluster", [{"version": "newer"}, {"version": None}, {"version": "new", "importing": "x"}]
)
@pytest.mark.parametrize("targets", ["newer", None])
def test_assignments_of_a_revision_other_than_the_cluster_version_are_a_conflict(fleet, client, cluster, targets):
    published(client, targets, {"1": [ASSIGNMENT]})
    put(client, "/hosts", cluster)
    with pytest.raises(ConflictError, match="expected new, found"):
        fleet.wanted(WEB1, "new")


def test_assignments_without_hosts_are_a_conflict(fleet):
    with pytest.raises(ConflictError, match="gone"):
        fleet.wanted(WEB1, "new")


def test_one_request_reads_the_assignments_of_a_host_in_a_tree_of_any_size(fleet, session, client, monkeypatch):
    host = Identity("1", "web1.example.com", role="web")
    controller = Assignment("/roles/web", 1, "ctl", "ctl", version="2")
    counts = []
    for services in (1, 1000):
        assignments = tuple(replace(ASSIGNMENT, path=f"/shop/s{number:04}") for number in range(services))
        published(client, "new", {"web": [controller, *assignments], "elsewhere": [ASSIGNMENT] * services})
        fleet.cluster(WEB1)
        sent = sent_requests(session, monkeypatch)
        assert fleet.wanted(host, "new") == DesiredState(assignments, controller)
        counts.append(len(sent))
        monkeypatch.undo()
    assert counts == [1, 1]


def piecemeal(session, monkeypatch, before):
    """Split each multi-read into single reads, as a server may; call ``before`` with the number of each read."""

    def get_many_seen(wanted):
        seen, states = session._client.last_zxid, []
        for number, path in enumerate(wanted):
            before(number)
            states.append(session.get(path))
        return seen, states

    monkeypatch.setattr(session, "get_many_seen", get_many_seen)


@pytest.mark.parametrize("place", range(3))
def test_a_publication_between_two_reads_is_a_conflict_and_the_next_attempt_succeeds(
    fleet, session, client, monkeypatch, place
):
    newer = replace(ASSIGNMENT, version="1.3")
    published(client, "new", {"1": [ASSIGNMENT], "web1.example.com": []})
    fleet.cluster(WEB1)

    def publish(number):
        if number == place:
            published(client, "new", {"1": [newer]})

    with monkeypatch.context() as patch:
        piecemeal(session, patch, publish)
        with pytest.raises(ConflictError, match="changed while those of"):
            fleet.wanted(WEB1, "new")
    assert fleet.wanted(WEB1, "new").assignments == (newer,)


def test_a_large_publication_that_begins_between_two_reads_is_a_conflict(fleet, session, client, monkeypatch):
    published(client, "new", {"1": [ASSIGNMENT]})
    fleet.cluster(WEB1)

    def publish(number):
        if number == 1:
            put(client, "/zkdeployment/targets", {"version": None})
            put(client, "/hosts", {"version": "new", "importing": "newer"})

    piecemeal(session, monkeypatch, publish)
    with pytest.raises(ConflictError, match="importing"):
        fleet.wanted(WEB1, "new")


@pytest.mark.parametrize(
    ("path", "data"),
    [("/hosts", {"version": "new"}), ("/zkdeployment/targets", {"version": None})],
    ids=["publication", "import by hand in one transaction"],
)
def test_a_change_of_the_tree_during_a_read_is_a_conflict(fleet, session, client, path, data):
    put(client, "/hosts", {"version": "new"})
    put(client, "/zkdeployment/targets", {"version": None})
    read = session.children

    def disturb(above):
        put(client, path, data)
        return read(above)

    session.children = disturb
    with pytest.raises(ConflictError, match="changed while the tree was read"):
        fleet.wanted(WEB1, "new")


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"\xff", b"[" * 100_000, b'[{"path": "../../etc"}]'])
def test_invalid_targets_are_refused(fleet, client, data):
    published(client, "new", {"1": []})
    client.set("/zkdeployment/targets/1", data)
    with pytest.raises(TreeError):
        wanted(fleet, WEB1, "new")


def test_node_locks_exclude_hosts_and_name_the_holder(fleet, other):
    deployment = Deployment("/shop/web", 0)
    mine = fleet.node_lock(deployment, WEB1)
    theirs = ZooKeeperFleet(other).node_lock(deployment, Identity("2", "web2"))
    assert mine.try_acquire()
    assert not theirs.try_acquire()
    assert theirs.holder() == "web1.example.com (1)"
    assert other.children("/agent-locks") == ["shop,web"]


def test_the_place_of_a_crashed_agent_is_free_after_its_session_expired(zookeeper, session):
    with connected(zookeeper) as client:
        crashed = client.client_id
        client.create("/hosts", b"")
        client.create("/hosts/1", b'{"name": "web1.example.com"}', ephemeral=True)
        expire_session(zookeeper, crashed)
        wait_until(lambda: session.get("/hosts/1") is None, "the host to go")
    ZooKeeperFleet(session).register(HOST)
    assert session.get("/hosts/1").owner == session.id


def test_a_host_whose_node_changes_during_registration_is_registered(fleet, session, client):
    put(client, "/hosts/1", {"version": "first"})
    send, disturbed = session.commit, []

    def disturb(*operations: Operation):
        if not disturbed and any(operation.path == "/hosts/1" for operation in operations):
            disturbed.append(1)
            put(client, "/hosts/1", {"version": "second"})
        send(*operations)

    session.commit = disturb
    assert fleet.register(HOST, adopt=True) == "second"


def test_a_host_is_updated_with_one_request_also_after_others_wrote_its_node(fleet, session, client, monkeypatch):
    fleet.register(HOST)
    fleet.update_host(HOST)
    sent = sent_requests(session, monkeypatch)
    for step in range(3):
        fleet.update_host(replace(HOST, step=f"deploy /a {step}"))
    assert len(sent) == 3
    fleet.stop_fleet(replace(HOST, error="no"), STOP)
    fleet.update_host(replace(HOST, step="deploy /b 0"))
    assert json.loads(client.get("/hosts/1")[0])["step"] == "deploy /b 0"
    client.set("/hosts/1", b"{}")
    fleet.update_host(HOST)
    assert json.loads(client.get("/hosts/1")[0])["name"] == HOST.identity.name
    sent.clear()
    fleet.update_host(replace(HOST, step="deploy /c 0"))
    assert len(sent) == 1


def test_an_update_overwrites_concurrent_changes_of_the_node(fleet, session, client):
    fleet.register(HOST)
    send, disturbed = session.commit, []

    def disturb(*operations: Operation):
        if not disturbed:
            disturbed.append(1)
            client.set("/hosts/1", b"scribble")
        send(*operations)

    session.commit = disturb
    fleet.update_host(replace(HOST, step="deploy"))
    assert session.get("/hosts/1").properties["step"] == "deploy"


def test_an_update_whose_answer_was_lost_is_repeated_on_the_same_node(zookeeper, proxy, client):
    with Session(through(proxy, zookeeper)) as session:
        fleet = ZooKeeperFleet(session)
        fleet.register(HOST)
        fleet.update_host(HOST)
        before = session.get("/hosts/1")
        written = replace(HOST, step="deploy /a 0")
        session.call_timeout = 1
        proxy.lose(requests=False)
        with pytest.raises(UnreachableError):
            fleet.update_host(written)
        wait_until(lambda: b"deploy /a 0" in client.get("/hosts/1")[0], "ZooKeeper executes the update")
        proxy.heal()
        wait_until(lambda: succeeds(lambda: fleet.update_host(written)), "the update is repeated")
        after = session.get("/hosts/1")
        assert after.properties == before.properties | {"step": "deploy /a 0"}
        assert (after.owner, after.born) == (session.id, before.born)
        fleet.update_host(HOST)
        assert session.get("/hosts/1").properties == before.properties


def succeeds(call):
    """Make a call that fails while the connection is being restored; return whether it succeeded."""
    try:
        call()
    except UnreachableError:
        return False
    return True


def test_a_write_that_conflicts_in_every_attempt_is_an_error(fleet, session, client, monkeypatch):
    put(client, "/hosts", {"version": "new"})
    fleet.register(HOST)

    def refuse(*_operations: Operation):
        raise ConflictError("disturbed")

    monkeypatch.setattr(session, "commit", refuse)
    with pytest.raises(ConflictError, match="cannot register"):
        fleet.register(HOST)
    with pytest.raises(ConflictError, match="cannot stop the fleet"):
        fleet.stop_fleet(HOST, STOP)


def test_the_operating_system_is_read_from_the_targets_and_from_the_tree(fleet, client):
    system = WantedSystem("/os", "2026-11-20", exclude=("postgresql*",))
    put(client, "/os", {"type": "system", "release": "2026-11-20", "exclude": ["postgresql*"]})
    put(client, "/os/deploy/1", {})
    put(client, "/hosts", {"version": "by hand"})
    by_hand = wanted(fleet, WEB1, "by hand")
    published(client, "new", {"1": [ASSIGNMENT, Assignment.of_system(system)], "2": [ASSIGNMENT]})
    assert wanted(fleet, WEB1, "new") == DesiredState((ASSIGNMENT,), system=system)
    assert by_hand == DesiredState(system=system)
    assert wanted(fleet, Identity("2", "web2.example.com"), "new") == DesiredState((ASSIGNMENT,))


def test_a_roles_controller_is_read_from_the_targets_and_from_the_tree(fleet, client):
    web = Identity("1", "web1", role="web")
    controller = Assignment("/roles/web", 1, "ctl", "ctl", version="2")
    put(client, "/roles/web", {"type": "ctl", "version": "2"})
    put(client, "/roles/db", {"type": "no version"})
    put(client, "/hosts", {"version": "by hand"})
    by_hand = wanted(fleet, web, "by hand")
    published(client, "new", {"web": [controller]})
    assert wanted(fleet, web, "new") == by_hand == DesiredState(controller=controller)
    assert wanted(fleet, WEB1, "new") == DesiredState()
