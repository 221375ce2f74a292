"""Verbs that only perform an act."""

from __future__ import annotations

import functools
import time
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zkdeployment.cli.operator_options import reason_option, recorded_name
from zkdeployment.cli.options import zookeeper_options
from zkdeployment.service.act import Actor

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from zkdeployment.service.act import PlannedAct
    from zkdeployment.zookeeper.servers import Servers

Adapters = TypeVar("Adapters")


def act_verb(
    act: type[PlannedAct[Adapters]], name: str, opened: Callable[[Servers], AbstractContextManager[Adapters]]
) -> Callable[[Callable[..., None]], click.Command]:
    """Return a decorator that makes a verb of an act; the function prints the act and its outcome.

    All parameters of the verb other than the fields of the act are passed to the function. ``opened`` opens the
    adapters that perform the act.
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
            with opened(connection) as adapters:
                outcome = planned.perform(adapters, Actor(recorded_name(), time.time))
            show(planned, outcome, **values)

        verb = click.command(name=name)(zookeeper_options(reason_option(required=act.NEEDS_REASON)(command)))
        verb.params.sort(key=place)  # the fields, the reason, then the other parameters
        return verb

    return decorate
