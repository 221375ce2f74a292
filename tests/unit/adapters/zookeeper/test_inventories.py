"""The form of what hosts publish of themselves."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.adapters.zookeeper.client.packed import pack, unpack
from zkdeployment.adapters.zookeeper.inventories import decode, encode
from zkdeployment.model.deployment import Deployment
from zkdeployment.model.host import Identity
from zkdeployment.model.inventory import Inventory, KnownHost, Marker, Package
from zkdeployment.model.strategy import Facts

names = st.text("abc-\u00e9\udcff", min_size=1, max_size=4)
optional = st.none() | names
numbers = st.integers(0, 9)
markers = st.builds(
    Marker,
    st.builds(Deployment, names, numbers),
    names,
    optional,
    optional,
    optional,
    optional,
    st.lists(names, max_size=2).map(tuple),
)
packages = st.dictionaries(names, st.lists(st.tuples(numbers, names, names, names), max_size=2), max_size=3).map(
    lambda found: {name: tuple(Package(name, *one) for one in some) for name, some in found.items()}
)
inventories = st.builds(
    Inventory,
    packages=packages,
    scripts=st.dictionaries(names, names),
    directories=st.frozensets(names),
    markers=st.lists(markers, max_size=3).map(tuple),
    managed=st.dictionaries(names, names),
    checkouts=st.dictionaries(names, names),
    applications=st.frozensets(names),
    controllers=st.frozensets(names),
    lost_scripts=st.frozensets(names),
    originals=st.dictionaries(names, names),
)
known_hosts = st.builds(
    KnownHost,
    st.builds(Identity, names, names, optional),
    st.none() | inventories,
    st.floats(0, 1e10),
    names,
    st.lists(names, max_size=2).map(tuple),
    st.dictionaries(names, names, max_size=2),
    optional,
)


@given(known_hosts)
def test_all_that_a_host_has_is_read_back_as_it_was_written(known):
    assert decode(known.identity.id, encode(known)) == known


def test_what_does_not_differ_is_written_alike():
    one = KnownHost(Identity("h1", "app1"), Inventory(managed={"a": "a", "b": "b"}, controllers=frozenset("xy")))
    two = KnownHost(Identity("h1", "app1"), Inventory(managed={"b": "b", "a": "a"}, controllers=frozenset("yx")))
    assert encode(one) == encode(two)


HOST = {"id": "h1", "name": "app1", "role": None, "time": 0, "unknown": "", "inventory": None}


def test_what_older_agents_do_not_tell_is_not_there():
    found = decode("h1", pack(HOST))
    assert (found.unknown, found.facts) == ("", Facts(name="app1"))


WHOLE = encode(KnownHost(Identity("h1", "app1"), Inventory(packages={"foo": (Package("foo", 0, "1", "1", "x"),)})))
CORRUPT = {
    "nothing": b"",
    "cut off": WHOLE[:-5],
    "text": b"hello",
    "a list": b"[]",
    "other fields": b'{"a": 1}',
    "a name that is none": pack(HOST | {"name": 2}),
    "a tag that is none": pack(HOST | {"tags": [1]}),
    "half an inventory": pack(HOST | {"inventory": {"packages": []}}),
    "a number that is a truth": pack(HOST | {"inventory": {"packages": {"a": [[True, "1", "1", "x"]]}}}),
    "nested": b"[" * 100_000,
    "a bomb": zlib.compress(b" " * (70 << 20)),
}


@pytest.mark.parametrize("data", CORRUPT.values(), ids=CORRUPT)
def test_what_makes_no_sense_is_unknown(data):
    found = decode("h1", data)
    assert found.identity == Identity("h1", "h1")
    assert found.inventory is None
    assert "cannot be read" in found.unknown


def test_a_record_may_also_be_plain_json():
    assert unpack(b'{"a": [1]}') == unpack(pack({"a": [1]})) == {"a": [1]}


def test_an_inventory_that_an_older_agent_wrote_has_neither_lost_scripts_nor_originals():
    written = unpack(encode(KnownHost(Identity("h1", "app1"), Inventory(managed={"foo": "foo"}))))
    del written["inventory"]["lost_scripts"], written["inventory"]["originals"]
    assert decode("h1", pack(written)).inventory == Inventory(managed={"foo": "foo"})
