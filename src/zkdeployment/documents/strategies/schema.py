"""The forms of strategy documents and configurations, as JSON schemas; ``forms`` checks against them.

Their source is the document "Deployment Grouping for Baremetal Nodes" of Airship's Shipyard. The keys of a group's
pace (``max_parallel``, ``bake_time`` and so on) are additions of this project.
"""

from __future__ import annotations

from typing import Any

from zkdeployment.documents.forms import NAME, mapping_form

STRATEGY_SCHEMA = "shipyard/DeploymentStrategy/v1"
CONFIGURATION_SCHEMA = "shipyard/DeploymentConfiguration/v1"

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_NAMES = {"type": "array", "items": NAME}
_COUNT = {"type": "integer", "minimum": 0}
_DURATION = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": 99_999 * 86_400},
        {"type": "string", "pattern": r"^([0-9]{1,9}s|[0-9]{1,8}m|[0-9]{1,6}h|[0-9]{1,5}d)$"},
    ],
    "description": "seconds, or a number with s, m, h or d as in 15m, of at most 99999d",
}
_TIME = {
    "type": "string",
    "pattern": r"^([01][0-9]|2[0-3]):[0-5][0-9]$",
    "description": "a time of day as in 22:30",
}

_LABEL_PART = r"^[^:]*[^:\s][^:]*$"
_LABEL = {
    "anyOf": [
        {"type": "string", "pattern": r"^[^:]*[^:\s][^:]*:[^:]*[^:\s][^:]*$"},
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "propertyNames": {"pattern": _LABEL_PART},
            "additionalProperties": {"type": "string", "pattern": _LABEL_PART},
        },
    ],
    "description": "a label as in 'tier: web', with one colon",
}

#: The form of a selector of hosts, also in other documents.
SELECTOR = mapping_form(
    {},
    {
        "node_names": _NAMES,
        "node_tags": _NAMES,
        "node_labels": {"type": "array", "items": _LABEL},
        "rack_names": _NAMES,
    },
) | {"minProperties": 1}

_CRITERIA = mapping_form(
    {},
    {
        "percent_successful_nodes": {"type": "integer", "minimum": 0, "maximum": 100},
        "minimum_successful_nodes": _COUNT,
        "maximum_failed_nodes": _COUNT,
    },
) | {"minProperties": 1}

WINDOW = mapping_form(
    {"from": _TIME, "to": _TIME},
    {"days": {"type": "array", "minItems": 1, "items": {"enum": list(DAYS)}}, "zone": NAME},
)

_GROUP = mapping_form(
    {
        "name": NAME,
        "critical": {"type": "boolean"},
        "depends_on": _NAMES,
        "selectors": {"type": "array", "items": SELECTOR},
    },
    {
        "success_criteria": _CRITERIA,
        "max_parallel": {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": r"^([1-9][0-9]?|100)%$"},
            ],
            "description": "a number of hosts, or a share as in '25%'",
        },
        "bake_time": _DURATION,
        "prepare_timeout": _DURATION,
        "deploy_timeout": _DURATION,
        "progress_deadline": _DURATION,
        "require_hosts": {"type": "integer", "minimum": 1},
        "manual": {"type": "boolean"},
        "healthy_checks": {"type": "boolean"},
        "windows": {"type": "array", "minItems": 1, "items": WINDOW},
    },
)

_METADATA = {"type": "object", "required": ["name"], "properties": {"name": NAME}}

#: The form of each document, by the value of its key ``schema``.
SCHEMAS: dict[str, dict[str, Any]] = {
    STRATEGY_SCHEMA: mapping_form(
        {
            "metadata": _METADATA,
            "data": mapping_form(
                {"groups": {"type": "array", "items": _GROUP}},
                {
                    "absent_after": _DURATION,
                    "prepare_timeout": _DURATION,
                    "deploy_timeout": _DURATION,
                    "on_failure": {"enum": ["stop", "rollback"], "description": "stop or rollback"},
                },
            ),
        },
        {"schema": {}},
    ),
    # Shipyard's configuration has many more keys, which are not checked.
    CONFIGURATION_SCHEMA: {
        "type": "object",
        "required": ["data"],
        "properties": {
            "data": {
                "type": "object",
                "properties": {
                    "deployment_strategy": NAME,
                    "physical_provisioner": {"type": "object", "properties": {"deployment_strategy": NAME}},
                },
            },
        },
    },
}
