"""The encoding of strategies as JSON, which has the form of their documents (see ``schema``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.documents.forms import form_faults
from zkdeployment.documents.strategies.faults import group_faults
from zkdeployment.documents.strategies.schema import DAYS, SCHEMAS, STRATEGY_SCHEMA
from zkdeployment.model.strategy import (
    ABSENT_AFTER,
    Criteria,
    Group,
    OnFailure,
    Pace,
    ParallelLimit,
    Selector,
    Strategy,
    Window,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def strategy_to_json(strategy: Strategy) -> dict[str, object]:
    """Return a strategy in the form of its document; equal strategies give equal values."""
    data = {
        "groups": [_group_to_json(group) for group in strategy.groups],
        "absent_after": None if strategy.absent_after == ABSENT_AFTER else strategy.absent_after,
        "prepare_timeout": strategy.prepare_timeout,
        "deploy_timeout": strategy.deploy_timeout,
        "on_failure": None if strategy.on_failure is OnFailure.STOP else strategy.on_failure.value,
    }
    return {"schema": STRATEGY_SCHEMA, "metadata": {"name": strategy.name}, "data": _given(data)}


def strategy_from_json(value: object) -> Strategy:
    """Return the strategy that ``strategy_to_json`` encoded; raises ``ValueError`` for an invalid one."""
    document: Any = value
    faults = list(form_faults(document, SCHEMAS[STRATEGY_SCHEMA]))
    for _, message in faults or group_faults(document["data"]["groups"]):
        raise ValueError(f"not a valid strategy: {message}")
    return strategy_from_value(document)


def strategy_from_value(value: Any) -> Strategy:
    """Return the strategy in a document of a valid form."""
    data = value["data"]
    return Strategy(
        value["metadata"]["name"],
        tuple(_group(group) for group in data["groups"]),
        absent_after=_seconds(data.get("absent_after", ABSENT_AFTER)),
        prepare_timeout=_optional_seconds(data.get("prepare_timeout")),
        deploy_timeout=_optional_seconds(data.get("deploy_timeout")),
        on_failure=OnFailure(data.get("on_failure", OnFailure.STOP.value)),
    )


def _group(value: Mapping[str, Any]) -> Group:
    criteria = value.get("success_criteria", {})
    return Group(
        name=value["name"],
        critical=value["critical"],
        depends_on=tuple(dict.fromkeys(value["depends_on"])),
        selectors=tuple(selector_from_value(selector) for selector in value["selectors"]),
        criteria=Criteria(
            percent_successful=_optional_count(criteria.get("percent_successful_nodes")),
            minimum_successful=_optional_count(criteria.get("minimum_successful_nodes")),
            maximum_failed=_optional_count(criteria.get("maximum_failed_nodes")),
        ),
        pace=Pace(
            max_parallel=_share(value.get("max_parallel")),
            bake_time=_seconds(value.get("bake_time", 0)),
            prepare_timeout=_optional_seconds(value.get("prepare_timeout")),
            deploy_timeout=_optional_seconds(value.get("deploy_timeout")),
            progress_deadline=_optional_seconds(value.get("progress_deadline")),
            manual=value.get("manual", False),
            windows=tuple(window_from_json(window) for window in value.get("windows", ())),
            healthy_checks=value.get("healthy_checks", False),
        ),
        require_hosts=_optional_count(value.get("require_hosts")),
    )


def selector_from_value(value: Mapping[str, Any]) -> Selector:
    """Return the selector of hosts in a value of a valid form."""
    return Selector(
        names=frozenset(value.get("node_names", ())),
        tags=frozenset(value.get("node_tags", ())),
        labels=frozenset(_label(label) for label in value.get("node_labels", ())),
        racks=frozenset(value.get("rack_names", ())),
    )


def _label(value: str | Mapping[str, str]) -> tuple[str, str]:
    """Return a label from the text ``key: value``, or from the mapping that YAML reads without quotes."""
    if isinstance(value, str):
        key, _, content = value.partition(":")
        return key.strip(), content.strip()
    ((key, content),) = value.items()
    return key.strip(), content.strip()


def _seconds(value: float | str) -> float:
    return float(value[:-1]) * _UNITS[value[-1]] if isinstance(value, str) else float(value)


def _optional_seconds(value: float | str | None) -> float | None:
    return None if value is None else _seconds(value)


def _optional_count(value: float | None) -> int | None:
    """Return a count, which a document may also give as a float without a fraction (JSON has no integers)."""
    return None if value is None else int(value)


def _share(value: float | str | None) -> ParallelLimit | None:
    if isinstance(value, str):
        return ParallelLimit(int(value.removesuffix("%")), percent=True)
    return None if value is None else ParallelLimit(int(value))


def window_from_json(value: Mapping[str, Any]) -> Window:
    """Return the window that a part of a valid document describes."""
    days = frozenset(DAYS.index(day) for day in value.get("days", DAYS))
    return Window(days, _minutes(value["from"]), _minutes(value["to"]), value.get("zone", "UTC"))


def _minutes(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


# Encoding


def _group_to_json(group: Group) -> dict[str, object]:
    criteria = {
        "percent_successful_nodes": group.criteria.percent_successful,
        "minimum_successful_nodes": group.criteria.minimum_successful,
        "maximum_failed_nodes": group.criteria.maximum_failed,
    }
    pace = group.pace
    values = {
        "name": group.name,
        "critical": group.critical,
        "depends_on": list(group.depends_on),
        "selectors": [_selector_to_json(selector) for selector in group.selectors],
        "success_criteria": _given(criteria) or None,
        "require_hosts": group.require_hosts,
        "max_parallel": None if pace.max_parallel is None else _share_to_json(pace.max_parallel),
        "bake_time": pace.bake_time or None,
        "prepare_timeout": pace.prepare_timeout,
        "deploy_timeout": pace.deploy_timeout,
        "progress_deadline": pace.progress_deadline,
        "manual": pace.manual or None,
        "windows": [_window_to_json(window) for window in pace.windows] or None,
        "healthy_checks": pace.healthy_checks or None,
    }
    return _given(values)


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _selector_to_json(selector: Selector) -> dict[str, object]:
    return {
        "node_names": sorted(selector.names),
        "node_tags": sorted(selector.tags),
        "node_labels": sorted(f"{key}: {value}" for key, value in selector.labels),
        "rack_names": sorted(selector.racks),
    }


def _share_to_json(share: ParallelLimit) -> int | str:
    return f"{share.number}%" if share.percent else share.number


def _window_to_json(window: Window) -> dict[str, object]:
    return {
        "days": [DAYS[day] for day in sorted(window.days)],
        "from": _time(window.start),
        "to": _time(window.end),
        "zone": window.zone,
    }


def _time(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"
