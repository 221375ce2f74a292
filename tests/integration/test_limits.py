"""Time limits of tests grow on a busy machine, and programs end with the test that started them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from support.commands import run
from support.limits import RUN, TEST, outliving_all_tests, outliving_the_test
from support.waiting import wait_until

TESTS = Path(__file__).parents[1]

pytestmark = pytest.mark.nightly  # each test runs tests in a pytest of its own

CONFTEST = """\
import os
from support.limits import (
    _programs_end_with_the_tests,
    pytest_collection_modifyitems,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_runtest_teardown,
    pytest_timeout_set_timer,
)
load = {load}
os.getloadavg = lambda: (load, load, load)
"""

#: A program that waits for another program, as scripts do.
PROGRAM = """\
import subprocess
import pytest
def wait_for_another_program():
    subprocess.run(["sh", "-c", "sleep 1000 & echo $! >left && wait"])
"""


def write_tests(directory, text, load=0.0):
    """Write tests with a limit of three seconds, on a machine with this load; return the command to run them."""
    (directory / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS}\ntimeout = 3\n")
    (directory / "conftest.py").write_text(CONFTEST.format(load=load))
    (directory / "test_inner.py").write_text(PROGRAM + text)
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]


def ends(directory):
    """Whether the program that another program waited for has ended."""
    try:
        return psutil.Process(int((directory / "left").read_text())).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_test_that_exceeds_its_time_limit_fails_and_its_programs_end_before_the_next_test(tmp_path):
    argv = write_tests(
        tmp_path,
        """
def test_one():
    wait_for_another_program()

def test_two():
    import psutil
    try:
        status = psutil.Process(int(open("left").read())).status()
    except psutil.NoSuchProcess:
        return
    assert status == psutil.STATUS_ZOMBIE
""",
    )
    done = run(*argv, cwd=tmp_path)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert re.search(r"the test did not end within its time limit, \d s", done.stdout)


def test_a_failed_test_leaves_the_programs_of_another_run_alone(tmp_path):
    argv = write_tests(tmp_path, "def test_one():\n    pytest.fail('on purpose')\n")
    named_alike = {**os.environ, RUN: "another run", TEST: "test_inner.py::test_one (call)"}
    with subprocess.Popen(["sleep", "1000"], env=named_alike) as program:
        try:
            assert "1 failed" in run(*argv, cwd=tmp_path).stdout
            assert program.poll() is None
        finally:
            program.kill()


def test_a_test_that_is_repeated_gets_new_fixtures_that_it_shares_with_other_tests_of_its_module(tmp_path):
    argv = write_tests(
        tmp_path,
        """
tries = []

@pytest.fixture(scope="session")
def server():
    return []

@pytest.fixture(scope="module")
def stage(server):
    server.append("stage")
    return []

@pytest.mark.flaky(reruns=1)
def test_one(stage):
    tries.append("one")
    stage.append("dirt")
    assert stage == ["dirt"]
    assert len(tries) == 2

def test_two(stage, server):
    assert (stage, server) == (["dirt"], ["stage", "stage"])
""",
    )
    done = run(*argv, cwd=tmp_path)
    assert "2 passed, 1 rerun" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("folder", "options", "outcome"),
    [
        ("integration", [], "1 passed, 1 rerun"),
        ("integration", ["--reruns", "0"], "1 failed"),
        ("unit", [], "1 failed"),
        ("unit", ["--reruns", "1"], "1 passed, 1 rerun"),
    ],
)
def test_a_failed_test_of_real_servers_runs_a_second_time_unless_an_option_decides(
    tmp_path, folder, options, outcome
):
    argv = write_tests(tmp_path, "")
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "test_often.py").write_text(
        "tries = []\ndef test_one():\n    tries.append(1)\n    assert len(tries) == 2\n"
    )
    (named,) = re.findall(r"^addopts = (.*)", (TESTS.parent / "setup.cfg").read_text(), re.MULTILINE)
    done = run(*argv, *options, folder, *named.split(), cwd=tmp_path)
    assert f"{outcome} in" in done.stdout, done.stdout
    shown = "assert 1 == 2" in done.stdout and f"{folder}/test_often.py::test_one" in done.stdout
    assert shown, "the end of the run names the test and its failure"


def test_programs_that_a_fixture_starts_for_several_tests_survive_a_failed_test(tmp_path):
    argv = write_tests(
        tmp_path,
        """
@pytest.fixture(scope="module")
def server():
    with subprocess.Popen(["sleep", "1000"]) as child:
        yield child
        child.kill()

def test_one(server):
    pytest.fail("on purpose")

def test_two(server):
    assert server.poll() is None
""",
    )
    done = run(*argv, cwd=tmp_path)
    assert "1 failed, 1 passed" in done.stdout, done.stdout


def test_programs_end_with_tests_that_are_killed(tmp_path):
    argv = write_tests(tmp_path, "def test_one():\n    wait_for_another_program()\n")
    argv += ["--timeout", "1000"]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL) as tests:
        wait_until(lambda: (tmp_path / "left").exists() and (tmp_path / "left").read_text(), "the program runs")
        assert not ends(tmp_path)
        tests.kill()
    wait_until(lambda: ends(tmp_path), "the program ends with the tests")


@pytest.mark.parametrize(("load", "outcome"), [(0.0, "1 failed"), (10.0, "1 passed")])
def test_a_time_limit_grows_with_the_load_of_the_machine(tmp_path, load, outcome):
    text = """
import time
from support.waiting import wait_until
def test_one():
    begun = time.monotonic()
    wait_until(lambda: time.monotonic() > begun + 10, "ten seconds")
"""
    argv = write_tests(tmp_path, text, load * len(os.sched_getaffinity(0)))
    assert outcome in run(*argv, cwd=tmp_path).stdout


def test_a_fixture_that_hangs_after_a_failed_test_is_interrupted(tmp_path):
    text = """
import threading
@pytest.fixture
def hanging():
    yield
    threading.Event().wait()

def test_one(hanging):
    pytest.fail("on purpose")
"""
    done = run(*write_tests(tmp_path, text), cwd=tmp_path)
    assert "1 failed, 1 error" in done.stdout, done.stdout


def test_a_program_that_may_outlive_its_test_ends_with_all_tests():
    assert os.environ.keys() - outliving_the_test().keys() == {TEST}
    assert os.environ.keys() - outliving_all_tests().keys() == {TEST, RUN}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([], ["test_one"]),
        (["-m", "quick or slow"], ["test_one"]),
        (["--nightly"], ["test_one", "test_two"]),
        (["--nightly", "-m", "slow"], ["test_two"]),
    ],
    ids=" ".join,
)
def test_tests_that_can_wait_a_night_run_only_if_an_option_asks_for_them(tmp_path, options, names):
    (tmp_path / "test_inner.py").write_text("""\
import pytest
from hypothesis import settings

@pytest.mark.quick
def test_one(request):
    assert settings.default.max_examples == (100 if request.config.getoption("nightly") else 20)

@pytest.mark.slow
@pytest.mark.nightly
def test_two():
    pass
""")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    nightly\n    quick\n    slow\n")
    argv = [sys.executable, "-m", "pytest", "-v", "-p", "conftest", "-p", "no:cacheprovider", *options]
    done = run(*argv, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(TESTS)})
    assert re.findall(r"::(\w+) PASSED", done.stdout) == names, done.stdout
