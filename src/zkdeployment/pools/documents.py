"""The document of host pools: its form, pools that extend others, and the pools in force as values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from zkdeployment.base.durations import DURATION_PATTERN, given_seconds
from zkdeployment.base.errors import TreeError
from zkdeployment.base.names import NameKind
from zkdeployment.base.values import dataclass
from zkdeployment.documents.forms import NAME, Fault, form_faults, mapping_form, name_form
from zkdeployment.documents.kinds import DocumentKind
from zkdeployment.service.users.user import TenantLimits
from zkdeployment.strategies.documents import WINDOW, window_faults, window_from_json

if TYPE_CHECKING:
    from zkdeployment.documents.collection import PublishedDocuments
    from zkdeployment.strategies.strategy import Window


@dataclass(frozen=True, slots=True)
class Playbook:
    """A playbook of Ansible with its variables, whose texts are templates over the values of the pool."""

    playbook: str
    extra_vars: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnsibleMechanism:
    """Nodes are made by one playbook below ``topdir`` and removed by another, if there is one."""

    topdir: str
    provision: Playbook
    deprovision: Playbook | None = None


@dataclass(frozen=True, slots=True)
class RoleMechanism:
    """Nodes are hosts of this fleet: they have the role ``idle``, and ``leased`` while they are in the pool.

    The playbook ``reset.provision`` installs a host again after a session, or restores a snapshot of it.
    """

    idle: str
    leased: str
    reset: AnsibleMechanism | None = None


@dataclass(frozen=True, slots=True)
class ScheduledLevel:
    """The level of a pool while a window is open."""

    window: Window
    level: int


Mechanism: TypeAlias = "AnsibleMechanism | RoleMechanism"


@dataclass(frozen=True, slots=True)
class NodePool:
    """A pool of equivalent nodes.

    ``fill_level`` is the number of nodes that the pool keeps ready; a pool without a level lends no nodes.
    ``reuse`` are the values that unused nodes must have to be provisioned into this pool; without it, nodes are
    made anew. ``node_quota`` is the number of nodes of this pool that a tenant may have (``None``: only the quota
    for all pools counts). ``schedule`` are other levels at certain times; the first one whose window is open
    counts. ``run_parallel`` is whether each node has a run of the playbook of its own. ``values`` are all keys of
    the merged document, for templates.
    """

    name: str
    mechanism: Mechanism
    fill_level: int | None = None
    reuse: Mapping[str, int | str] | None = None
    run_parallel: bool = True
    values: Mapping[str, Any] = field(default_factory=dict)
    schedule: tuple[ScheduledLevel, ...] = ()
    node_quota: int | None = None

    @property
    def lends(self) -> bool:
        """Whether the pool lends nodes."""
        return self.fill_level is not None

    @property
    def kept(self) -> int:
        """The number of nodes that the pool keeps ready."""
        return self.fill_level or 0

    @property
    def most_kept(self) -> int:
        """The largest number of nodes that the pool keeps ready at any time; ``kept`` is that at one time."""
        usual = self.values.get("fill-level") or 0
        return max((self.kept, usual, *(entry.level for entry in self.schedule)))


@dataclass(frozen=True, slots=True)
class PoolConfiguration:
    """The pools by their names, and the limits of tenants without limits of their own."""

    pools: Mapping[str, NodePool] = field(default_factory=dict)
    defaults: TenantLimits = TenantLimits()


#: The values of a pool in their written form.
PoolValues: TypeAlias = "Mapping[str, Any]"


#: The keys of a pool whose value may be null.
_NULLABLE = frozenset({"extends", "mechanism", "fill-level", "levels", "reuse-nodes", "run-parallel"})


class ExtensionError(Exception):
    """A pool extends itself, or a pool that does not exist."""


def extended_names(values: PoolValues) -> tuple[str, ...]:
    """Return the names of the pools that a pool extends, in the order in which they are merged."""
    extends = values.get("extends") or ()
    return (extends,) if isinstance(extends, str) else tuple(extends)


def merged_pool(name: str, pools: Mapping[str, PoolValues]) -> dict[str, Any]:
    """Return the values of a pool, merged with the pools that it extends; raises ``ExtensionError``.

    A known key with the value null counts as missing, and also removes the inherited value.
    """
    merged = _merged(name, pools, (), {})
    values = {key: value for key, value in merged.items() if value is not None or key not in _NULLABLE}
    if isinstance(values.get("mechanism"), Mapping):
        values["mechanism"] = _without_nulls(values["mechanism"])
    return values


def _without_nulls(mechanism: PoolValues) -> dict[str, Any]:
    """Return a mechanism, or a part of it, without keys whose value is null; variables may be null."""
    kept = ((key, value) for key, value in mechanism.items() if value is not None)
    return {
        key: _without_nulls(value) if isinstance(value, Mapping) and key != "extra-vars" else value
        for key, value in kept
    }


def _merged(
    name: str, pools: Mapping[str, PoolValues], below: tuple[str, ...], done: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return the values of a pool; ``done`` are those of the pools that were merged before."""
    if name in done:
        return done[name]
    if name in below:
        raise ExtensionError(f"the pool extends itself: {' -> '.join((*below, name))}")
    own = pools[name]
    merged: dict[str, Any] = {}
    for other in extended_names(own):
        if other not in pools:
            known = ", ".join(sorted(pools.keys() - {name})) or "none"
            raise ExtensionError(f"there is no pool {other!r}; the others are: {known}")
        merged = _deep_merge(merged, _merged(other, pools, (*below, name), done))
    done[name] = _deep_merge(merged, {key: value for key, value in own.items() if key != "extends"})
    return done[name]


