"""Services with registered instances that a test writes into ZooKeeper."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.zookeeper import write_node
from zkdeployment.base.deployment import Assignment

if TYPE_CHECKING:
    from kazoo.client import KazooClient


def write_services(client: KazooClient, count: int) -> None:
    """Write a converged host that runs the services /s0, /s1, ..., each of which has one registered instance."""
    write_node(client, "/hosts", {"version": "r1"})
    write_node(client, "/hosts/h1", {"name": "h1.example", "version": "r1"})
    write_node(client, "/zkdeployment/targets", {"version": "r1", "sequence": 7})
    paths = [f"/s{number}" for number in range(count)]
    assignments = [Assignment(path, 1, "web-1", "web").to_json() for path in paths]
    client.create("/zkdeployment/targets/h1", json.dumps(assignments).encode())
    transaction = client.transaction()
    for path in paths:
        instance = json.dumps({"host": "h1", "deployment": f"{path} 0"}).encode()
        transaction.create(path)
        transaction.create(f"{path}/providers")
        transaction.create(f"{path}/providers/i", instance)
    assert not [error for error in transaction.commit() if isinstance(error, Exception)]
