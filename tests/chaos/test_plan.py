"""Plans of chaos: a seed draws the same faults each time."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from chaos.plan import ACTS, FAULTS, KINDS, draw_plan
from chaos.pushed import pushed_tree
from chaos.systems import RELEASES
from chaos.trees import (
    MISSING_VERSION,
    SERVICES,
    SYNTAX_ERROR,
    changed_plan,
    first_plan,
    repaired_plan,
    spoilt_plan,
    strategic_plan,
    text_of,
)
from zkdeployment.base.host import Identity
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.reading import read_documents
from zkdeployment.publishing.targets.compilation import order_problems

HOSTS = ("host1", "host2", "host3")


def test_a_seed_draws_the_same_plan_each_time():
    assert draw_plan("7/1", 60, HOSTS, 3) == draw_plan("7/1", 60, HOSTS, 3)
    assert draw_plan("7/1", 60, HOSTS, 3) != draw_plan("7/2", 60, HOSTS, 3)


def test_a_longer_plan_begins_with_the_shorter_one():
    short, long = (draw_plan("7/1", seconds, HOSTS, 3) for seconds in (20, 300))
    assert long[: len(short)] == short
    assert all(planned.at < 20 for planned in short)


def test_a_plan_begins_with_a_push_and_meets_every_kind_sooner_or_later():
    plan = draw_plan("7/1", 10_000, HOSTS, 3)
    assert plan[0].kind == "push"
    assert {planned.kind for planned in plan} == set(KINDS)
    assert {planned.target for planned in plan if planned.kind in FAULTS} == {
        *HOSTS,
        *("syncer", "coordinator", "control"),
        *("zookeeper1", "zookeeper2", "zookeeper3"),
    }
    assert all(planned.target == "" for planned in plan if planned.kind in ACTS)


def test_trees_that_operators_push_are_valid():
    chance = Random(1)
    plan = first_plan(chance, HOSTS)
    assert len(plan.services) == SERVICES
    texts = []
    for _ in range(200):
        plan = chance.choice([changed_plan, strategic_plan])(plan, chance, HOSTS)
        texts.append(text_of(plan))
        tree = pushed_tree(texts[-1], [Identity(host, f"{host}.sandbox") for host in HOSTS])
        assert tree is not None
        assert not order_problems(tree.targets, tree.texts)
        if plan.strategy is not None:
            documents = read_documents([SourceFile("strategy.yaml", plan.strategy.encode())])
            assert documents.problems == ()
    words = ["deploy_after", "undeploy = 'last'", "rerun = 'changed'", "/edge : ctl", "      /edge"]
    words += ["/plain : system", "reboot = 'always'", *(f"release = '{release}'" for release in RELEASES)]
    for word in words:
        assert any(word in text for text in texts)


def test_a_tree_with_an_error_is_invalid():
    assert pushed_tree(text_of(first_plan(Random(1), HOSTS)) + SYNTAX_ERROR, []) is None


def test_a_spoilt_tree_is_repaired():
    chance = Random(1)
    plan = first_plan(chance, HOSTS)
    spoilt = spoilt_plan(plan, chance)
    assert MISSING_VERSION in text_of(spoilt)
    assert MISSING_VERSION not in text_of(plan)
    assert MISSING_VERSION not in text_of(repaired_plan(spoilt))


@pytest.mark.parametrize(
    ("program", "option", "value"), [("chaos", "--hosts", "0"), ("simulation", "--seeds", "none")]
)
def test_an_invalid_number_is_refused_before_anything_starts(program, option, value):
    done = subprocess.run(
        [sys.executable, "-m", program, option, value],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"argument {option}: expected a whole number from 1 on, found {value!r}" in done.stderr
