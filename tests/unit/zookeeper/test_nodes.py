"""Node data in the format of zc.zk, and valid paths of nodes."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.zookeeper.nodes import check_path, decode, encode
from zkdeployment.zookeeper.paths import target_path

TEXT = st.text(alphabet=st.characters(exclude_categories=()))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT | st.just("string_value"), VALUES, max_size=4))
def test_encoded_properties_are_decoded_unchanged(properties):
    assert decode(encode(properties)) == properties


@given(st.binary())
def test_any_data_is_decoded_as_properties(data):
    properties_read = decode(data)
    assert isinstance(properties_read, dict)
    assert decode(encode(properties_read)) == properties_read


@pytest.mark.parametrize(
    ("properties", "data"),
    [
        ({}, b""),
        ({"b": 1, "a": None}, b'{"a":null,"b":1}'),
        ({"string_value": "plain text"}, b"plain text"),
        ({"string_value": ""}, b'{"string_value":""}'),
        ({"string_value": "{}"}, b'{"string_value":"{}"}'),
        ({"string_value": 5}, b'{"string_value":5}'),
        ({"string_value": "x", "a": 1}, b'{"a":1,"string_value":"x"}'),
        ({"name": "\u00e9\ud800"}, b'{"name":"\\u00e9\\ud800"}'),
    ],
)
def test_the_encoding_is_that_of_zc_zk(properties, data):
    assert encode(properties) == data
    assert decode(data) == properties


@pytest.mark.parametrize(
    "data",
    [
        b"[1, 2]",
        b"7",
        b"{broken}",
        b'{"a": NaN}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a":' * 9999 + b"1" + b"}" * 9999,
    ],
)
def test_data_that_is_not_a_json_object_is_a_string_value(data):
    assert decode(data) == {"string_value": data.decode()}


def test_blank_data_has_no_properties_and_invalid_utf_8_is_replaced():
    assert decode(b" \n") == {}
    assert decode(b"\xff!") == {"string_value": "\ufffd!"}
    assert decode(b' {"a": 1}\n') == {"a": 1}


@pytest.mark.parametrize("path", ["/", "/a", "/a/b c", "/...", "/a.b/~", "/\u00fcber/\U0001f600"])
def test_a_valid_path_is_accepted(path):
    assert check_path(path) == path


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "must start with a slash"),
        ("a", "must start with a slash"),
        ("/a/", "has an empty name in it"),
        ("/a//b", "has an empty name in it"),
        ("/a/../b", "must not contain '.' or '..'"),
        ("/.", "must not contain '.' or '..'"),
        ("/a\0b", "has characters that ZooKeeper does not allow"),
        ("/\ud800", "has characters that ZooKeeper does not allow"),
        ("/\uf000", "has characters that ZooKeeper does not allow"),
        ("/" + "a" * 32768, "is longer than 32768 characters"),
    ],
)
def test_an_invalid_path_is_refused(path, problem):
    with pytest.raises(ConfigurationError, match=problem) as caught:
        check_path(path)
    assert len(str(caught.value)) < 250


@given(TEXT.filter(lambda text: text not in {"", ".", ".."} and not any("\ud800" <= c <= "\udfff" for c in text)))
def test_a_target_name_can_be_recovered_from_its_node_name(name):
    path = target_path(name)
    assert check_path(path) == path
    assert unquote(path.rpartition("/")[2]) == name


def test_encoded_data_is_json():
    assert json.loads(encode({"a": [1, {"b": "\u2603"}]})) == {"a": [1, {"b": "\u2603"}]}
