"""The installed features, and their contributions to the frames.

A frame, such as the documents, the service or the verbs, declares its places for contributions in its own module
``places``, and reads here how features fill them. Features do not know each other, and frames do not know the
features: each installed package names its features as entry points of the group ``zkdeployment.features``.

The entry points are read without ``importlib.metadata``, whose import takes longer than all features.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from zkdeployment.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

P = TypeVar("P")

#: The group of entry points.
GROUP = "zkdeployment.features"


class Feature(NamedTuple):
    """A feature: its name, and the places of the frames as it fills them.

    The values of places are functions, which import what they return: a program loads only the parts of the
    features that it uses.
    """

    name: str
    places: tuple[object, ...]


def value_in(module: str, name: str) -> Callable[[], Any]:
    """Return a function that returns a value of a module, which is imported at the first call.

    The name of a module below ``zkdeployment`` may be relative.
    """
    return lambda: getattr(importlib.import_module(module, "zkdeployment"), name)


def function_in(module: str, name: str) -> Callable[..., Any]:
    """Return a function that calls one in a module, which is imported as for ``value_in``."""

    def call(*arguments: Any) -> Any:
        return getattr(importlib.import_module(module, "zkdeployment"), name)(*arguments)

    return call


def installed(kind: type[P]) -> tuple[P, ...]:
    """Return the places of one kind as the installed features fill them, sorted by the names of the features.

    Raises ``ConfigurationError`` if a feature cannot be loaded: a program without this feature would do something
    else, such as publish what has no approval.
    """
    return tuple(places for feature in _features() for places in feature.places if isinstance(places, kind))


@cache
def _features() -> tuple[Feature, ...]:
    return load_features(sys.path)


def load_features(path: Iterable[str]) -> tuple[Feature, ...]:
    """Return the features of the packages that are installed in these directories, sorted by name.

    Raises ``ConfigurationError`` if no feature is installed, two have one name, or one cannot be loaded.
    """
    found: dict[str, tuple[str, str]] = {}
    for package, name, value in _entry_points(path):
        if name in found:
            raise ConfigurationError(
                f"the packages {found[name][0]} and {package} both have a feature {name}; uninstall one of them"
            )
        found[name] = package, value
    if not found:
        raise ConfigurationError(
            f"no features are installed: expected entry points of the group {GROUP} in {', '.join(path)};"
            " install the package zkdeployment again"
        )
    return tuple(_load(name, *found[name]) for name in sorted(found))


def _load(name: str, package: str, value: str) -> Feature:
    module, _, attribute = value.partition(":")
    try:
        feature = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # noqa: BLE001  the module of another package may raise anything
        problem = f"{type(error).__name__}: {error}"
    else:
        if isinstance(feature, Feature) and feature.name == name:
            return feature
        problem = f"expected a Feature with the name {name} in {value}, found {feature!r}"
    raise ConfigurationError(
        f"cannot load the feature {name} of the package {package}: {problem}; repair or uninstall the package"
    )


def _entry_points(path: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the package, the name and the value of each feature; the first of two packages with a name counts."""
    known: set[str] = set()
    for directory in map(Path, path):
        for metadata in sorted(_metadata(directory)):
            package = metadata.stem.partition("-")[0].lower()
            if package not in known:
                known.add(package)
                yield from ((package, *each) for each in _listed(metadata / "entry_points.txt"))


def _metadata(directory: Path) -> list[Path]:
    try:
        return [entry for entry in directory.iterdir() if entry.suffix in {".dist-info", ".egg-info"}]
    except OSError:  # a directory of sys.path need not exist, and may be a file
        return []


def _listed(file: Path) -> Iterator[tuple[str, str]]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:  # most packages have no entry points
        return
    _, _, rest = f"\n{text}".partition(f"\n[{GROUP}]\n")
    for line in rest.partition("\n[")[0].splitlines():
        name, equals, value = (part.strip() for part in line.partition("="))
        if equals:
            yield name, value
