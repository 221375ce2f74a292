"""Dataclasses whose methods are compiled when they are first called behave as those of the standard decorator."""

import builtins
import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from zkdeployment.base import values

#: The options that the program uses, and some more.
OPTIONS: list[dict[str, bool]] = [
    {},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "order": True},
    {"frozen": True, "kw_only": True},
    {"slots": True, "eq": False},
    {"eq": False, "repr": False},
]


def _made(dataclass: Any, **options: bool) -> Any:
    @dataclass(**options)
    class Version:
        """A version of a package."""

        KIND: ClassVar[str] = "package"

        name: str
        number: int = 1
        files: list[str] = dataclasses.field(default_factory=list, compare=False)
        key: str = dataclasses.field(default="secret", repr=False)
        size: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError(self.number)
            object.__setattr__(self, "size", len(self.name))

    return Version


def _outcome(call: Callable[[], Any]) -> Any:
    """Return the text of the result of a call without addresses of objects, or its error."""
    try:
        result = call()
    except (TypeError, ValueError, AttributeError) as error:
        return type(error), str(error)
    return str(result).split(" at ")[0]


def _behaviour(cls: Any) -> list[Any]:
    first, same, other = (cls(name=name) for name in ("a", "a", "b"))
    calls: list[Callable[[], Any]] = [
        lambda: first == same,
        lambda: first != other,
        lambda: first == "a",
        lambda: first < other,
        lambda: first >= other,
        lambda: first < "a",
        lambda: hash(first) == hash(same),
        lambda: repr(first),
        cls,
        lambda: cls("a", 2, size=3),
        lambda: cls(name="a", number=-1),
        lambda: cls("a", 2).number,
        lambda: dataclasses.astuple(first),
        lambda: dataclasses.asdict(dataclasses.replace(first, number=7, files=["x"])),
        lambda: dataclasses.asdict(copy.deepcopy(first)),
        lambda: copy.copy(first).size,
        lambda: setattr(other, "name", "c"),
        lambda: delattr(other, "number"),
        lambda: vars(other),
        lambda: cls.__match_args__,
        lambda: cls.__init__.__qualname__,
        lambda: [(each.name, each.kw_only) for each in dataclasses.fields(cls)],
    ]
    return [_outcome(call) for call in calls]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_instances_behave_as_those_of_the_standard_decorator(options: dict[str, bool]) -> None:
    expected = _behaviour(_made(dataclasses.dataclass, **options))

    assert _behaviour(_made(values.dataclass, **options)) == expected


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_nothing_is_compiled_for_a_class_without_instances(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, bool]
) -> None:
    compiled: list[str] = []
    run = builtins.exec

    def record(text: str, *places: Any) -> None:
        compiled.append(text)
        run(text, *places)

    monkeypatch.setattr(builtins, "exec", record)
    cls = _made(values.dataclass, **options)
    assert "self" not in "".join(compiled)

    cls(name="a")
    assert "self" in "".join(compiled)


def test_a_method_is_compiled_once() -> None:
    cls = _made(values.dataclass, frozen=True)
    one = cls("a")
    compiled = cls.__init__

    assert cls("a") == one
    assert cls.__init__ is compiled


@values.dataclass(frozen=True, slots=True)
class _Place:
    name: str
    number: int = 0


def test_values_are_pickled_and_matched() -> None:
    place = pickle.loads(pickle.dumps(_Place("rack", 3)))

    match place:
        case _Place(name, number=number):
            assert (name, number) == ("rack", 3)


def test_methods_of_the_class_remain() -> None:
    @values.dataclass(frozen=True)
    class Name:
        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Name) and self.text.lower() == other.text.lower()

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return self.text

    assert Name("A") == Name("a")
    assert (hash(Name("a")), repr(Name("a"))) == (7, "a")


def test_a_subclass_adds_fields_and_calls_the_methods_of_its_base() -> None:
    @values.dataclass(frozen=True)
    class Base:
        name: str

        def shown(self) -> str:
            return self.name

    @values.dataclass(frozen=True)
    class Derived(Base):
        number: int

    class Plain(Derived):
        def __init__(self) -> None:
            super().__init__("plain", 2)

    assert repr(Derived("a", 1)).endswith("Derived(name='a', number=1)")
    assert Derived("a", 1) != Base("a")
    assert (Plain().shown(), Plain().number) == ("plain", 2)
    assert Base("b").shown() == "b"
