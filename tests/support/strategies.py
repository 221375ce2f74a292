"""Rollout strategies for tests."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from zkdeployment.base.host import Facts
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.reading import read_documents
from zkdeployment.strategies.documents import strategies
from zkdeployment.strategies.strategy import Criteria, Group, Selector, Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_ALL_SUCCEED = {"critical": True, "success_criteria": {"percent_successful_nodes": 100}}

#: A literal copy of the example in the specification of strategies.
EXAMPLE_FILE = Path(__file__).with_name("strategy.yaml")

EXAMPLE_HOSTS = {
    "ntp01": Facts(rack="rack01"),
    "ctl1": Facts(rack="rack03", tags=frozenset({"control"})),
    "ctl2": Facts(rack="rack03", tags=frozenset({"control"})),
    "ctl3": Facts(rack="rack03", tags=frozenset({"control"})),
    "mon1": Facts(rack="rack02", tags=frozenset({"monitoring"})),
    "one1": Facts(rack="rack01", tags=frozenset({"compute"})),
    "one2": Facts(rack="rack01", tags=frozenset({"compute"})),
    "two1": Facts(rack="rack02", tags=frozenset({"compute"})),
}


def example() -> Strategy:
    """Return the example strategy."""
    documents = read_documents([SourceFile("strategy.yaml", EXAMPLE_FILE.read_bytes())])
    assert documents.problems == ()
    return strategies(documents)["deployment-strategy"]


def group(name: str, *parents: str, hosts: str = "", critical: bool = False, **criteria: int) -> Group:
    """Return a group of the hosts whose names are the letters of ``hosts`` (default: all hosts)."""
    selectors = (Selector(names=frozenset(hosts)),) if hosts else ()
    return Group(name, critical, depends_on=parents, selectors=selectors, criteria=Criteria(**criteria))


def strategy(*groups: Group) -> Strategy:
    """Return a strategy of these groups."""
    return Strategy("deployment-strategy", groups)


def plain_hosts(names: Iterable[str]) -> dict[str, Facts]:
    """Return facts of a host for each name, or for each letter of a string."""
    return dict.fromkeys(names, Facts())


def canary_first(
    selector: Mapping[str, Sequence[str]],
    rest: Mapping[str, object] = MappingProxyType({}),
    canary: Mapping[str, object] = MappingProxyType({}),
    *,
    on_failure: str = "stop",
) -> str:
    """Return a document of two groups, whose hosts must all succeed: the selected hosts, then all others.

    ``canary`` and ``rest`` are further or other values of the groups.
    """
    groups = (
        {"name": "canary", "depends_on": [], "selectors": [dict(selector)], **_ALL_SUCCEED, **canary},
        {"name": "rest", "depends_on": ["canary"], "selectors": [], **_ALL_SUCCEED, **rest},
    )
    return f"""\
schema: shipyard/DeploymentStrategy/v1
metadata: {{schema: metadata/Document/v1, name: deployment-strategy}}
data:
  on_failure: {on_failure}
  groups:
    - {json.dumps(groups[0])}
    - {json.dumps(groups[1])}
"""
