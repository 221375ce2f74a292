"""Publications: in one transaction or in marked chunks, killed at any write, with concurrent writers."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from dataclasses import replace
from functools import partial

import pytest

from support.strategies import example
from support.waiting import UNLIMITED
from support.zookeeper import write_node
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.act import Act
from zkdeployment.base.cluster import BY_HAND, INITIAL, Cluster, ClusterState
from zkdeployment.base.errors import (
    ConfigurationError,
    ConflictError,
    RefusedError,
    TreeError,
    UnreachableError,
    WaitTimeoutError,
    ZkdeploymentError,
)
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.stop import Stop
from zkdeployment.fleet.store.cluster_control import ZooKeeperClusterControl
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.publishing.records import Publication, PublicationRequest
from zkdeployment.publishing.signing.standing import StandingPublication
from zkdeployment.publishing.store import builder as publishing
from zkdeployment.publishing.store.documents import read_strategy
from zkdeployment.publishing.store.live_tree import ZooKeeperLiveTree
from zkdeployment.publishing.store.requests import answer_request, read_report
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.publishing.targets.compiler import compile_targets
from zkdeployment.strategies.strategy import ALL_HOSTS, Group, Selector, Strategy
from zkdeployment.tree.diff import diff
from zkdeployment.tree.values import Tree, TreeChange
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import ContenderLock
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Create, Delete, Operation, Set

RESUME = Act("me", "resume", "", 7.0)


def shop(services, version="1.0", hosts=1):
    """A tree of services, each deployed to one of ``hosts`` hosts."""
    nodes = {"/shop": {"owner": "us"}}
    for number in range(services):
        path = f"/shop/s{number:04}"
        nodes |= {
            path: {"type": "web", "version": version},
            f"{path}/providers": {},
            f"{path}/deploy": {},
            f"{path}/deploy/{number % hosts + 1}": {"n": 1},
        }
    return Tree(nodes)


def publication(store, tree, revision, **changes):
    live = store.tree.live_tree()
    targets, problems = compile_targets(tree)
    assert not problems
    made = Publication(
        revision=revision,
        change=diff(live.tree, tree),
        targets=targets,
        expected=store.published_state().cluster,
        versions=live.versions,
    )
    return replace(made, **changes)


@pytest.fixture
def store(session):
    return ZooKeeperPublications(session)


def writes(session):
    """Return a list to which each later transaction of the session is added."""
    send, made = session.begin, []

    def count(*operations: Operation):
        made.append(operations)
        return send(*operations)

    session.begin = count
    return made


def test_the_first_publication_creates_all_nodes(store, session):
    assert store.published_state().cluster is None
    assert store.published_state().published.revision is None
    tree = shop(3)
    store.publish(publication(store, tree, "r1", roles=frozenset({"web"})))
    assert store.published_state().cluster == Cluster("r1")
    assert store.published_state().published.revision == "r1"
    assert store.tree.live_tree().tree == tree
    assert session.children("/role-locks") == ["web"]
    assignments = ZooKeeperFleet(session).wanted(Identity("1", "web1"), "r1").assignments
    assert [assignment.path for assignment in assignments] == ["/shop/s0000", "/shop/s0001", "/shop/s0002"]


def test_a_change_is_one_transaction_with_the_changed_nodes(store, session):
    store.publish(publication(store, shop(3), "r1"))
    tree = shop(2)
    tree = Tree({**tree.nodes, "/shop": {"owner": "them"}, "/shop/new": {}})
    made = writes(session)
    store.publish(publication(store, tree, "r2"))
    (operations,) = made
    assert [(type(operation).__name__, operation.path) for operation in operations] == [
        ("Create", "/shop/new"),
        ("Set", "/shop"),
        ("Delete", "/shop/s0002/providers"),
        ("Delete", "/shop/s0002/deploy/1"),
        ("Delete", "/shop/s0002/deploy"),
        ("Delete", "/shop/s0002"),
        ("Set", "/zkdeployment/targets/1"),
        ("Set", "/zkdeployment/targets"),
        ("Set", "/hosts"),
        ("Check", "/zkdeployment/stops"),
    ]
    assert store.tree.live_tree().tree == tree


def test_unchanged_targets_are_not_written_and_stale_targets_are_deleted(store, session):
    both = Tree({**shop(1).nodes, "/shop/s0000/deploy/2": {}})
    store.publish(publication(store, both, "r1"))
    made = writes(session)
    store.publish(publication(store, shop(1), "r2"))
    touched = [operation.path for operation in made[0] if operation.path.startswith("/zkdeployment")]
    assert touched == ["/zkdeployment/targets/2", "/zkdeployment/targets", "/zkdeployment/stops"]
    assert session.children("/zkdeployment/targets") == ["1"]


def test_a_publication_ends_a_stop_and_keeps_the_other_properties_of_hosts(store, session, client):
    store.publish(publication(store, shop(1), "r1"))
    client.set("/hosts", b'{"version": "r1", "note": "kept"}')
    stop = Stop(host_id="1", host_name="w", revision="r1", step="s", reason="r", time=1.0)
    ZooKeeperFleet(session).stop_fleet(Host(Identity("1", "w")), stop)
    assert store.published_state().cluster == Cluster(None)
    store.publish(publication(store, shop(2), "r2"))
    assert session.get("/hosts").properties == {"version": "r2", "note": "kept"}
    assert ZooKeeperFleetReader(session).snapshot().stops == ()


def test_a_service_below_which_nothing_ever_registered_has_no_providers(session, client):
    for service in ("former", "never", "running"):
        client.create(f"/shop/{service}/providers", makepath=True)
    client.create("/shop/plain")
    for service in ("former", "running"):
        client.create(f"/shop/{service}/providers/a:1", b'{"pid": 1}', ephemeral=True)
    client.delete("/shop/former/providers/a:1")
    services = ["/shop/former", "/shop/never", "/shop/plain", "/shop/running"]
    found = ZooKeeperLiveTree(session).providers(services)
    assert found == {"/shop/former": {}, "/shop/running": {"a:1": {"pid": 1}}}


def test_ephemeral_reserved_and_foreign_nodes_are_unchanged(store, client):
    store.publish(publication(store, shop(1), "r1"))
    client.create("/shop/s0000/providers/a:1", b'{"pid": 1}', ephemeral=True)
    client.create("/foreign", b"text of others")
    live = store.tree.live_tree()
    assert live.pinned == {"/shop/s0000/providers", "/shop/s0000", "/shop"}
    assert "/shop/s0000/providers/a:1" not in live.tree
    assert live.tree.properties("/foreign") == {"string_value": "text of others"}
    assert set(live.tree.children("")) == {"shop", "foreign"}


@pytest.mark.parametrize(
    "disturb",
    [
        lambda client: client.set("/hosts", b'{"version": null}'),
        lambda client: client.set("/hosts", b'{"version": "r2"}'),
        lambda client: client.set("/shop", b'{"owner": "somebody"}'),
        lambda client: client.create("/shop/s0001/providers/a:1", ephemeral=True),
        lambda client: client.delete("/shop/s0001/providers"),
        lambda client: client.create("/shop/new"),
    ],
    ids=["stopped", "published", "changed by hand", "pinned meanwhile", "deleted", "created"],
)
def test_a_concurrent_change_is_a_conflict_and_nothing_is_written(store, client, disturb):
    store.publish(publication(store, shop(2), "r1"))
    tree = Tree({**shop(1).nodes, "/shop": {"owner": "them"}, "/shop/new": {}})
    prepared = publication(store, tree, "r9")
    disturb(client)
    before = store.tree.live_tree(), store.published_state().cluster
    with pytest.raises(ConflictError):
        store.publish(prepared)
    assert (store.tree.live_tree(), store.published_state().cluster) == before
    assert store.published_state().published.revision == "r1"


def test_a_node_that_is_too_large_is_refused_before_any_write(store):
    tree = Tree({"/big": {"text": "x" * 600_000}})
    with pytest.raises(TreeError, match="/big: its properties take"):
        store.publish(publication(store, tree, "r1"))
    assert store.published_state().cluster == Cluster(INITIAL)
    assert len(store.tree.live_tree().tree) == 0


def test_a_final_transaction_that_is_too_large_is_refused_before_any_write(store, monkeypatch):
    monkeypatch.setattr(publishing, "OPERATIONS_LIMIT", 7)
    managed = frozenset(f"/{number:020}" for number in range(25_000))
    with pytest.raises(TreeError, match="/zkdeployment/managed: "):
        store.publish(publication(store, shop(4), "r1", managed=managed))
    assert store.published_state().cluster == Cluster(INITIAL)
    assert len(store.tree.live_tree().tree) == 0


def test_a_publication_that_exceeds_a_transaction_is_written_in_chunks(store, session):
    tree = Tree({f"/n{number}": {"text": "x" * 300_000} for number in range(6)})
    made = writes(session)
    store.publish(publication(store, tree, "r1"))
    assert store.tree.live_tree().tree == tree
    assert store.published_state().cluster == Cluster("r1")
    assert (
        len([operations for operations in made if any(isinstance(operation, Create) for operation in operations)])
        > 3
    )


class Killed(BaseException):
    """The syncer was killed at a write."""


def kill_at(session, number, *, when):
    """Kill the process before it sends a transaction, while that one is under way, or after it."""
    send, left = session.begin, [number]

    def begin(*operations: Operation):
        if not left[0]:
            wait = None if when == "before" else send(*operations)
            if when == "after":
                wait()
            raise Killed
        left[0] -= 1
        return send(*operations)

    session.begin = begin


def test_every_publication_has_a_higher_sequence_than_its_predecessor(store, client):
    for given, expected in ((100, 100), (100, 101), (0, 102), (500, 500)):
        store.publish(publication(store, shop(1), "r1", sequence=given))
        assert store.published_state().published.sequence == expected
        assert json.loads(client.get("/zkdeployment/targets")[0])["sequence"] == expected


def test_the_sequence_is_kept_while_a_large_publication_or_an_import_removes_the_revision(
    zookeeper, session, store, monkeypatch
):
    monkeypatch.setattr(publishing, "OPERATIONS_LIMIT", 7)
    store.publish(publication(store, shop(1), "one", sequence=100))
    with Session(zookeeper) as doomed:
        kill_at(doomed, 1, when="before")
        with pytest.raises(Killed):
            ZooKeeperPublications(doomed).publish(publication(store, shop(9), "two", sequence=200))
    assert (store.published_state().published.revision, store.published_state().published.sequence) == (None, 100)
    store.publish(publication(store, shop(9), "two", sequence=200))
    assert (store.published_state().published.revision, store.published_state().published.sequence) == ("two", 200)
    ZooKeeperLiveTree(session).import_tree(TreeChange(create={"/by-hand": {}}), roles=(), versions={})
    assert (store.published_state().published.revision, store.published_state().published.sequence) == (None, 200)


def test_a_strategy_is_published_replaced_and_removed_together_with_its_tree(store, session, client):
    assert (read_strategy(store.session), store.published_state().published.strategy) == (None, None)
    store.publish(publication(store, shop(1), "r1"))
    assert client.exists("/zkdeployment/strategy") is None
    assert not store.published_state().published.governs(store.published_state().cluster)
    for revision, strategy in (("r2", example()), ("r3", ALL_HOSTS)):
        made = writes(session)
        store.publish(publication(store, shop(1), revision, strategy=strategy))
        (operations,) = made
        assert {"/zkdeployment/strategy", "/zkdeployment/targets", "/hosts"} <= {
            operation.path for operation in operations
        }
        assert read_strategy(store.session) == strategy
        assert store.published_state().published.strategy == strategy.name
        assert store.published_state().published.governs(store.published_state().cluster)
    made = writes(session)
    store.publish(publication(store, shop(1), "r4", strategy=ALL_HOSTS))
    assert "/zkdeployment/strategy" not in {operation.path for operation in made[0]}
    store.publish(publication(store, shop(1), "r5"))
    assert (read_strategy(store.session), store.published_state().published.strategy) == (None, None)
    assert client.get("/zkdeployment/strategy")[0] == b""


def test_a_strategy_stays_in_force_for_its_revision_after_a_manual_import(store, session, client):
    store.publish(publication(store, shop(1), "r1", strategy=example()))
    ZooKeeperLiveTree(session).import_tree(TreeChange(create={"/by-hand": {}}), roles=(), versions={})
    assert store.published_state().published.revision is None
    assert store.published_state().published.governs(store.published_state().cluster)
    client.set("/hosts", b'{"version": "r7"}')
    assert not store.published_state().published.governs(store.published_state().cluster)
    client.set("/hosts", b'{"version": null}')
    assert not store.published_state().published.governs(store.published_state().cluster)


def test_a_large_publication_changes_the_strategy_at_its_end(zookeeper, store, monkeypatch):
    monkeypatch.setattr(publishing, "OPERATIONS_LIMIT", 7)
    store.publish(publication(store, shop(1), "one", strategy=example()))
    with Session(zookeeper) as doomed:
        kill_at(doomed, 2, when="after")
        with pytest.raises(Killed):
            ZooKeeperPublications(doomed).publish(publication(store, shop(9), "two", strategy=ALL_HOSTS))
    assert (read_strategy(store.session), store.published_state().published.strategy) == (
        example(),
        example().name,
    )
    store.publish(publication(store, shop(9), "two", strategy=ALL_HOSTS))
    assert (read_strategy(store.session), store.published_state().published.ordered) == (ALL_HOSTS, "two")


def test_a_strategy_that_is_too_large_is_refused_before_any_write(store):
    names = frozenset(hashlib.sha256(str(number).encode()).hexdigest() for number in range(20_000))
    huge = Strategy("huge", (Group("g", critical=True, selectors=(Selector(names=names),)),))
    with pytest.raises(TreeError, match=r"/zkdeployment/strategy: .* bytes"):
        store.publish(publication(store, shop(1), "r1", strategy=huge))
    assert store.published_state().cluster == Cluster(INITIAL)


def test_a_damaged_strategy_is_an_error_and_is_replaced_by_the_next_publication(store, client):
    store.publish(publication(store, shop(1), "r1", strategy=example()))
    for damage in (b"rubbish", b"{}"):
        client.set("/zkdeployment/strategy", damage)
        with pytest.raises(TreeError, match=r"/zkdeployment/strategy: .*sync --force"):
            read_strategy(store.session)
    store.publish(publication(store, shop(1), "r1", strategy=example()))
    assert read_strategy(store.session) == example()


@pytest.mark.parametrize("when", ["before", "under way", "after"])
def test_no_partial_tree_is_deployed_after_a_kill_at_any_write_and_the_next_publication_succeeds(
    zookeeper, session, store, monkeypatch, when
):
    monkeypatch.setattr(publishing, "OPERATIONS_LIMIT", 7)
    small, two = shop(4), shop(9, version="2.0")
    identity, agent = Identity("1", "web1"), ZooKeeperFleet(session)
    store.publish(publication(store, small, "one"))
    wanted = {
        revision: compile_targets(tree)[0]["1"]
        for revision, tree in (("one", small), ("two", two), ("three", small))
    }
    number, finished = 0, False
    while not finished:
        with Session(zookeeper) as doomed:
            dying = ZooKeeperPublications(doomed)
            kill_at(doomed, number, when=when)
            try:
                dying.publish(publication(dying, two, "two"))
                finished = True
            except Killed:
                number += 1
        cluster = store.published_state().cluster
        if cluster.state is ClusterState.RUNNING:
            assert agent.wanted(identity, cluster.version).assignments == wanted[cluster.version]
        else:
            assert cluster == Cluster("one", importing="two")
            assert store.published_state().published.revision is None
            with pytest.raises(ConflictError):
                agent.wanted(identity, "one")
            with pytest.raises(RefusedError):
                ZooKeeperClusterControl(session).resume(RESUME)
        store.publish(publication(store, two, "three"))
        assert store.published_state().cluster == Cluster("three")
        assert store.tree.live_tree().tree == two
        assert store.published_state().published.revision == "three"
        store.publish(publication(store, small, "one"))
    assert number >= 6


def import_by_hand(session, tree):
    live = ZooKeeperLiveTree(session).live_tree()
    ZooKeeperLiveTree(session).import_tree(diff(live.tree, tree), roles=(), versions=live.versions)


@pytest.mark.parametrize("when", ["under way", "after"])
def test_a_killed_large_manual_import_deploys_nothing_until_the_next_publication(
    zookeeper, session, store, monkeypatch, when
):
    monkeypatch.setattr(publishing, "OPERATIONS_LIMIT", 7)
    small, two = shop(4), shop(9, version="2.0")
    identity, agent = Identity("1", "web1"), ZooKeeperFleet(session)
    number, finished = 0, False
    while not finished:
        store.publish(publication(store, small, "one"))
        with Session(zookeeper) as doomed:
            kill_at(doomed, number, when=when)
            try:
                import_by_hand(doomed, two)
                finished = True
            except Killed:
                number += 1
        if store.tree.live_tree().tree != two or store.published_state().cluster != Cluster("one"):
            assert store.published_state().cluster == Cluster("one", importing=BY_HAND)
            with pytest.raises(ConflictError):
                agent.wanted(identity, "one")
            import_by_hand(session, two)
            assert store.published_state().cluster == Cluster("one", importing=BY_HAND)
        else:
            assert agent.wanted(identity, "one").assignments == compile_targets(two)[0]["1"]
    assert number >= 6


@pytest.mark.parametrize("limit", [2000, 7], ids=["in one transaction", "in chunks"])
def test_a_syncer_that_lost_its_lock_stops_writing(store, other, monkeypatch, limit):
    monkeypatch.setattr(publishing, "OPERATIONS_LIMIT", limit)
    store.publish(publication(store, shop(1), "r1"))
    reached = []

    def lose(place):
        reached.append(place)
        if len(reached) == (1 if limit == 2000 else 3):
            other.commit(Delete(lock.path))

    losing = ZooKeeperPublications(store.session, reach=lose)
    lock = losing.lock()
    assert lock.try_acquire()
    prepared = publication(losing, shop(9), "r2")
    with pytest.raises(ConflictError, match="/hosts-lock/"):
        losing.publish(prepared)
    assert store.published_state().cluster == Cluster("r1", importing=None if limit == 2000 else "r2")
    assert store.tree.live_tree().tree == shop(1)


def test_a_publication_that_was_written_succeeds_although_its_clean_up_fails(store, session, other, monkeypatch):
    store.publish(publication(store, shop(1), "r1"))
    prepared, sent, look = publication(store, shop(2), "r2"), writes(session), session.look

    def fail(nodes, children):
        if sent:
            raise UnreachableError("ZooKeeper went away")
        return look(nodes, children)

    monkeypatch.setattr(session, "look", fail)
    store.publish(prepared)
    monkeypatch.undo()
    assert store.published_state().cluster == Cluster("r2")

    prepared = publication(store, shop(3), "r3")
    other.commit(Set("/shop", b"{}"))
    sent.clear()
    monkeypatch.setattr(session, "look", fail)
    with pytest.raises(ConflictError):
        store.publish(replace(prepared, change=replace(prepared.change, update={"/shop": {"owner": "them"}})))


def test_a_signature_that_failed_is_made_again(session):
    class Signer:
        """A key that fails at first, as where no process can be started."""

        def __init__(self) -> None:
            self.texts = []

        def start(self, text):
            self.texts.append(text)
            attempts = len(self.texts)

            def wait():
                if attempts == 1:
                    raise ConfigurationError("cannot sign: cannot run ssh-keygen")
                return "signature"

            return wait

    signer = Signer()
    session.ensure("/zkdeployment")
    store = ZooKeeperPublications(session, signer=signer)
    standing = StandingPublication(INITIAL, 1, 1)
    with pytest.raises(ConfigurationError):
        store.renew_signature(standing)
    assert store.renew_signature(standing)
    assert signer.texts[0] == signer.texts[1]
    assert session.get("/zkdeployment/signed").data == f"{signer.texts[0]}\nsignature".encode()


def test_a_manual_import_without_a_change_keeps_the_published_revision(store, session):
    store.publish(publication(store, shop(1), "r1"))
    before = session.get("/zkdeployment/targets")
    import_by_hand(session, shop(1))
    assert session.get("/zkdeployment/targets") == before
    assert store.published_state().published.revision == "r1"


@pytest.mark.parametrize("version", ["one", None, False])
def test_nodes_created_by_a_killed_import_are_recorded_until_a_publication(
    session, store, client, monkeypatch, version
):
    monkeypatch.setattr(publishing, "OPERATIONS_LIMIT", 7)
    store.publish(publication(store, shop(1), "one", managed=frozenset({"/shop"})))
    write_node(client, "/hosts", {"version": version})
    more = Tree(
        {
            **shop(1).nodes,
            **{path.replace("/shop", "/new"): properties for path, properties in shop(4).nodes.items()},
        }
    )
    with Session(session.connection) as doomed:
        kill_at(doomed, 3, when="before")
        with pytest.raises(Killed):
            import_by_hand(doomed, more)
    published = store.published_state().published
    assert (published.begun, published.managed) == ({"/new"}, {"/shop"})
    import_by_hand(session, shop(1))
    store.publish(publication(store, shop(1), "two", managed=frozenset({"/shop"})))
    assert session.get("/zkdeployment/managed").properties == {"names": ["shop"]}


def test_a_large_manual_import_does_not_end_a_stop_a_hold_or_an_import(session, store, client, monkeypatch):
    monkeypatch.setattr(publishing, "OPERATIONS_LIMIT", 7)
    store.publish(publication(store, shop(1), "one"))
    for held in ({"version": None}, {"version": False}, {"version": "one", "importing": "two"}):
        write_node(client, "/hosts", held)
        import_by_hand(session, shop(9))
        assert json.loads(client.get("/hosts")[0]) == held
        import_by_hand(session, shop(1))


@pytest.mark.parametrize("limit", [2000, 7], ids=["in one transaction", "in chunks"])
def test_an_agent_that_reads_during_publications_gets_a_complete_revision_or_a_conflict(
    zookeeper, session, store, monkeypatch, limit
):
    monkeypatch.setattr(publishing, "OPERATIONS_LIMIT", limit)
    trees = {"even": shop(3), "odd": shop(6, version="2.0")}
    wanted = {revision: compile_targets(tree)[0]["1"] for revision, tree in trees.items()}
    agent, identity, seen = ZooKeeperFleet(session), Identity("1", "web1"), set()

    def publish():
        with Session(zookeeper) as opened:
            syncer = ZooKeeperPublications(opened)
            for number in range(20):
                revision = "odd" if number % 2 else "even"
                syncer.publish(publication(syncer, trees[revision], revision))

    publisher = threading.Thread(target=publish)
    publisher.start()
    while publisher.is_alive():
        cluster = store.published_state().cluster
        if cluster is not None and cluster.revision in wanted:
            with contextlib.suppress(ConflictError):
                assert agent.wanted(identity, cluster.revision).assignments == wanted[cluster.revision]
                seen.add(cluster.revision)
    publisher.join()
    assert store.published_state().cluster == Cluster("odd")
    assert agent.wanted(identity, "odd").assignments == wanted["odd"]
    assert seen


@pytest.mark.parametrize("place", [1, 3])
def test_a_stop_during_a_large_publication_prevails(store, session, monkeypatch, place):
    monkeypatch.setattr(publishing, "OPERATIONS_LIMIT", 7)
    store.publish(publication(store, shop(1), "r1"))
    prepared = publication(store, shop(6), "r2")
    send, left = session.begin, [place]

    def begin(*operations: Operation):
        left[0] -= 1
        if not left[0]:
            node = session.get("/hosts")
            send(Set("/hosts", json.dumps(node.properties | {"version": None}).encode()))()
        return send(*operations)

    session.begin = begin
    with pytest.raises(ConflictError):
        store.publish(prepared)
    # A stop before the mark changes the version of /hosts just as the mark does: then nothing is written.
    assert store.published_state().cluster == Cluster(None, importing=None if place == 1 else "r2")
    assert (store.tree.live_tree().tree == shop(1)) is (place == 1)
    session.begin = send
    store.publish(publication(store, shop(6), "r3"))
    assert store.published_state().cluster == Cluster("r3")
    assert store.tree.live_tree().tree == shop(6)


def test_chunks_are_pipelined_but_the_first_and_the_final_transaction_are_not(session, monkeypatch):
    monkeypatch.setattr(publishing, "OPERATIONS_LIMIT", 7)
    places = []
    store = ZooKeeperPublications(session, reach=lambda place: places.append(place.partition(":")[0]))
    store.publish(publication(store, shop(6), "r1"))
    between = places[2:-2]
    assert places[:2] == places[-2:] == ["before", "after"]
    assert between[:5] == ["before"] * 4 + ["after"]
    assert between[-4:] == ["after"] * 4


@pytest.mark.parametrize("way", ["publication", "import by hand"])
def test_a_failure_beside_transactions_under_way_ends_all_of_them_and_leaves_the_mark(
    store, session, other, monkeypatch, way
):
    monkeypatch.setattr(publishing, "OPERATIONS_LIMIT", 7)
    tree = shop(9)
    store.publish(publication(store, shop(1), "r1"))
    live, prepared = store.tree.live_tree(), publication(store, tree, "r2")
    other.commit(Create("/shop/s0001", b"{}"))  # the first chunk creates it
    begin, sent, ended = session.begin, [], []

    def counted(*operations: Operation):
        wait = begin(*operations)
        sent.append(wait)

        def finish():
            ended.append(wait)
            wait()

        return finish

    monkeypatch.setattr(session, "begin", counted)
    by_hand = partial(store.tree.import_tree, diff(live.tree, tree), roles=(), versions=live.versions)
    write = partial(store.publish, prepared) if way == "publication" else by_hand
    with pytest.raises(ConflictError, match="cannot create /shop/s0001: it exists already"):
        write()
    assert len(sent) == 5, "the first one, and four under way"
    assert sent == ended
    mark = "r2" if way == "publication" else BY_HAND
    assert store.published_state().cluster == Cluster("r1", importing=mark)
    assert store.published_state().published.revision is None
    store.publish(publication(store, tree, "r3"))
    assert store.tree.live_tree().tree == tree
    assert store.published_state().cluster == Cluster("r3")


def test_an_unanswered_publication_is_an_error(store, session):
    def begin(*_operations: Operation):
        raise UnreachableError("gone")

    prepared = publication(store, shop(1), "r1")
    store.publish(prepared)
    prepared = publication(store, shop(2), "r2")
    session.begin = begin
    with pytest.raises(UnreachableError):
        store.publish(prepared)


def test_25000_nodes_are_published_and_read(store):
    tree = shop(6250, hosts=500)
    assert len(tree) == 25_001
    store.publish(publication(store, tree, "r1"))
    live = store.tree.live_tree()
    assert live.tree == tree
    assert store.published_state().cluster == Cluster("r1")
    assert live.versions["/shop"] == 0


def test_only_one_syncer_has_the_lock(store, other):
    theirs = ZooKeeperPublications(other, identity="syncer on b")
    lock = theirs.lock()
    assert lock.try_acquire()
    assert not store.lock().try_acquire()
    assert store.lock().holder() == "syncer on b"


@pytest.mark.parametrize("limit", [2000, 5])
def test_the_last_transaction_of_a_publication_releases_the_lock(store, other, monkeypatch, limit):
    monkeypatch.setattr(publishing, "OPERATIONS_LIMIT", limit)
    lock = store.lock()
    assert lock.try_acquire()
    store.publish(publication(store, shop(9), "r1"))
    assert ZooKeeperPublications(other).lock().try_acquire()
    lock.release()
    assert len(other.children("/hosts-lock")) == 1


def test_registered_hosts_are_read(store, session):
    host = Host(Identity("1", "w"), version="r1")
    ZooKeeperFleet(session).register(host)
    assert store.hosts(0).registered == (host,)


@pytest.mark.parametrize("version", [None, False])
def test_resume_restores_the_published_revision_and_deletes_the_stops(store, session, client, version):
    store.publish(publication(store, shop(1), "r1"))
    write_node(client, "/hosts", {"version": version, "note": "kept"})
    client.create("/zkdeployment/stops/1", b"{}")
    assert ZooKeeperClusterControl(session).resume(RESUME) == "r1"
    assert session.get("/hosts").properties == {"version": "r1", "note": "kept"}
    assert session.children("/zkdeployment/stops") == []


def test_a_running_cluster_is_not_resumed(store, session):
    with pytest.raises(RefusedError, match="nothing was published yet, or ZooKeeper was wiped"):
        ZooKeeperClusterControl(session).resume(RESUME)
    store.publish(publication(store, shop(1), "r1"))
    with pytest.raises(RefusedError, match="neither stopped nor held: it is running at r1"):
        ZooKeeperClusterControl(session).resume(RESUME)


def test_resume_is_refused_without_a_complete_publication(session, client):
    ZooKeeperFleet(session).register(Host(Identity("1", "w")))
    client.set("/hosts", b'{"version": null}')
    with pytest.raises(RefusedError, match="no revision is wholly published"):
        ZooKeeperClusterControl(session).resume(RESUME)


def test_a_request_for_the_latest_revision_is_served(session, other):
    syncer = ZooKeeperPublications(other)
    asked, requests = threading.Event(), []
    syncer.watch_requests(asked.set)

    def serve():
        while not requests:
            asked.wait(60)
            asked.clear()
            request = syncer.request()
            if request is not None:
                requests.append(request)
                syncer.publish(publication(syncer, shop(1), "r7", request=request.id))

    serving = threading.Thread(target=serve)
    serving.start()
    revision = ZooKeeperClusterControl(session).resume_latest(
        Act("me", "resume --latest", "fixed", 7.0), timeout=UNLIMITED
    )
    serving.join()
    assert revision == "r7"
    assert (requests[0].by, requests[0].reason, requests[0].time) == ("me", "fixed", 7.0)
    assert syncer.request() is None


def test_the_error_has_the_reason_of_a_syncer_that_cannot_publish(session, other):
    syncer = ZooKeeperPublications(other)
    asked = threading.Event()

    def refuse():
        asked.set()

    syncer.watch_requests(refuse)

    def serve():
        while (request := syncer.request()) is None:
            asked.wait(0.05)
        answer_request(syncer.session, request, "the tree does not parse")

    serving = threading.Thread(target=serve)
    serving.start()
    with pytest.raises(ZkdeploymentError, match="could not publish: the tree does not parse"):
        ZooKeeperClusterControl(session).resume_latest(Act("me", "resume --latest", "", 0.0), timeout=UNLIMITED)
    serving.join()
    assert session.get("/zkdeployment/request") is None


def test_a_request_is_withdrawn_if_no_syncer_serves_it(session):
    with pytest.raises(WaitTimeoutError, match=r"no syncer published within 0.2 s"):
        ZooKeeperClusterControl(session).resume_latest(Act("me", "resume --latest", "", 0.0), timeout=0.2)
    assert session.get("/zkdeployment/request") is None


def test_an_answer_to_an_older_request_does_not_change_the_newer_request(store, client):
    client.create("/zkdeployment")
    client.create("/zkdeployment/request", b'{"id": "new", "by": 7, "time": "x"}')
    assert store.request() == PublicationRequest(id="new", by="?", reason="", time=0.0)
    answer_request(store.session, PublicationRequest(id="old", by="", reason="", time=0.0), "no")
    with pytest.raises(ConflictError, match="was withdrawn or replaced"):
        store.publish(publication(store, shop(1), "r1", request="old"))
    assert store.request().id == "new"


def test_an_answered_request_is_not_served_again(store, client):
    client.create("/zkdeployment")
    client.create("/zkdeployment/request", b'{"id": "new", "error": "no"}')
    assert store.request() is None


def test_resume_retries_after_a_concurrent_write_to_hosts(store, session, client):
    store.publish(publication(store, shop(1), "r1"))
    client.set("/hosts", b'{"version": null}')
    send, disturbed = session.commit, []

    def disturb(*operations: Operation):
        if len(disturbed) < 2:
            disturbed.append(1)
            client.set("/hosts", b'{"version": false}')
        send(*operations)

    session.commit = disturb
    assert ZooKeeperClusterControl(session).resume(RESUME) == "r1"
    client.set("/hosts", b'{"version": null}')

    def refuse(*_operations: Operation):
        raise ConflictError("disturbed")

    session.commit = refuse
    with pytest.raises(ConflictError, match=r"cannot change the cluster version: other writers .* try again"):
        ZooKeeperClusterControl(session).resume(RESUME)


@pytest.mark.parametrize(
    ("newer_request", "message"),
    [
        (b'{"id": "other", "by": "somebody else"}', "somebody else replaced the request"),
        (None, "another publication is under way"),
    ],
)
def test_a_request_that_is_replaced_raises_a_conflict(session, client, newer_request, message):
    def replace_request(*operations: Operation):
        send(*operations)
        if operations[0].path != "/zkdeployment/request":
            return
        client.delete("/zkdeployment/request")
        if newer_request is not None:
            client.create("/zkdeployment/request", newer_request)

    client.create("/zkdeployment")
    send, session.commit = session.commit, replace_request
    with pytest.raises(ConflictError, match=message):
        ZooKeeperClusterControl(session).resume_latest(Act("me", "resume --latest", "", 0.0), timeout=UNLIMITED)


def test_a_publication_deletes_the_lock_nodes_of_removed_services_unless_they_are_held(session, store):
    store.publish(publication(store, shop(4), "r1"))
    for name in ("shop,s0000", "shop,s0003", "never,there", "held,too", "by,hand"):
        session.ensure(f"/agent-locks/{name}")
    session.ensure("/by/hand/deploy")
    held = ContenderLock(session, "/agent-locks/held,too", "h1 (1)")
    assert held.try_acquire()
    fewer = publication(store, shop(2), "r2")
    change = replace(fewer.change, delete=[path for path in fewer.change.delete if not path.startswith("/by")])
    store.publish(replace(fewer, change=change))
    assert session.children("/agent-locks") == ["by,hand", "held,too", "shop,s0000"]
    held.check()
    held.release()
    third = publication(store, shop(2, "2.0"), "r3")
    change = replace(third.change, delete=[path for path in third.change.delete if not path.startswith("/by")])
    store.publish(replace(third, change=change))
    assert session.children("/agent-locks") == ["by,hand", "shop,s0000"]


def test_a_heartbeat_that_would_not_fit_into_its_node_names_no_absent_hosts(store, session):
    names = [f"{number:0253}" for number in range(2100)]
    session.ensure(paths.INVENTORY)
    for start in range(0, len(names), 700):
        session.commit(*(Create(f"{paths.INVENTORY}/{name}") for name in names[start : start + 700]))
    store.report("published", 60, 1000.0)
    found = read_report(session)
    assert (found.last_message, found.absent) == ("published", None)
    session.commit(*(Delete(f"{paths.INVENTORY}/{name}") for name in names[:700]))
    store.report("published", 60, 1000.0)
    assert read_report(session).absent.keys() == {*names[700:]}
