"""Brings faults to a real fleet in rounds, and checks the invariants from outside."""

from __future__ import annotations

import itertools
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.checks import Checks
from chaos.faults import Faults
from chaos.observer import Observer
from chaos.operators import Operators
from chaos.plan import ACTS, KINDS, draw_plan
from chaos.round import Round
from chaos.trace import Trace, say
from chaos.world import SERVERS, World
from histories.checker import judge, read_history
from support.sandboxes import ended_with_the_tests
from zkdeployment.base import log
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def run(wanted: argparse.Namespace) -> int:
    """Run the command with these options and return its exit code: 0 without a finding, else 1."""
    seed = random.randrange(1 << 30) if wanted.seed is None else wanted.seed
    if wanted.plan:
        for planned in _plan(wanted, seed, wanted.first):
            say(f"{planned.at:8.2f} {planned}")
        return 0
    log.configure(quiet=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    directory = Path(tempfile.mkdtemp(prefix="zkchaos-"))
    world = World(directory / "fleet", Trace(directory / "trace", loud=wanted.verbose), wanted.hosts)
    with ended_with_the_tests(world.directory):
        findings: Sequence[str] = ("the run did not end",)
        number = wanted.first
        try:
            findings, number = _play(world, wanted, seed)
        except KeyboardInterrupt:
            findings = ()
            say("interrupted; the fleet was removed")
            return 128 + signal.SIGINT
        finally:
            if findings:
                world.keep()
            else:
                world.end()
                shutil.rmtree(directory)
    if findings:
        _show(world, findings, wanted, f"--seed {seed} --first {number}")
    return 1 if findings else 0


def _play(world: World, wanted: argparse.Namespace, seed: int) -> tuple[Sequence[str], int]:
    """Play rounds until the time has passed or there is a finding; return the findings, and the last round."""
    say(f"seed {seed}: starting {wanted.hosts} hosts on {SERVERS} servers")
    world.start()
    checks, kinds = Checks(world.repository.tree), Counter[str]()
    with Session(world.zookeeper, session_timeout=6.0, create_chroot=True) as session:
        observer = Observer(world, checks, session)
        rounds = Round(world, checks, observer, Faults(world, observer), Operators(world, observer, session))
        end = time.monotonic() + 60 * wanted.minutes
        for number in itertools.count(wanted.first):
            world.trace.note(f"round {number}")
            plan = _plan(wanted, seed, number)
            seconds = rounds.play(plan, _round_seconds(wanted), f"{seed}/{number}")
            if checks.findings:
                break
            kinds.update(planned.kind for planned in plan)
            acts = sum(planned.kind in ACTS for planned in plan)
            say(
                f"round {number}: {len(plan) - acts} faults, {acts} acts; converged after {seconds:.0f} s;"
                f" so far {checks.scripts} scripts, {checks.publications} publications"
            )
            if time.monotonic() > end:
                say(", ".join(f"{kind}: {kinds[kind]}" for kind in KINDS if kinds[kind]))
                reboots = f"{observer.reboots} reboots, {len(observer.missing)} too late"
                say(f"seed {seed}: {number} rounds, {checks.scripts} scripts, {reboots}: all invariants held")
                break
    return [*checks.findings, *_judged(world)], number


def _judged(world: World) -> list[str]:
    """Return what the checker of histories finds, which shares no code with the checks."""
    with world.trace.file.with_name("history").open(encoding="utf-8") as lines:
        return [f"the history: {finding}" for finding in judge(read_history(lines))]


def _plan(wanted: argparse.Namespace, seed: int, number: int) -> Sequence:
    hosts = tuple(f"host{host}" for host in range(1, wanted.hosts + 1))
    return draw_plan(f"{seed}/{number}", _round_seconds(wanted), hosts, SERVERS)


def _round_seconds(wanted: argparse.Namespace) -> float:
    return min(wanted.round, 60 * wanted.minutes)


def _show(world: World, findings: Sequence[str], wanted: argparse.Namespace, options: str) -> None:
    world.trace.show_end()
    for finding in findings:
        say(f"finding: {finding}")
    say(f"the whole trace: {world.trace.file}")
    say(f"the fleet's files: {world.directory}; remove them with: rm -r {world.directory.parent}")
    size = f"--hosts {wanted.hosts} --round {wanted.round:g}"
    say(f"the same plans again, from this round on: scripts/chaos --minutes {wanted.minutes:g} {options} {size}")
