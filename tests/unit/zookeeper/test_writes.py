from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.protocol import serialization as kazoo
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from zkdeployment.zookeeper.session import send
from zkdeployment.zookeeper.transactions import Check, Create, Delete, Set

OPERATIONS = [
    Create("/a"),
    Create("/a/é", b'{"x":1}'),
    Create("/hosts/h1", b"\0\xff", ephemeral=True),
    Set("/a", b"", 3),
    Set("/a", b"any"),
    Delete("/a/é", 7),
    Delete("/a"),
    Check("/", 5),
]


def request(chroot: str, operations: list[Any], acl: list[Any] | None = None) -> Any:
    """Return the request that is passed to kazoo's connection."""
    sent = []
    client = SimpleNamespace(
        chroot=chroot,
        default_acl=acl,
        handler=SimpleNamespace(async_result=object),
        _call=lambda request, _result: sent.append(request),
    )
    send(client, operations)
    return sent[0]


def test_nodes_are_created_with_the_access_list_of_the_client():
    acl = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
    expected = kazoo.Transaction([kazoo.Create("/a", b"", acl, 0)])
    assert request("", [Create("/a")], acl).serialize() == expected.serialize()


@pytest.mark.parametrize(("chroot", "root"), [("", "/"), ("/at/b", "/at/b")])
def test_a_transaction_is_encoded_as_kazoo_encodes_it(chroot: str, root: str):
    expected = kazoo.Transaction(
        [
            kazoo.Create(f"{chroot}/a", b"", OPEN_ACL_UNSAFE, 0),
            kazoo.Create(f"{chroot}/a/é", b'{"x":1}', OPEN_ACL_UNSAFE, 0),
            kazoo.Create(f"{chroot}/hosts/h1", b"\0\xff", OPEN_ACL_UNSAFE, 1),
            kazoo.SetData(f"{chroot}/a", b"", 3),
            kazoo.SetData(f"{chroot}/a", b"any", -1),
            kazoo.Delete(f"{chroot}/a/é", 7),
            kazoo.Delete(f"{chroot}/a", -1),
            kazoo.CheckVersion(root, 5),
        ]
    )
    written = request(chroot, OPERATIONS)
    assert written.type == expected.type
    assert written.serialize() == expected.serialize()
