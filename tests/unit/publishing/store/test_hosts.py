"""The encoding of the inventories that hosts publish."""

import re
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import make_known_host, make_package
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Marker, Package
from zkdeployment.base.system import HostSystem
from zkdeployment.publishing.store.hosts import decode, encode
from zkdeployment.zookeeper.nodes import pack, unpack

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
    st.none() | numbers,
)
markers |= st.builds(
    replace,
    markers,
    properties=names,
    packages=st.lists(names, max_size=2).map(tuple),
    identity=st.none() | st.builds(Identity, names, names, optional),
)
packages = st.dictionaries(names, st.lists(st.tuples(numbers, names, names, names), max_size=2), max_size=3).map(
    lambda packages_by_name: {
        name: tuple(Package(name, *fields) for fields in installed) for name, installed in packages_by_name.items()
    }
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
    installonly=st.frozensets(names),
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
    optional,
    st.none() | numbers,
)


@given(known_hosts)
def test_an_encoded_inventory_is_decoded_unchanged(known):
    assert decode(known.identity.id, encode(known)) == known


def test_equal_inventories_have_equal_encodings():
    first = make_known_host(1, Inventory(managed={"a": "a", "b": "b"}, controllers=frozenset("xy")))
    second = make_known_host(1, Inventory(managed={"b": "b", "a": "a"}, controllers=frozenset("yx")))
    assert encode(first) == encode(second)


HOST = unpack(encode(make_known_host(1, Inventory())))
WHOLE = encode(make_known_host(1, Inventory(packages={"foo": (make_package("foo", "1", arch="x"),)})))
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
def test_an_invalid_record_is_an_unknown_inventory(data):
    known = decode("h1", data)
    assert known.identity == Identity("h1", "h1")
    assert known.inventory is None
    assert "cannot be read" in known.unknown


def test_a_record_may_also_be_plain_json():
    assert unpack(b'{"a": [1]}') == unpack(pack({"a": [1]})) == {"a": [1]}


def test_a_deployment_that_was_started_and_not_ended_is_encoded():
    known = make_known_host(1, Inventory(deployments_started=True))
    assert decode("h1", encode(known)) == known


@pytest.mark.parametrize("key", ["tags", "labels", "rack", "address", "completed", "lease"])
def test_a_record_without_one_of_its_keys_is_unknown_and_the_key_is_named(key):
    written = unpack(encode(make_known_host(1, Inventory())))
    del written[key]
    assert decode("h1", pack(written)).unknown == f"its inventory cannot be read (it lacks the key '{key}')"


@pytest.mark.parametrize("key", ["lost_scripts", "originals", "started", "sequences", "records", "identities"])
def test_an_inventory_without_one_of_its_keys_is_unknown_and_the_key_is_named(key):
    written = unpack(encode(make_known_host(1, Inventory())))
    del written["inventory"][key]
    assert decode("h1", pack(written)).unknown == f"its inventory cannot be read (it lacks the key '{key}')"


def test_an_inventory_of_an_earlier_agent_names_no_installonly_packages():
    known = make_known_host(1, Inventory(installonly=frozenset({"kernel"})))
    written = unpack(encode(known))
    del written["inventory"]["installonly"]
    assert decode("h1", pack(written)) == replace(known, inventory=Inventory())


@given(known_hosts)
def test_without_software_only_the_markers_of_an_inventory_are_decoded(known):
    markers_only = known.inventory and Inventory(markers=known.inventory.markers)
    assert decode(known.identity.id, encode(known), software=False) == replace(known, inventory=markers_only)


def test_only_the_record_of_a_host_with_a_system_node_has_a_system():
    known = make_known_host("h1")
    assert "system" not in unpack(encode(known))
    updated = replace(known, system=HostSystem("2026-11-20", 1, "5.14-2", reasons=("systemd",), due=7.0))
    assert decode("h1", encode(updated)) == updated


@pytest.mark.parametrize("time", ["1e999", "1" + "0" * 400])
def test_an_inventory_whose_time_no_calendar_can_show_is_unknown(time):
    data = encode(make_known_host("app1"))
    text = zlib.decompress(data).decode()
    damaged = re.sub(r'"time":[0-9.]+', f'"time":{time}', text)
    assert damaged != text
    assert "cannot be read" in decode("app1", damaged.encode()).unknown
