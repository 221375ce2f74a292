"""The baseline: node by node with one blocking request after another, like zc.zk 2.1.0 and its agent.

The requests have the same order as in zc.zk. The baseline omits reading and comparing access lists.
"""

from collections.abc import Iterator

from kazoo.client import KazooClient

from zkdeployment.base.names import RESERVED
from zkdeployment.tree.values import Tree
from zkdeployment.zookeeper.nodes import encode


def import_tree(client: KazooClient, tree: Tree, path: str = "") -> Iterator[str]:
    """Change the nodes below ``path`` to match the tree; keep top-level nodes that the tree lacks.

    Yields each finished node, so that the caller can run other measurements in between.
    """
    there = set(client.get_children(path or "/"))
    names = tree.children(path)
    if path:
        for name in there.difference(names):
            client.delete(f"{path}/{name}", recursive=True)
    for name in names:
        child = f"{path}/{name}"
        data = encode(tree.nodes[child])
        if name not in there:
            client.create(child, data)
        elif client.get(child)[0] != data:
            client.set(child, data)
        yield from import_tree(client, tree, child)
        yield child


def deployments_of(client: KazooClient, name: str) -> list[tuple[str, bytes]]:
    """Walk the whole tree for the services deployed to a host; return their paths and data."""
    services = [
        path.removesuffix(f"/deploy/{name}") for path in _walk(client, "") if path.endswith(f"/deploy/{name}")
    ]
    return [(path, client.get(path)[0]) for path in services]


def read_tree(client: KazooClient, path: str = "") -> Iterator[str]:
    """Read all nodes; yield each node read, so that the caller can run other measurements in between."""
    for name in sorted(client.get_children(path or "/")):
        if path or name not in RESERVED:
            child = f"{path}/{name}"
            _, stat = client.get(child)
            yield child
            if stat.numChildren:
                yield from read_tree(client, child)


def _walk(client: KazooClient, path: str) -> Iterator[str]:
    for name in sorted(client.get_children(path or "/")):
        child = f"{path}/{name}"
        yield child
        yield from _walk(client, child)


def create_in_transactions(client: KazooClient, tree: Tree, size: int = 500) -> None:
    """Create all nodes of a tree, ``size`` in a transaction: the lower bound of a full import."""
    nodes = [(path, encode(tree.nodes[path])) for path in sorted(tree.nodes)]
    for start in range(0, len(nodes), size):
        transaction = client.transaction()
        for path, data in nodes[start : start + size]:
            transaction.create(path, data)
        transaction.commit()


def delete_in_transactions(client: KazooClient, tree: Tree, size: int = 1000) -> None:
    """Delete all nodes of an imported tree, ``size`` in a transaction."""
    paths = sorted(tree.nodes, reverse=True)
    for start in range(0, len(paths), size):
        transaction = client.transaction()
        for path in paths[start : start + size]:
            transaction.delete(path)
        transaction.commit()
