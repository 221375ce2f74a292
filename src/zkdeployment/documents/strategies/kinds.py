"""The kinds of documents about rollouts: strategies, and the configuration that chooses one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.documents.kinds import DocumentKind
from zkdeployment.documents.strategies.choice import choice, choice_faults
from zkdeployment.documents.strategies.encoding import strategy_from_value
from zkdeployment.documents.strategies.faults import group_advice, group_faults
from zkdeployment.documents.strategies.schema import CONFIGURATION_SCHEMA, SCHEMAS, STRATEGY_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.documents.forms import Fault
    from zkdeployment.model.strategy import Strategy


def _group_faults(value: Any) -> Iterator[Fault]:
    return group_faults(value["data"]["groups"])


def _group_advice(value: Any) -> Iterator[Fault]:
    return group_advice(strategy_from_value(value).groups)


def _chosen_name(value: Any) -> str | None:
    return choice(value)[1]


STRATEGY: DocumentKind[Strategy] = DocumentKind(
    name="strategy",
    schema=STRATEGY_SCHEMA,
    form=SCHEMAS[STRATEGY_SCHEMA],
    parse=strategy_from_value,
    subject=lambda value: (value["metadata"]["name"],),
    faults=_group_faults,
    advice=_group_advice,
)

#: The value is the name of the strategy that the configuration chooses, ``None`` if it chooses none.
CONFIGURATION: DocumentKind[str | None] = DocumentKind(
    name="configuration",
    schema=CONFIGURATION_SCHEMA,
    form=SCHEMAS[CONFIGURATION_SCHEMA],
    parse=_chosen_name,
    subject=lambda _: (),
    place=(),
    faults=choice_faults,
    typed=False,
)
