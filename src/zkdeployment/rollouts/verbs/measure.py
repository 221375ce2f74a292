"""``zkdeployment rollout measure``: runs the queries of a group once, before anybody relies on them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
from rich.console import Group as Rows
from rich.console import RenderableType

from zkdeployment.base.errors import ConfigurationError, RefusedError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.records import Key, Record
from zkdeployment.base.source_files import SourceFile
from zkdeployment.cli.options import emit, output_option
from zkdeployment.cli.tables import console_for, styled
from zkdeployment.config.settings import SYSTEM_CONFIGURATION, Settings, checked_connection, load
from zkdeployment.documents.reading import read_documents
from zkdeployment.fleet.operator import OperatorAdapters, open_operator
from zkdeployment.rollouts.measuring import VariableReader, chosen_server, metrics_servers, take_reading
from zkdeployment.rollouts.settings import MetricsSettings
from zkdeployment.strategies.analysis import AnalysisMetric, Measurement, Outcome, Reading, measure
from zkdeployment.strategies.documents import strategy_in_force
from zkdeployment.strategies.group_analysis import MetricKey, MetricRequest
from zkdeployment.strategies.queries import QueryVariables, UnresolvedError, resolve
from zkdeployment.strategies.strategy import Group, Strategy, members
from zkdeployment.zookeeper.servers import Servers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.rollouts.prometheus import MetricsServer

_NOT_HEALTHY = 4

_COLOURS = {Outcome.PASSED: "green", Outcome.FAILED: "red", Outcome.NO_DATA: "yellow"}


@dataclass(frozen=True, slots=True)
class RehearsedMetric(Record):
    """One run of the query of a metric; ``query`` has the values of its variables."""

    metric: str
    query: str
    passes: Annotated[str, Key("pass")]
    measurement: Annotated[Measurement, Key(flat=True)]


@click.command(name="measure")
@click.argument("group")
@click.option("--metric", "name", metavar="NAME", help="Only this metric of the group.")
@click.option(
    "--file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A YAML file with the strategy; default: the published strategy.",
)
@click.option("-z", "--zookeeper", metavar="CONNECTION", help="The ZooKeeper servers, as HOST:PORT[,…][/CHROOT].")
@click.option(
    "--config",
    metavar="FILE",
    envvar="ZKDEPLOYMENT_CONFIG",
    type=click.Path(path_type=Path),
    default=str(SYSTEM_CONFIGURATION),
    help="The configuration with the servers of metrics.  [env: ZKDEPLOYMENT_CONFIG]",
)
@output_option
def measure_group(
    *, group: str, name: str | None, file: Path | None, zookeeper: str | None, config: Path, output: str
) -> None:
    """Run the queries of GROUP once, and show each query with its values, the result and whether it passes.

    The queries are those of the published strategy, or of FILE. The hosts of the group are those that its
    selectors match now, and all other hosts are the others. Values before the deployment are the present ones.
    The servers of metrics are those of the configuration. The exit code is 4 if a metric does not pass.

    \b
    Example:
      zkdeployment rollout measure canary
      zkdeployment rollout measure canary --metric errors --file strategy.yaml
    """
    settings = load(config, host=False)
    given = checked_connection(zookeeper, "--zookeeper")
    servers = Servers(given, settings.access) if given else settings.servers
    with open_operator(servers) as operator:
        strategy = operator.fleet.strategy() if file is None else _strategy_in(file)
        chosen = _group(strategy, group)
        metrics = [metric for metric in chosen.pace.analysis if name in {None, metric.name}]
        if not metrics:
            raise RefusedError(_no_metric(chosen, name))
        found = [_rehearse(operator, settings, chosen, metric) for metric in metrics]
    if output == "table":
        console_for(stderr=False).print(Rows(*map(_render, found)), soft_wrap=True)
    else:
        emit([each.to_json() for each in found], output)
    passed = all(each.measurement.outcome is Outcome.PASSED for each in found)
    raise click.exceptions.Exit(0 if passed else _NOT_HEALTHY)


def _no_metric(group: Group, name: str | None) -> str:
    known = ", ".join(metric.name for metric in group.pace.analysis)
    if not known:
        return f"the group {group.name} has no analysis: add metrics to the strategy"
    return f"there is no metric {name} in {group.name}; expected one of: {known}"


def _strategy_in(file: Path) -> Strategy | None:
    try:
        documents = read_documents([SourceFile(str(file), file.read_bytes())])
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from error
    if documents.errors:
        raise ConfigurationError("\n".join(map(str, documents.errors)))
    return strategy_in_force(documents)


def _group(strategy: Strategy | None, name: str) -> Group:
    if strategy is None:
        raise RefusedError("there is no strategy: no strategy is published; publish one, or name one with --file")
    known = {group.name: group for group in strategy.groups}
    if name not in known:
        raise RefusedError(f"there is no group {name} in {strategy.name}; expected one of: {', '.join(known)}")
    return known[name]


def _rehearse(
    operator: OperatorAdapters, settings: Settings, group: Group, metric: AnalysisMetric
) -> RehearsedMetric:
    snapshot = operator.fleet.snapshot()
    hosts = members(group, snapshot.facts)
    key = MetricKey("", group.name, metric.name, None)
    others = frozenset(snapshot.facts) - hosts
    revision = snapshot.published or "none"
    request = MetricRequest(key, metric, group.pace.analysis, 0.0, time.time(), hosts, others, revision)
    servers: Mapping[str, MetricsServer] = metrics_servers(settings.each_of(MetricsSettings))
    name, problem = chosen_server(metric, servers)
    reading, variables = Reading(None, problem), None
    if name:
        reader = VariableReader(operator.session, SystemClock())
        reading, variables, _ = take_reading(servers[name], request, reader.read)
    found = measure(metric, reading, reading.value, at=0.0, time=time.time())
    return RehearsedMetric(metric.name, _resolved(metric, variables), metric.passes.text, found)


def _resolved(metric: AnalysisMetric, variables: QueryVariables | None) -> str:
    try:
        return metric.query if variables is None else resolve(metric.query, variables)
    except UnresolvedError:
        return metric.query


def _render(found: RehearsedMetric) -> RenderableType:
    measurement = found.measurement
    value = "-" if measurement.value is None else f"{measurement.value:.6g}"
    others = "" if measurement.others is None else f", others {measurement.others:.6g}"
    reason = measurement.problem or f"{value} ({found.passes}{others})"
    line = f"{found.metric}: {measurement.outcome.value}: {reason}"
    outcome = styled(line, _COLOURS[measurement.outcome])
    return Rows(outcome, styled(f"  {found.query}"))
