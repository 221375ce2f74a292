"""The codec of records: each record survives a rewrite, with the keys that only other versions know."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.base.act import Act
from zkdeployment.base.deployment import DeploymentFailure, HostResult
from zkdeployment.base.host import Host, Leased
from zkdeployment.base.lock import LockedWork
from zkdeployment.base.records import APART, OMITTED, Key, Record, codec, no_keys, shown
from zkdeployment.base.stop import GroupStop, LackingGroup, Stop
from zkdeployment.publishing.records import PublicationRecord, PublicationRequest, Refusal


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Owner(Record):
    name: Annotated[str, Key("owner")]
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Thing(Record):
    """A record with each kind of field."""

    id: int
    colour: Colour
    label: Annotated[str, Key("title")] = "?"
    owner: Annotated[Owner | None, Key(flat=True)] = None
    parts: tuple[Owner, ...] = ()
    pair: tuple[int, str] | None = None
    tags: Annotated[frozenset[str], OMITTED] = frozenset()
    counts: Mapping[Colour, int] = field(default_factory=dict)
    version: str | int | Literal[False] | None = None
    stamp: Annotated[int, APART] = 0
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)

    @shown("parts_of_others")
    def _others(self) -> tuple[Owner, ...]:
        return tuple(part for part in self.parts if part != self.owner)


@dataclass(frozen=True, slots=True)
class Loose(Record):
    is_lenient: ClassVar[bool] = True
    name: str
    count: int
    inner: Leased | None = None
    colour: Colour = Colour.RED


THING = Thing(
    5,
    Colour.BLUE,
    "a",
    Owner("ann", 1.5),
    (Owner("bob"),),
    (1, "x"),
    frozenset({"b", "a"}),
    {Colour.RED: 2},
    False,
)
WRITTEN = {
    "id": 5,
    "colour": "blue",
    "title": "a",
    "owner": "ann",
    "since": 1.5,
    "parts": [{"owner": "bob", "since": 0.0}],
    "pair": [1, "x"],
    "tags": ["a", "b"],
    "counts": {"red": 2},
    "version": False,
    "parts_of_others": [{"owner": "bob", "since": 0.0}],
}


def test_a_record_has_the_form_that_its_annotations_give():
    assert THING.to_json() == WRITTEN
    assert list(THING.to_json()) == list(WRITTEN)
    assert Thing.from_json(WRITTEN, stamp=3) == Thing(**{**fields_of(THING), "stamp": 3})


def fields_of(record):
    return {form.name: getattr(record, form.name) for form in codec(type(record)).fields}


def test_default_values_are_omitted_where_the_annotation_requires_it():
    bare = Thing(5, Colour.BLUE)
    written = bare.to_json()
    assert "tags" not in written
    assert (written["owner"], written["since"], written["pair"]) == (None, None, None)
    assert Thing.from_json(written) == bare
    assert Thing.from_json({"id": 5, "colour": "blue"}) == bare


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "5"}, "id: expected a whole number, found '5'"),
        ({"id": True}, "id: expected a whole number, found True"),
        ({"colour": "green"}, "colour: expected one of red, blue, found 'green'"),
        ({"colour": []}, "colour: expected one of red, blue, found []"),
        ({"title": None}, "title: expected text, found None"),
        ({"since": float("nan")}, "since: expected a number, found nan"),
        ({"since": 10**400}, "since: expected a number, found 1000000"),
        ({"parts": [{}]}, "parts: owner: the key is missing"),
        ({"parts": {}}, "parts: expected a list, found {}"),
        ({"pair": [1]}, "pair: expected a list of 2 values, found [1]"),
        ({"counts": {"green": 1}}, "counts: expected one of red, blue, found 'green'"),
        ({"version": True}, "version: expected text, found True"),
    ],
)
def test_an_invalid_form_is_refused_with_its_place(change, message):
    with pytest.raises(ValueError) as raised:  # noqa: PT011  the message follows
        Thing.from_json({**WRITTEN, **change})
    assert str(raised.value).startswith(message)
    assert Thing.if_valid({**WRITTEN, **change}) is None


@pytest.mark.parametrize("value", [None, 5, "text", [], {}])
def test_values_other_than_an_object_with_all_keys_are_refused(value):
    with pytest.raises(ValueError, match=r"expected an object|id: the key is missing"):
        Thing.from_json(value)


def test_a_lenient_record_reads_malformed_values_as_not_set():
    assert Loose.from_json({"name": 1, "count": "x", "inner": 5, "colour": "green"}) == Loose("?", 0)
    assert Loose.from_json(None) == Loose("?", 0)
    assert Loose.from_json({"name": "a", "count": 2, "inner": {"role": "ci", "number": 1}}).inner == Leased(
        "ci", 1
    )


def strategy_of(hint):
    """Return values of a type of a field."""
    origin, arguments = get_origin(hint), get_args(hint)
    simple = {
        str: st.text(),
        int: st.integers(-(2**52), 2**52),
        float: st.floats(-(2**40), 2**40).map(lambda number: round(number, 1)),
        bool: st.booleans(),
        type(None): st.none(),
    }
    if hint in simple:
        return simple[hint]
    if origin is Annotated:
        return strategy_of(arguments[0])
    if origin in {Union, UnionType}:
        return st.one_of(*map(strategy_of, arguments))
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple and arguments[-1] is not ...:
        return st.tuples(*map(strategy_of, arguments))
    if origin is tuple:
        return st.lists(strategy_of(arguments[0]), max_size=3).map(tuple)
    if origin is frozenset:
        return st.frozensets(strategy_of(arguments[0]), max_size=3)
    if origin is Mapping:
        return st.dictionaries(*map(strategy_of, arguments), max_size=3)
    return st.sampled_from(list(hint)) if issubclass(hint, Enum) else records(hint)


@st.composite
def records(draw, kind):
    """Return records of a class; fields with a form of their own have their default values."""
    made = {}
    for form in codec(kind).fields:
        if form.flat or not callable(form.default):
            made[form.name] = draw(strategy_of(form.type)) if form.default is not None else form.default
    return kind(**made, **{"unknown": {"newer": [1]}} if codec(kind).known is not None else {})


KINDS = (Thing, Act, DeploymentFailure, Host, HostResult, LackingGroup, Leased, LockedWork, Refusal, Stop)


@given(st.sampled_from(KINDS).flatmap(records))
def test_each_record_is_read_back_unchanged_and_keeps_unknown_keys(record):
    written = record.to_json()
    read = type(record).from_json(written)
    assert read == record
    assert read.to_json() == written


@pytest.mark.parametrize(
    "record",
    [
        PublicationRecord("r1", 5.0, results={"h1": HostResult("h1", "app1", 1.0, 2.0, unknown={"b": 1})}),
        PublicationRecord("r1", 5.0, unknown={"a": [1, 2]}),
    ],
)
def test_the_history_keeps_the_keys_of_newer_versions(record):
    assert PublicationRecord.from_json(record.to_json()).to_json() == record.to_json()
    assert "1" in str(record.to_json())


def test_records_inside_others_share_their_keys():
    stop = GroupStop("p1/store/v1/shop", 7, Stop("h1", "app1", "r1", "deploy", "exit 1", 5.0))
    written = {
        "sequence": 7,
        "host": "h1",
        "name": "app1",
        "revision": "r1",
        "step": "deploy",
        "reason": "exit 1",
        "time": 5.0,
    }
    assert stop.to_json() == written
    assert GroupStop.from_json(written, group=stop.group) == stop


def test_a_malformed_state_of_a_request_matches_no_fleet():
    assert PublicationRequest.from_json({"id": "1", "state": {"version": []}}).state.stops == -1
    assert PublicationRequest.from_json({"id": "1"}).state is None
