"""``zkdeployment rollout``: a rollout, directives to it, its simulation, and a trial of its queries."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
from rich import box
from rich.console import Group as Rows
from rich.console import RenderableType
from rich.table import Table

from zkdeployment.base.errors import ConfigurationError, RefusedError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.records import Key, Record
from zkdeployment.base.source_files import SourceFile
from zkdeployment.base.values import dataclass
from zkdeployment.cli.act_verbs import directive_verb
from zkdeployment.cli.options import emit, output_option, zookeeper_options
from zkdeployment.cli.places import LazyVerb
from zkdeployment.cli.rollout_display import show_rollout
from zkdeployment.cli.tables import console_for, styled
from zkdeployment.cli.terminal import echo
from zkdeployment.cli.verb_group import LazyVerbGroup
from zkdeployment.config.settings import SYSTEM_CONFIGURATION, Settings, checked_connection, chosen_settings
from zkdeployment.documents.reading import read_document, read_documents, read_facts
from zkdeployment.fleet.operator import OperatorAdapters, open_operator
from zkdeployment.rollouts.acts import (
    AbortRollout,
    FailGroup,
    PauseRollout,
    PromoteGroup,
    ResumeRollout,
)
from zkdeployment.rollouts.measuring import (
    MetricsServer,
    VariableReader,
    chosen_server,
    metrics_servers,
    take_reading,
)
from zkdeployment.rollouts.settings import MetricsSettings
from zkdeployment.strategies.analysis import (
    AnalysisMetric,
    Measurement,
    Outcome,
    Reading,
    measure,
    number_text,
    verdict,
)
from zkdeployment.strategies.documents import strategies, strategy_in_force
from zkdeployment.strategies.group_analysis import MetricKey, MetricRequest
from zkdeployment.strategies.order import (
    MEASURES,
    Faults,
    Measures,
    Simulation,
    group_reason,
    phase_result,
    read_measures,
    simulate,
    summarize,
)
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.queries import QueryVariables, UnresolvedError, resolve
from zkdeployment.strategies.state_machine import HostProgress
from zkdeployment.strategies.strategy import Group, Strategy, members, unmatched_selectors
from zkdeployment.strategies.views import (
    RolloutStatus,
    rollout_status,
)
from zkdeployment.zookeeper.servers import Servers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.base.host import Facts
    from zkdeployment.documents.collection import Documents
    from zkdeployment.strategies.state import RolloutState

_VERBS = {
    "abort": LazyVerb(".rollouts.verbs", "End the rollout as failed, which stops the fleet.", "abort"),
    "fail": LazyVerb(".rollouts.verbs", "Fail a group whose metrics wait for data.", "fail"),
    "measure": LazyVerb(".rollouts.verbs", "Run the queries of a group once.", "measure_group"),
    "pause": LazyVerb(".rollouts.verbs", "Start no further hosts in the rollout.", "pause"),
    "promote": LazyVerb(".rollouts.verbs", "Let a group begin that waits to be promoted.", "promote"),
    "resume": LazyVerb(".rollouts.verbs", "Continue a paused rollout.", "resume"),
    "show": LazyVerb(".rollouts.verbs", "Show the groups and hosts of a rollout.", "show"),
    "simulate": LazyVerb(
        ".rollouts.verbs",
        "Show the order and the outcome of a rollout, without a fleet.",
        "simulate_rollout",
    ),
}


@click.group(name="rollout", cls=LazyVerbGroup, verbs=_VERBS)
def command() -> None:
    """Simulate, watch and direct rollouts: deployments by groups of hosts in the order of a strategy.

    \b
    Example:
      zkdeployment rollout simulate strategy.yaml --hosts hosts.yaml
      zkdeployment rollout show --watch
      zkdeployment rollout promote compute-nodes --reason 'the canaries look good'
    """


@click.command(name="show")
@click.argument("rollout_id", metavar="[ID]", required=False)
@click.option("--watch", is_flag=True, help="Show the rollout live until it is over, or until Ctrl-C.")
@output_option
@zookeeper_options
def show(connection: Servers, rollout_id: str | None, watch: bool, output: str) -> None:
    """Show a rollout: its groups in order, what each group does or waits for, and the failed hosts.

    Without ID, show the rollout of the published revision. The exit code is 0 if the rollout is over and all
    groups and hosts succeeded, 4 if it is under way or had failures, 3 if there is no rollout. With --watch, the
    display is live until the rollout is over; without a terminal, a line is printed for each change.

    \b
    Example:
      zkdeployment rollout show
      zkdeployment rollout show --watch
      zkdeployment rollout show 1763731234-1 -o json
    """
    with open_operator(connection) as operator:
        names: dict[str, str] = {}

        def look() -> RolloutStatus:
            snapshot = operator.fleet.snapshot()
            identities = [host.identity for host in snapshot.hosts] + [host.identity for host in snapshot.absent]
            names.update({identity.id: identity.name for identity in identities})
            led = snapshot.coordinator is not None
            if rollout_id is None and snapshot.rollout is not None:
                return rollout_status(
                    snapshot.rollout, led=led, now=time.time(), governed=snapshot.governed, known=snapshot.facts
                )
            state = operator.rollouts.rollout(rollout_id)  # without an id: raises if the rollout cannot be read
            if state is None or rollout_id is None:
                raise RefusedError(_missing(snapshot.strategy, rollout_id, snapshot.coordinator))
            return rollout_status(state, led=led, now=time.time())

        show_rollout(look, output, RolloutStatus.to_json, watch=watch, names=names)


def _missing(strategy: str | None, rollout_id: str | None, coordinator: str | None) -> str:
    if rollout_id is not None:
        return (
            f"there is no rollout {rollout_id}; 'zkdeployment history show REV' lists the rollouts of a revision"
        )
    if strategy is None:
        return "there is no rollout: no strategy is published, so all hosts deploy a revision at once"
    if coordinator is None:
        return f"the rollout by {strategy} has not begun: no coordinator runs; start zkdeployment-coordinator"
    return f"the rollout by {strategy} has not begun yet; {coordinator} is the coordinator"


def _present(operator: OperatorAdapters) -> RolloutState | None:
    return operator.rollouts.rollout()


@directive_verb(PromoteGroup, _present)
def promote() -> None:
    """Let GROUP begin that waits to be promoted, or pass without metrics.

    Only a group with 'manual: true' in the strategy waits to be promoted, or a group whose required hosts are not
    registered: that group begins without these hosts. A group whose metrics have no data waits as well: it passes.
    A group does not wait yet while the groups before it are under way: its promotion is refused until they end.

    The exit code is 3 if there is no such group, if it does not wait to be promoted, or if the rollout is over.

    \b
    Example:
      zkdeployment rollout promote compute-nodes --reason 'the canaries look good'
    """


@directive_verb(FailGroup, _present)
def fail() -> None:
    """Fail GROUP, whose metrics wait for data: the group and all groups that depend on it fail.

    The exit code is 3 if there is no such group, if its metrics do not wait, or if the rollout is over.

    \b
    Example:
      zkdeployment rollout fail canary --reason 'the dashboards show errors'
    """


@directive_verb(PauseRollout, _present)
def pause() -> None:
    """Start no further hosts in the present rollout; hosts that began finish their phase.

    \b
    Example:
      zkdeployment rollout pause --reason 'latency is up, under investigation'
    """
    echo("'zkdeployment rollout resume' continues the rollout; 'zkdeployment rollout abort' ends it.", err=True)


@directive_verb(ResumeRollout, _present)
def resume() -> None:
    """Continue a paused rollout.

    \b
    Example:
      zkdeployment rollout resume --reason 'was a broken dashboard'
    """


@directive_verb(AbortRollout, _present)
def abort() -> None:
    """End the present rollout as failed, which stops the fleet: nothing starts until the fleet is resumed.

    Hosts finish their present step. 'zkdeployment resume' begins the rollout again for all hosts without the
    revision; 'zkdeployment resume --latest' publishes the branch's tip first.

    \b
    Example:
      zkdeployment rollout abort --reason 'web 1.3 loses sessions'
    """
    echo(
        "The coordinator stops the fleet when it reads this; 'zkdeployment stop' stops the fleet at once.",
        err=True,
    )


_OUTCOME_COLOURS = {"success": "green", "failed": "red", "waiting": "yellow", "passed": "green"}


@click.command(name="simulate")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--strategy", "name", metavar="NAME", help="The strategy to simulate; default: the strategy in force."
)
@click.option(
    "--hosts",
    "inventory",
    metavar="HOSTS",
    required=True,
    help="A JSON or YAML file: host → {rack, tags, labels}.",
)
@click.option(
    "--prepare-fails", metavar="HOST", multiple=True, help="A host whose preparation fails. May be repeated."
)
@click.option(
    "--deploy-fails", metavar="HOST", multiple=True, help="A host whose deployment fails. May be repeated."
)
@click.option(
    "--times-out",
    metavar="GROUP:PHASE",
    multiple=True,
    help="A group whose phase prepare or deploy times out. May be repeated.",
)
@click.option(
    "--measures",
    metavar="MEASURES",
    type=click.Path(path_type=Path),
    help="A JSON or YAML file: group → {metric: [[seconds, value], …]}, to play to the analyses.",
)
@output_option
def simulate_rollout(
    *,
    files: tuple[Path, ...],
    name: str | None,
    inventory: str,
    prepare_fails: tuple[str, ...],
    deploy_fails: tuple[str, ...],
    times_out: tuple[str, ...],
    measures: Path | None,
    output: str,
) -> None:
    """Show the order and the outcome of a rollout, without a fleet.

    FILE is a YAML file with strategy documents. The exit code is 0 for every outcome of the rollout, 1 if the
    documents are invalid.

    MEASURES has the values of metrics: a value holds from its second of the analysis on until the next one, and is
    a number, "NaN", "+Inf", "-Inf" or null. The values of METRIC.others are those of the other hosts;
    METRIC.before is one value. Without MEASURES all analyses pass.

    \b
    Example:
      zkdeployment rollout simulate strategy.yaml --hosts hosts.yaml --deploy-fails app1 --times-out web:prepare
      zkdeployment rollout simulate strategy.yaml --hosts hosts.yaml --measures measures.yaml
    """
    documents = read_documents(SourceFile(str(file), _read(file)) for file in files)
    problems = [str(problem) for problem in (documents.errors if name is None else documents.problems)]
    strategy = None if problems else _choose(documents, name)
    if strategy is None:
        problems = problems or [_missing_hosts(documents, name)]
        _show_problems(problems, output)
        raise click.exceptions.Exit(1)
    hosts = _read_hosts(inventory)
    faults = Faults(
        _check_names(prepare_fails, hosts, "host"),
        _check_names(deploy_fails, hosts, "host"),
        _phases(times_out, strategy),
    )
    played = None if measures is None else _read_measures(measures, strategy)
    simulation = simulate(strategy, hosts, faults, played)
    warnings = unmatched_selectors(strategy, hosts)
    for warning in warnings:
        echo(f"warning: {warning}", err=True)
    if output == "table":
        console_for(stderr=False).print(_render(simulation))
    else:
        emit({"valid": True, "errors": [], "warnings": [*warnings], **summarize(simulation)}, output)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from error


def _choose(documents: Documents, name: str | None) -> Strategy | None:
    """Return the strategy of this name; without a name, the strategy that the syncer would publish."""
    return strategy_in_force(documents) if name is None else strategies(documents).get(name)


def _missing_hosts(documents: Documents, name: str | None) -> str:
    expected = "a strategy" if name is None else f"the strategy {name}"
    return f"expected {expected}, found: {', '.join(sorted(strategies(documents))) or 'none'}"


def _read_hosts(inventory: str) -> Mapping[str, Facts]:
    """Return the facts of hosts from a file, or from JSON in place of the name of a file."""
    if inventory.lstrip().startswith("{"):
        return read_facts("--hosts", inventory.encode())
    return read_facts(inventory, _read(Path(inventory)))


def _read_measures(file: Path, strategy: Strategy) -> Measures:
    """Return the values in a file of measures."""
    values: Any = read_document(str(file), _read(file), MEASURES).value
    try:
        return read_measures(values, strategy)
    except ValueError as error:
        raise ConfigurationError(f"{file}: {error}") from error


def _check_names(names: Iterable[str], known: Iterable[str], kind: str) -> frozenset[str]:
    """Return the names; raises ``UsageError`` for a name that is not known."""
    expected = frozenset(known)
    for name in names:
        if name not in expected:
            raise click.UsageError(f"there is no {kind} {name}; expected one of: {', '.join(sorted(expected))}")
    return frozenset(names)


def _phases(values: Iterable[str], strategy: Strategy) -> frozenset[tuple[str, Phase]]:
    phases = set()
    for value in values:
        group, _, phase = value.rpartition(":")
        if phase not in {known.value for known in Phase}:
            raise click.UsageError(f"--times-out {value}: expected GROUP:prepare or GROUP:deploy")
        _check_names([group], (known.name for known in strategy.groups), "group")
        phases.add((group, Phase(phase)))
    return frozenset(phases)


def _show_problems(problems: list[str], output: str) -> None:
    if output == "table":
        for problem in problems:
            echo(problem, err=True)
    else:
        emit({"valid": False, "errors": problems}, output)


def _render(simulation: Simulation) -> RenderableType:
    """Return the groups in the order of the rollout, groups that never began last, and the hosts by state."""
    rollout = simulation.rollout
    table = Table("GROUP", "CRITICAL", "HOSTS", "PREPARE", "DEPLOY", "REASON", box=box.SIMPLE_HEAD)
    never_begun = [group.name for group in rollout.strategy.groups if group.name not in rollout.order]
    for name in (*rollout.order, *never_begun):
        group, course = rollout.strategy.group(name), rollout.progress[name]
        results = [phase_result(course, phase) for phase in Phase]
        table.add_row(
            styled(name),
            "critical" if group.critical else "-",
            str(len(rollout.members[name])),
            *(styled(result, style=_OUTCOME_COLOURS[result]) for result in results),
            styled(group_reason(simulation, group)),
        )
    states = []
    for state in HostProgress:
        hosts = [name for name, progress in rollout.hosts.items() if progress is state]
        if hosts:
            states.append(styled(f"{state.value}: {', '.join(hosts)}"))
    return Rows(
        table, *_render_analyses(simulation), *states, styled(f"result: {simulation.result}", style="bold")
    )


def _render_analyses(simulation: Simulation) -> Iterator[RenderableType]:
    """Yield the verdicts on the metrics of all groups, if values were played."""
    table = Table("GROUP", "METRIC", "VERDICT", "PASSED", "FAILED", "NO DATA", box=box.SIMPLE_HEAD)
    analyses = simulation.analyses or {}
    for group in simulation.rollout.strategy.groups:
        for metric in group.pace.analysis if analyses else ():
            progress = analyses[group.name][metric.name]
            found = verdict(metric, progress)
            counts = map(str, (progress.passed, progress.failed, progress.no_data))
            name = styled(found.replace("_", " "), _OUTCOME_COLOURS.get(found, ""))
            table.add_row(styled(group.name), styled(metric.name), name, *counts)
    if table.row_count:
        yield table


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
    settings = chosen_settings(config)
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
        console_for(stderr=False).print(Rows(*map(_render_measurement, found)), soft_wrap=True)
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


def _render_measurement(found: RehearsedMetric) -> RenderableType:
    measurement = found.measurement
    value = "-" if measurement.value is None else number_text(measurement.value)
    others = "" if measurement.others is None else f", others {number_text(measurement.others)}"
    reason = measurement.problem or f"{value} ({found.passes}{others})"
    line = f"{found.metric}: {measurement.outcome.value}: {reason}"
    outcome = styled(line, _COLOURS[measurement.outcome])
    return Rows(outcome, styled(f"  {found.query}"))
