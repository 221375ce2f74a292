from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol import serialization as kazoo
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Id

from zkdeployment.zookeeper.encoding import TransactionRequest
from zkdeployment.zookeeper.nodes import Node
from zkdeployment.zookeeper.reads import Read, ReadRequest
from zkdeployment.zookeeper.servers import AclEntry
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


PATHS = st.lists(st.text(st.characters(categories=["L", "Nd"]), min_size=1), max_size=4).map(
    lambda names: f"/{'/'.join(names)}"
)
DATA = st.binary(max_size=300)
VERSIONS = st.integers(-1, 2**31 - 1)
OWN = st.lists(st.builds(AclEntry, st.just("digest"), st.text("abc:é", min_size=1), st.just("r")), max_size=3)
CHANGES = st.lists(
    st.one_of(
        st.builds(Create, PATHS, DATA, st.booleans(), OWN.map(tuple)),
        st.builds(Set, PATHS, DATA, VERSIONS),
        st.builds(Delete, PATHS, VERSIONS),
        st.builds(Check, PATHS, VERSIONS),
    )
)


def in_kazoo(operation: Any, chroot: str) -> Any:
    """Return the same operation as a request of kazoo."""
    path = chroot + operation.path if operation.path != "/" else chroot or "/"
    match operation:
        case Create(_, data, ephemeral, own):
            acl = [ACL(1, Id(entry.scheme, entry.identity)) for entry in own] or CREATOR_ALL_ACL
            return kazoo.Create(path, data, acl, int(ephemeral))
        case Set(_, data, version):
            return kazoo.SetData(path, data, version)
        case Delete(_, version):
            return kazoo.Delete(path, version)
    return kazoo.CheckVersion(path, operation.version)


@given(CHANGES, st.sampled_from(["", "/at/b"]))
def test_any_transaction_has_the_bytes_of_kazoo(operations: list[Any], chroot: str):
    expected = kazoo.Transaction([in_kazoo(operation, chroot) for operation in operations])
    assert request(chroot, operations, CREATOR_ALL_ACL).serialize() == expected.serialize()


@given(st.lists(st.builds(Read, PATHS, st.booleans())))
def test_reads_in_one_request_have_the_bytes_of_kazoo(reads: list[Read]):
    alike = [(kazoo.GetChildren if read.children else kazoo.GetData)(read.path, None) for read in reads]
    assert ReadRequest(reads).serialize() == kazoo.Transaction(alike).serialize()


ERRORS = st.sampled_from([-101, -102, -103, -110, -2])
STATS = st.builds(ZnodeStat, *[st.integers(0, 2**31 - 1)] * 11)
NAMES = st.lists(st.text(st.characters(categories=["L", "Nd"]), min_size=1))


def error(number: int) -> bytes:
    return kazoo.multiheader_struct.pack(-1, 0, number) + kazoo.int_struct.pack(number)


END = kazoo.multiheader_struct.pack(-1, 1, -1)


@given(st.lists(st.one_of(st.tuples(DATA, STATS), NAMES, ERRORS)), st.integers(0, 9))
def test_answers_are_decoded_as_kazoo_decodes_them(answers: list[Any], offset: int):
    body, expected = bytearray(offset), []
    for answer in answers:
        match answer:
            case int():
                body += error(answer)
                expected.append(EXCEPTIONS[answer])
            case tuple():
                data, stat = answer
                written = kazoo.write_buffer(data) + kazoo.stat_struct.pack(*stat)
                body += kazoo.multiheader_struct.pack(kazoo.GetData.type, 0, 0) + written
                expected.append(Node.read(kazoo.GetData.deserialize(written, 0)))
            case _:
                written = kazoo.int_struct.pack(len(answer)) + b"".join(map(kazoo.write_string, answer))
                body += kazoo.multiheader_struct.pack(kazoo.GetChildren.type, 0, 0) + written
                expected.append(kazoo.GetChildren.deserialize(written, 0))
    found = ReadRequest([]).deserialize(bytes(body + END), offset)
    assert [type(answer) if isinstance(answer, Exception) else answer for answer in found] == expected


@given(st.lists(ERRORS))
def test_the_failures_of_a_transaction_are_those_of_kazoo(numbers: list[int]):
    body = b"".join(map(error, numbers)) + END
    found = TransactionRequest(b"").deserialize(body, 0)
    assert [*map(type, found)] == [*map(type, kazoo.Transaction.deserialize(body, 0))]


def test_a_transaction_that_succeeded_has_no_failures():
    body = kazoo.multiheader_struct.pack(kazoo.Create.type, 0, 0) + kazoo.write_string("/a") + END
    assert TransactionRequest(b"").deserialize(body, 0) == []
