"""``zkdeployment provide``."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import click

from zkdeployment import log
from zkdeployment.adapters import process
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.providers import Provider
from zkdeployment.cli.shared.options import zookeeper_options
from zkdeployment.errors import RestartError, ZkdeploymentError
from zkdeployment.model.names import NameKind, name_problem
from zkdeployment.tree.literal import LiteralError, evaluate

if TYPE_CHECKING:
    from zkdeployment.model.servers import Servers
    from zkdeployment.model.tree import Value

#: Seconds between attempts to register again while that fails.
_AGAIN = 1.0


def _properties(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, Value]:
    """Read KEY=VALUE; a value that is no literal is text."""
    found: dict[str, Value] = {}
    for text in given:
        name, equals, value = text.partition("=")
        problem = name_problem(NameKind.PROPERTY, name)
        if not equals or problem is not None:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE" + (f": {problem}" if equals else ""))
        try:
            found[name] = evaluate(value)
        except LiteralError:
            found[name] = value
    return found


@click.command(name="provide")
@click.argument("path")
@click.argument("address")
@click.argument("argv", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-p",
    "--property",
    "properties",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_properties,
    help="A property of the node; VALUE is a number, true, a list… or else text. May be repeated.",
)
@zookeeper_options
def command(
    connection: Servers, path: str, address: str, argv: tuple[str, ...], properties: dict[str, Value]
) -> None:
    """Register an instance at ADDRESS as an ephemeral node under PATH while COMMAND, or this process, runs.

    Links in PATH are followed; PATH must be there. The node has the property pid and those given with -p. SIGTERM
    is passed on to COMMAND, whose exit status is ours.

    \b
    Example:
      zkdeployment provide /shop/web/providers app1:8080 -p zone=a -- /opt/web/bin/serve --port 8080
    """
    log.configure()
    with Session(connection, session_timeout=10.0) as session:
        instance = Instance(session, argv)
        status = instance.provide(Provider(session, path, address), properties)
    raise click.exceptions.Exit(status)


class Instance:
    """What runs while it is registered: COMMAND, or this process until it is told to end."""

    def __init__(self, session: Session, argv: tuple[str, ...]) -> None:
        self._session = session
        self._argv = argv
        self._ended = False
        self._status = 0
        self._child: process.Attached | None = None
        self._wake = threading.Event()

    def provide(self, provider: Provider, properties: dict[str, Value]) -> int:
        """Run, be registered meanwhile whatever happens to the session, and return the exit status."""
        provider.check()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        self._session.on_change(self._wake.set)
        pid = self._start() if self._argv else os.getpid()
        everything = {"pid": pid, **properties}
        while not self._ended:
            self._wake.clear()
            registered = self._register(provider, everything)
            self._wake.wait(None if registered else _AGAIN)
        provider.unregister()
        return self._status

    def _register(self, provider: Provider, properties: dict[str, Value]) -> bool:
        try:
            path = provider.register(properties)
        except RestartError:
            self._end(signal.SIGTERM, None)
            raise
        except ZkdeploymentError as error:
            log.get_logger().warning("not-registered", error=str(error))
            return False
        log.get_logger().info("registered", path=path)
        return True

    def _start(self) -> int:
        self._child = process.attach(self._argv)
        threading.Thread(target=self._watch, args=(self._child,), name="command", daemon=True).start()
        return self._child.pid

    def _watch(self, child: process.Attached) -> None:
        status = child.wait()
        self._status = 128 - status if status < 0 else status
        self._ended = True
        self._wake.set()

    def _end(self, number: int, _frame: object) -> None:
        if self._child is None:
            self._ended = True
            self._wake.set()
        elif number != signal.SIGINT:  # a terminal sends that one to both of us
            self._child.signal(number)