def _deep_merge(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Return the union of two mappings; of two values that are not both mappings, the upper one counts."""
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = _deep_merge(below, value)
        else:
            merged[key] = value
    return merged


SCHEMA = "zkdeployment/Pools/v1"

#: The largest level of a pool, and the largest quota.
MOST_COUNTED = 100_000

#: The levels of mappings and lists in the values that only templates and playbooks read.
_DEEPEST_VALUE = 6


def _any_value(depth: int = _DEEPEST_VALUE) -> dict[str, Any]:
    """Return the form of any value: numbers, booleans and null are read as YAML reads them."""
    scalar: dict[str, Any] = {"type": ["null", "boolean", "integer", "number", "string"]}
    if depth == 0:
        return scalar
    below = _any_value(depth - 1)
    return {
        "anyOf": [
            scalar,
            {"type": "object", "additionalProperties": below},
            {"type": "array", "items": below},
        ],
        "description": "a value",
    }


_DURATION = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "string", "pattern": f"{DURATION_PATTERN}|^[0-9]{{0,8}}[1-9][0-9]{{0,8}}$"},
    ],
    "description": "seconds, or a duration as in 6h or 1h30m",
}
_COUNT = {
    "type": "integer",
    "minimum": 1,
    "maximum": MOST_COUNTED,
    "description": f"a whole number above 0, at most {MOST_COUNTED}",
}
_VALUES = {"type": "object", "additionalProperties": _any_value(), "description": "a mapping of names to values"}


def _or_null(form: dict[str, Any]) -> dict[str, Any]:
    """Return a form that also permits null: a key whose value is null counts as missing, as in Duffy."""
    if "nameKind" in form:
        return {"anyOf": [form, {"type": "null"}], "description": form["description"]}
    choices = {"enum": [*form["enum"], None]} if "enum" in form else {}
    return {**form, **choices, "type": [form.get("type", "string"), "null"]}


_PLAYBOOK = mapping_form(
    {}, {"playbook": NAME | {"description": "the file of a playbook"}, "extra-vars": _or_null(_VALUES)}
) | {"description": "a mapping with playbook and extra-vars"}

_ANSIBLE = mapping_form(
    {},
    {
        "topdir": _or_null(NAME | {"description": "a directory"}),
        "extra-vars": _or_null(_VALUES),
        "provision": _or_null(_PLAYBOOK),
        "deprovision": _or_null(_PLAYBOOK),
    },
) | {"description": "a mapping with topdir, provision, deprovision and extra-vars"}

_ROLE_NAME = name_form(NameKind.ROLE)

_RESET = mapping_form(
    {},
    {
        "topdir": NAME | {"description": "a directory"},
        "playbook": NAME | {"description": "the file of a playbook"},
        "extra-vars": _or_null(_VALUES),
    },
) | {"description": "a mapping with topdir, playbook and extra-vars"}

_ROLE = mapping_form({}, {"idle": _ROLE_NAME, "leased": _ROLE_NAME, "reset": _or_null(_RESET)}) | {
    "description": "a mapping with the roles idle and leased, and reset"
}

_MECHANISM = mapping_form(
    {},
    {
        "type": _or_null({"enum": ["ansible", "role"], "description": "one of: ansible, role"}),
        "ansible": _or_null(_ANSIBLE),
        "role": _or_null(_ROLE),
    },
) | {"description": "a mapping with type, and ansible or role"}

_LEVELS = {
    "type": "array",
    "items": {
        **WINDOW,
        "required": [*WINDOW["required"], "level"],
        "properties": {
            **WINDOW["properties"],
            "level": _COUNT | {"minimum": 0, "description": f"a whole number from 0 to {MOST_COUNTED}"},
        },
    },
    "description": "a list of mappings with from, to, days, zone and level",
}

_POOL = {
    "type": "object",
    "additionalProperties": _any_value(),
    "description": "a mapping with extends, mechanism, fill-level, levels, node-quota, reuse-nodes and"
    " run-parallel",
    "properties": {
        "extends": {
            "anyOf": [NAME, {"type": "array", "items": NAME}, {"type": "null"}],
            "description": "the name of a pool, or a list of names",
        },
        "mechanism": _or_null(_MECHANISM),
        "fill-level": _or_null(_COUNT),
        "levels": _or_null(_LEVELS),
        "node-quota": _or_null(_COUNT),
        "reuse-nodes": {
            "anyOf": [
                {"const": False, "type": "boolean"},
                {"type": "object", "additionalProperties": {"type": ["integer", "string"]}},
                {"type": "null"},
            ],
            "description": "false, or a mapping of names to text or whole numbers",
        },
        "run-parallel": _or_null({"type": "boolean", "description": "true or false"}),
    },
}

_POOLS = {
    "type": "object",
    "additionalProperties": _POOL,
    "propertyNames": name_form(NameKind.POOL),
    "description": "a mapping of names to pools",
}

#: ``retries`` is a key of Duffy that has no effect in this program.
_DEFAULTS = mapping_form(
    {},
    {
        "session-lifetime": _DURATION,
        "session-lifetime-max": _DURATION,
        "node-quota": _COUNT,
        "retries": _or_null(_VALUES),
    },
)

FORM = mapping_form(
    {
        "metadata": mapping_form(
            {"name": {"const": "pools", "description": "pools: there is one such document"}}, {}
        ),
        "data": mapping_form(
            {"nodepools": mapping_form({"concrete": _POOLS}, {"abstract": _or_null(_POOLS)})},
            {"defaults": _or_null(_DEFAULTS)},
        ),
    },
    {"schema": {}},
)

#: The required keys of a merged pool, by the type of its mechanism.
_COMPLETE_MECHANISMS: Mapping[str, dict[str, Any]] = {
    "ansible": {
        "type": "object",
        "required": ["ansible"],
        "properties": {
            "ansible": {
                "type": "object",
                "required": ["topdir", "provision"],
                "properties": {
                    "provision": {"type": "object", "required": ["playbook"]},
                    "deprovision": {"type": "object", "required": ["playbook"]},
                },
            }
        },
    },
    "role": {
        "type": "object",
        "required": ["role"],
        "properties": {
            "role": {
                "type": "object",
                "required": ["idle", "leased"],
                "properties": {"reset": {"type": "object", "required": ["topdir", "playbook"]}},
            }
        },
    },
}


def _all_pools(value: Any) -> dict[str, Mapping[str, Any]]:
    pools = value["data"]["nodepools"]
    return {**(pools.get("abstract") or {}), **pools["concrete"]}


def _faults(value: Any) -> Iterator[Fault]:
    """Return the faults that pools have only after they are merged with the pools that they extend."""
    nodepools = value["data"]["nodepools"]
    for name in nodepools["concrete"].keys() & (nodepools.get("abstract") or {}).keys():
        yield (
            ("data", "nodepools", "concrete", name),
            f"there is an abstract pool {name!r}, too; rename one of them",
        )
    pools = _all_pools(value)
    for name in nodepools["concrete"]:
        way = ("data", "nodepools", "concrete", name)
        try:
            merged = merged_pool(name, pools)
        except ExtensionError as error:
            yield (*way, "extends"), str(error)
            continue
        for message in _merged_faults(merged):
            yield way, message
    defaults = value["data"].get("defaults") or {}
    for key in ("session-lifetime", "session-lifetime-max"):
        if key in defaults and given_seconds(defaults[key]) is None:
            yield ("data", "defaults", key), f"expected at most 100 years, found {defaults[key]}"
    limits = _limits(defaults)
    if limits.session_lifetime > limits.session_lifetime_max:
        yield ("data", "defaults"), "session-lifetime is longer than session-lifetime-max; expected at most that"


def _merged_faults(pool: Mapping[str, Any]) -> Iterator[str]:
    """Return the missing keys of a merged pool, and its values with invalid forms."""
    for way, message in form_faults(pool, _POOL):
        yield f"with what it extends, {'.'.join(map(str, way)) or 'the pool'} is wrong: {message}"
    mechanism = pool.get("mechanism")
    kind = str(mechanism.get("type")) if isinstance(mechanism, dict) else ""
    if kind not in _COMPLETE_MECHANISMS:
        yield "expected mechanism with the type ansible or role, here or in a pool that it extends"
        return
    for way, message in form_faults(mechanism, _COMPLETE_MECHANISMS[kind]):
        yield f"the mechanism {kind} is incomplete at {'.'.join(('mechanism', *map(str, way)))}: {message}"
    for position, window in enumerate(pool.get("levels") or ()):
        for way, message in window_faults(("levels", position), window):
            yield f"{'.'.join(map(str, way))} is wrong: {message}"
    if pool.get("levels") and pool.get("fill-level") is None:
        yield "levels without fill-level, the level at all other times; add it"
    if kind == "role" and pool.get("reuse-nodes"):
        yield "reuse-nodes has no meaning for the mechanism role, whose hosts are always reused; leave it out"


def _parse(value: Any) -> PoolConfiguration:
    pools, names = _all_pools(value), value["data"]["nodepools"]["concrete"]
    return PoolConfiguration(
        {name: described_pool(name, merged_pool(name, pools)) for name in names},
        _limits(value["data"].get("defaults") or {}),
    )


def described_pool(name: str, values: Mapping[str, Any]) -> NodePool:
    """Return the pool that merged values of a valid document describe."""
    return NodePool(
        name=name,
        mechanism=_mechanism(values["mechanism"]),
        fill_level=values.get("fill-level"),
        node_quota=values.get("node-quota"),
        reuse=values.get("reuse-nodes") or None,
        run_parallel=values.get("run-parallel", True),
        values={**values, "name": name},
        schedule=tuple(
            ScheduledLevel(window_from_json(window), window["level"]) for window in values.get("levels", ())
        ),
    )


def _mechanism(value: Mapping[str, Any]) -> Mechanism:
    if value["type"] == "role":
        return RoleMechanism(value["role"]["idle"], value["role"]["leased"], _reset(value["role"].get("reset")))
    ansible = value["ansible"]
    common = ansible.get("extra-vars", {})

    def playbook(part: Mapping[str, Any]) -> Playbook:
        return Playbook(part["playbook"], {**common, **part.get("extra-vars", {})})

    removal = ansible.get("deprovision")
    return AnsibleMechanism(
        ansible["topdir"], playbook(ansible["provision"]), None if removal is None else playbook(removal)
    )


def _reset(value: Mapping[str, Any] | None) -> AnsibleMechanism | None:
    if value is None:
        return None
    return AnsibleMechanism(value["topdir"], Playbook(value["playbook"], value.get("extra-vars", {})))


def _limits(defaults: Mapping[str, Any]) -> TenantLimits:
    standard = TenantLimits()

    def seconds(key: str, default: float) -> float:
        return given_seconds(defaults.get(key, default)) or math.inf

    return TenantLimits(
        node_quota=defaults.get("node-quota", standard.node_quota),
        session_lifetime=seconds("session-lifetime", standard.session_lifetime),
        session_lifetime_max=seconds("session-lifetime-max", standard.session_lifetime_max),
    )


POOLS: DocumentKind[PoolConfiguration] = DocumentKind(
    name="pools",
    schema=SCHEMA,
    form=FORM,
    parse=_parse,
    subject=lambda _: (),
    faults=_faults,
)


def pools_in_force(documents: PublishedDocuments) -> PoolConfiguration:
    """Return the pools and limits of the published document; without one, no pools and the default limits.

    Raises ``TreeError`` for a document that this version cannot read, because such a document may have pools.
    """
    found = documents.of(POOLS).get(())
    if found is None and (POOLS.name, ()) in documents.contents:
        raise TreeError(
            "the published document of pools has a form that this version does not know; expected"
            f" {POOLS.schema} as 'zkdeployment lint' accepts it: upgrade this host, or correct the document"
        )
    return PoolConfiguration() if found is None else found


DOCUMENT_KINDS = (POOLS,)
