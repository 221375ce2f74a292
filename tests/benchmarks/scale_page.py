"""The tables of the manual's page on scale, as rows of cells, from the stored results."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from benchmarks.results import Result, figure, quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Results by work and size.
Found: TypeAlias = "Mapping[tuple[str, str], Result]"

Rows: TypeAlias = "list[tuple[str, ...]]"

_WATCHES = "watches of sessions"

#: What both tables about raw sessions have: the text of a row and the measured work.
_SESSIONS = (
    ("sessions held, each with a watch", _WATCHES),
    ("memory of a server without sessions", "server's memory without sessions"),
    ("more memory of a server with these sessions", "server's memory for sessions"),
    ("bytes of a fired watch, with the next read", "bytes of a fired and renewed watch"),
)

_PUBLICATIONS = (
    ("full import of the tree, by the syncer", "bytes of a full import"),
    ("publication that changes one property", "bytes of a publication, one property"),
    ("what a host reads to know its plan", "bytes that a host reads"),
)

_AGENTS = (
    ("sessions", "sessions of a fleet"),
    ("watches", "watches of a fleet"),
    ("publication that concerns none of the hosts, each", "publication that concerns no host, a host"),
    ("deployment of a new version on each host, each", "deployment of a new version, a host"),
)

#: The fleets of the arithmetic: their number, the hosts of each, the instances of a host, and the observers.
_FLEETS, _HOSTS, _INSTANCES, _OBSERVERS = 100, 10_000, 3, 6


def tables(results: Mapping[str, Sequence[Result]]) -> dict[str, Rows]:
    """Return the tables by name, with the headings as the first row; none before both benchmarks have results."""
    if not results.keys() >= {"scale", "promotion"}:
        return {}
    found = {(result.work, result.size): result for result in results["scale"]}
    one, three = "sessions", "sessions, three servers"
    sizes = _sizes(found, one)
    return {
        "one server": [
            ("one server, 256 MB of heap", *(f"{size} hosts" for size in sizes)),
            *_rows(found, _SESSIONS, [f"{size} {one}" for size in sizes]),
            *_rows(found, _PUBLICATIONS, [f"{size} hosts" for size in sizes]),
        ],
        "three servers": [
            ("three servers, 256 MB of heap each", *(f"{size} sessions" for size in _sizes(found, three))),
            *_rows(found, _SESSIONS, [f"{size} {three}" for size in _sizes(found, three)]),
        ],
        "real agents": _agents(found),
        "observers": [
            ("ensemble", "a write, against three voters"),
            *(
                (size, f"{figure(write.ratio)} times")
                for (work, size), write in found.items()
                if work == "a write" and write.ratio
            ),
        ],
        "a million hosts": _million(found, {result.work: result for result in results["promotion"]}),
    }


def _sizes(found: Found, of: str) -> list[str]:
    """Return the numbers of sessions that were measured, such as ``10,000``."""
    split = (size.split(" ", 1) for work, size in found if work == _WATCHES)
    return [number for number, kind in split if kind == of]


def _rows(found: Found, named: Sequence[tuple[str, str]], sizes: Sequence[str]) -> Rows:
    return [(text, *(_cell(found[work, size]) for size in sizes)) for text, work in named]


def _cell(result: Result) -> str:
    return quantity(result.value, result.unit).strip()


def _agents(found: Found) -> Rows:
    (size,) = {size for work, size in found if work == _AGENTS[0][1]}
    return [(f"a fleet of {size}", "both directions"), *_rows(found, _AGENTS, [size])]


def _million(found: Found, promotion: Mapping[str, Result]) -> Rows:
    """Return the arithmetic for many fleets with as many hosts as were measured with one server."""

    def of_each(work: str, unit: str) -> float:
        return found[work, f"{_HOSTS:,} {unit}"].value

    sessions = _HOSTS * (1 + _INSTANCES)
    memory = of_each("server's memory for sessions", "sessions") / _HOSTS  # MB
    publication = of_each("bytes of a publication, one property", "hosts")  # kB
    watch, read = (
        of_each("bytes of a fired and renewed watch", "sessions"),
        of_each("bytes that a host reads", "hosts"),
    )
    fired = _HOSTS * (watch / 1000 + read)  # kB
    (exchanged,) = (result for (work, _), result in found.items() if work == _AGENTS[2][1])
    all_traffic = _HOSTS * exchanged.value  # kB
    decision, node = promotion["slowest decision of a promotion"], promotion["largest node of a promotion"]
    stream = _cell(promotion["memory of an event stream of the promoter"])
    return [
        ("what", "in each fleet", f"in all {_FLEETS} fleets"),
        ("sessions of agents", f"{_HOSTS:,}", f"{_FLEETS * _HOSTS:,}, in {_FLEETS} ensembles"),
        (
            f"sessions of instances, {_INSTANCES} a host",
            f"{_INSTANCES * _HOSTS:,}",
            f"{_FLEETS * _INSTANCES * _HOSTS:,}",
        ),
        (
            "voters; observers",
            f"3; {_OBSERVERS}, with {sessions / _OBSERVERS:,.0f} sessions each",
            f"{3 * _FLEETS}; {_OBSERVERS * _FLEETS}",
        ),
        (
            f"memory of sessions, {quantity(1000 * memory, 'kB')} each",
            f"{quantity(memory * sessions / _OBSERVERS, 'MB')} in each observer",
            quantity(_FLEETS * memory * sessions / 1000, "GB"),
        ),
        ("publication, one property", quantity(publication, "kB"), quantity(_FLEETS * publication / 1000, "MB")),
        (
            "fired watches and reads",
            f"{_HOSTS:,} x ({quantity(watch, 'B')} + {quantity(read, 'kB')}) = {quantity(fired / 1000, 'MB')}",
            f"{quantity(_FLEETS * fired / 1e6, 'GB')}, spread over the hours of a promotion",
        ),
        (
            "all traffic of a publication",
            f"{_HOSTS:,} x {quantity(exchanged.value, 'kB')} = {quantity(all_traffic / 1000, 'MB')}",
            quantity(_FLEETS * all_traffic / 1e6, "GB"),
        ),
        (
            "requests of the promoter",
            "one in ten seconds, and after events",
            f"{_FLEETS // 10} in a second, most of them answered with 304",
        ),
        ("event streams of the promoter", "one", f"{_FLEETS}, in one thread, with {stream} each"),
        ("git pushes of the promoter", "one branch", "one push for each group: 4 with four groups"),
        ("decision of the promoter", "none", f"{_cell(decision)} of processor time, the slowest measured"),
        ("largest node of a promotion", "none", f"{_cell(node)} in the home ensemble"),
    ]
