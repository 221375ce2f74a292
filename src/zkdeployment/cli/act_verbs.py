"""Verbs that only perform an act, such as a directive to the daemon that leads a rollout."""

from __future__ import annotations

import functools
import time
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zkdeployment.base.errors import ConfigurationError, ZkdeploymentError
from zkdeployment.cli.operator_options import reason_option, recorded_name
from zkdeployment.cli.options import zookeeper_options
from zkdeployment.cli.terminal import echo
from zkdeployment.cli.verb_group import without_flags
from zkdeployment.service.act import Actor, EmergencyAct, PlannedAct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from click.shell_completion import CompletionItem

    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.service.directives import DirectiveAct
    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.zookeeper.servers import Servers

Adapters = TypeVar("Adapters")


def act_verb(
    act: type[PlannedAct[Adapters]],
    name: str,
    opened: Callable[[Servers], AbstractContextManager[Adapters]],
    *,
    shares_adapters: bool = False,
) -> Callable[[Callable[..., None]], click.Command]:
    """Return a decorator that makes a verb of an act; the function prints the act and its outcome.

    All parameters of the verb other than the fields of the act are passed to the function. ``opened`` opens the
    adapters that perform the act; if the verb ``shares_adapters``, the function receives them, too.
    """

    def decorate(show: Callable[..., None]) -> click.Command:
        names = [each.name for each in fields(act)]
        own = [parameter.name for parameter in getattr(show, "__click_params__", ())]

        def place(parameter: click.Parameter) -> tuple[bool, bool, bool]:
            is_shared = parameter.name not in {*own, "reason"}
            return is_shared, parameter.name not in names, parameter.name == "reason"

        @functools.wraps(show)
        def command(*, connection: Servers, reason: str, **values: Any) -> None:
            planned = act(reason=reason, **{name: values.pop(name) for name in names if name in values})
            try:
                planned.check()
            except ValueError as error:
                raise ConfigurationError(str(error)) from error
            with opened(connection) as adapters:
                outcome = planned.perform(adapters, Actor(recorded_name(), time.time))
                show(planned, outcome, **({"adapters": adapters} if shares_adapters else {}), **values)

        made = zookeeper_options(reason_option(required=act.NEEDS_REASON)(command))
        verb = click.command(name=name, cls=refusing(act) if issubclass(act, EmergencyAct) else click.Command)(
            made
        )
        verb.params.sort(key=place)  # the fields, the reason, then the other parameters
        return verb

    return decorate


def refusing(act: type[EmergencyAct]) -> type[click.Command]:
    """Return the class of verbs of an act, whose errors begin with the refusal of the act."""

    class Refusing(click.Command):
        allow_extra_args = act.IS_OF_FLEET

        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            rest = super().parse_args(ctx, args)
            if rest and self.allow_extra_args and not ctx.resilient_parsing:
                command = f"zkdeployment cordon {rest[0]} --reason TEXT"
                raise click.UsageError(f"{self.name} is for the whole fleet; cordon is for a host: {command}", ctx)
            return rest

        def make_context(self, *args: Any, **options: Any) -> click.Context:
            with self._refusing():
                return super().make_context(*args, **options)

        def invoke(self, ctx: click.Context) -> Any:
            with self._refusing():
                return super().invoke(ctx)

        @contextmanager
        def _refusing(self) -> Iterator[None]:
            try:
                yield
            except click.UsageError as error:
                raise click.UsageError(
                    f"{act.REFUSAL}: {without_flags(error).format_message()}", error.ctx
                ) from error
            except ZkdeploymentError as error:
                error.args = (f"{act.REFUSAL}: {error}", *error.args[1:])
                raise

    return Refusing


def directive_verb(
    act: type[DirectiveAct], present: Callable[[OperatorAdapters], RolloutState | None]
) -> Callable[[Callable[[], None]], click.Command]:
    """Return a decorator that makes a verb of a directive; the function prints advice after the outcome.

    ``present`` reads the newest rollout, whose groups complete the verb's argument.
    """
    from zkdeployment.fleet.operator import open_operator  # noqa: PLC0415  the other verbs need none of these
    from zkdeployment.strategies.views import directive_objection  # noqa: PLC0415

    kind, verb = act.KIND, act.DIRECTIVE.value

    def accepting(operator: OperatorAdapters) -> Iterable[str]:
        state = present(operator)
        names = () if state is None else (group.name for group in state.rollout.strategy.groups)
        return (name for name in names if state and directive_objection(state, act.DIRECTIVE, name) is None)

    def decorate(advise: Callable[[], None]) -> click.Command:
        @functools.wraps(advise)
        def show(planned: DirectiveAct, done: Any) -> None:
            if not getattr(done, kind.leader):
                echo(f"no {kind.leader} runs: the directive takes effect when a {kind.leader} runs", err=True)
            group = "" if planned.group is None else f"{planned.group} of "
            echo(f"{verb.removesuffix('e')}ed {group}{kind.whole} {getattr(done, kind.whole)}")
            for remark in planned.remarks(done):
                echo(remark, err=True)
            advise()

        if any(act.given_fields()):
            click.argument("group", shell_complete=completing(accepting))(show)
        return act_verb(act, verb, open_operator)(show)

    return decorate


def completing(
    find: Callable[[OperatorAdapters], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return the function that completes the beginning of a name that ``find`` reads."""

    def complete(context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem  # noqa: PLC0415  verbs start faster without it

        from zkdeployment.config.settings import find_servers  # noqa: PLC0415  as above
        from zkdeployment.fleet.operator import open_operator  # noqa: PLC0415  as above

        try:
            with open_operator(find_servers(context.params.get("zookeeper"), None)) as operator:
                return [CompletionItem(name) for name in find(operator) if name.startswith(start)]
        except ZkdeploymentError:
            return []

    return complete
