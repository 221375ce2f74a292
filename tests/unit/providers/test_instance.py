"""The program of an instance ends with the instance: after early signals and after unexpected errors."""

from __future__ import annotations

import signal
import threading

import pytest

from zkdeployment.providers.instance import Instance, Registration
from zkdeployment.zookeeper.nodes import Node


class Program:
    """A program that ends at its first signal."""

    pid = 4711

    def __init__(self) -> None:
        self.signals: list[int] = []
        self._signalled = threading.Event()

    def signal(self, number: int) -> None:
        self.signals.append(number)
        self._signalled.set()

    def wait(self) -> int:
        self._signalled.wait()
        return -self.signals[0]


class Registry:
    """A registration whose functions a test replaces."""

    def check(self) -> None:
        pass

    def register(self, _properties: object, _changed: object) -> Registration:
        return Registration("/a/b:1", Node(b""))

    def unregister(self) -> None:
        pass


def instance_of(registry, start, *, drain=0.0):
    return Instance(registry, start, lambda _changed: None, drain=drain)


def test_a_signal_before_the_start_prevents_the_start():
    registry, started = Registry(), []
    instance = instance_of(registry, lambda: started.append(1))
    registry.check = lambda: instance.end(signal.SIGTERM)
    assert instance.provide({}) == 128 + signal.SIGTERM
    assert started == []


def test_a_process_without_a_program_ends_with_status_0_after_an_early_signal():
    registry = Registry()
    instance = instance_of(registry, None)
    registry.check = lambda: instance.end(signal.SIGTERM)
    assert instance.provide({}) == 0


@pytest.mark.parametrize("drain", [0.0, 0.01])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_start_is_forwarded_to_the_program_which_is_awaited(drain, number):
    program = Program()

    def start():
        instance.end(number)
        return program

    instance = instance_of(Registry(), start, drain=drain)
    assert instance.provide({}) == 128 + number
    assert program.signals == [number]


@pytest.mark.parametrize("place", ["register", "unregister"])
def test_an_unexpected_error_ends_the_program(place):
    registry, program = Registry(), Program()

    def fail(*_arguments):
        raise ZeroDivisionError

    def start():
        if place == "unregister":
            instance.end(signal.SIGTERM)
        return program

    setattr(registry, place, fail)
    instance = instance_of(registry, start, drain=0.01)
    with pytest.raises(ZeroDivisionError):
        instance.provide({})
    assert program.signals == [signal.SIGTERM]
