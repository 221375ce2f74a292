"""Check instances in a real ZooKeeper: buckets and indexes change together, and only by the leader."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from zkdeployment.base.errors import LockLostError, TreeError
from zkdeployment.checks import paths as check_paths
from zkdeployment.checks.rules.instance import CheckInstance, InstanceKey
from zkdeployment.checks.rules.workflow import WantedConfiguration, delete, life_cycle_turn, want
from zkdeployment.checks.store.instances import ZooKeeperCheckInstances
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.transactions import Create, Delete, Set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.zookeeper.session import Session

SYSTEM = check_paths.system_path("nagios1")


def instance(number: int) -> CheckInstance:
    """Return an instance that waits to be rolled out."""
    key = InstanceKey("tcp", "/shop/web", number, "h1")
    return want(CheckInstance(key), WantedConfiguration({"number": number}, "nagios1", 1), 5.0, is_reported=True)


def of_bucket(bucket: str, count: int) -> list[CheckInstance]:
    """Return instances of one bucket."""
    every = (instance(number) for number in itertools.count())
    return list(itertools.islice((found for found in every if found.id.startswith(bucket)), count))


def add(store: ZooKeeperCheckInstances, *instances: CheckInstance) -> list[str]:
    """Write instances and return their ids."""
    made = {found.id: found for found in instances}
    store.change(made, lambda found, _: made[found])
    return sorted(made)


def entries(session: Session, index: str) -> Sequence[str]:
    """Return the entries of an index of the monitoring system."""
    return session.children(f"{SYSTEM}/{index}") or []


def test_instances_of_several_buckets_are_found_scanned_and_removed_with_their_entries(session: Session):
    store = ZooKeeperCheckInstances(session)
    ids = add(store, *map(instance, range(60)))
    assert sorted(found.id for found in store.scan()) == ids
    assert sorted(store.find(ids[:7])) == ids[:7]
    assert list(store.flagged("nagios1")) == list(store.open("nagios1")) == ids
    assert list(store.due()) == []
    assert ids[0] in {found.id for found in store.bucket(int(ids[0][:3], 16) + 4096)}

    outcome = store.change(ids[:2], lambda _, found: found and delete(found, 6.0))
    assert sorted(outcome) == sorted(store.due()) == ids[:2]
    store.change(store.due(), lambda _, found: found and life_cycle_turn(found, 7.0))
    assert list(store.due()) == []
    assert entries(session, "flagged") == entries(session, "open") == ids[2:]

    store.change(ids, lambda _found, _instance: None)
    assert list(store.scan()) == entries(session, "flagged") == entries(session, "open") == []


def test_a_change_that_another_process_was_faster_than_is_computed_again(session: Session, other: Session):
    one, two = ZooKeeperCheckInstances(session), ZooKeeperCheckInstances(other)
    first, second = of_bucket("abc", 2)
    add(one, first)
    calls = []

    def change(_: str, found: CheckInstance | None) -> CheckInstance | None:
        calls.append(found)
        if len(calls) == 1:
            add(two, second)
        return found and delete(found, 6.0)

    one.change([first.id], change)
    assert len(calls) == 2
    found = one.find([first.id, second.id])
    assert found[first.id].deleted
    assert not found[second.id].deleted


def test_entries_that_are_missing_or_left_over_are_put_right(session: Session):
    store = ZooKeeperCheckInstances(session)
    (own,) = add(store, instance(1))
    session.commit(Delete(f"{SYSTEM}/flagged/{own}"))
    session.ensure(check_paths.DUE)
    session.commit(Create(f"{check_paths.DUE}/{own}"))
    store.change([own], lambda _, found: found and delete(found, 6.0))
    store.change([own], lambda _, found: found and life_cycle_turn(found, 7.0))
    assert entries(session, "flagged") == entries(session, "open") == list(store.due()) == []


def test_an_instance_that_does_not_change_is_not_written(session: Session):
    store = ZooKeeperCheckInstances(session)
    (own,) = add(store, instance(1))
    node = session.get(f"{check_paths.INSTANCES}/{own[:3]}")
    assert node is not None
    outcome = store.change([own, instance(2).id], lambda _, found: found)
    assert outcome[own][0] == outcome[own][1] == instance(1)
    assert outcome[instance(2).id] == (None, None)
    after = session.get(f"{check_paths.INSTANCES}/{own[:3]}")
    assert after is not None
    assert after.version == node.version


def test_only_the_leader_changes_instances(session: Session):
    leader: list[str | None] = [None]
    store = ZooKeeperCheckInstances(session, lambda: leader[0])
    with pytest.raises(LockLostError, match="does not lead any more"):
        add(store, instance(1))
    leader[0] = f"{paths.COORDINATORS}/lead"
    with pytest.raises(LockLostError, match="lost the lead"):
        add(store, instance(1))
    session.ensure(f"{paths.COORDINATORS}/lead")
    assert add(store, instance(1)) == [instance(1).id]


def test_a_damaged_bucket_is_an_error_with_advice(session: Session):
    store = ZooKeeperCheckInstances(session)
    (own,) = add(store, instance(1))
    path = f"{check_paths.INSTANCES}/{own[:3]}"
    for data in (b"garbage", b"{}", b'[{"key": 5}]'):
        session.commit(Set(path, data))
        with pytest.raises(TreeError, match="delete the node, and they are made anew"):
            store.find([own])
