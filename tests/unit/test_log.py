"""Who is told what."""

import io
import json
import logging

import pytest

from zkdeployment import log


@pytest.fixture(autouse=True)
def _restored():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def told(**options: bool) -> list[str]:
    stream = io.StringIO()
    log.configure(stream=stream, **options)
    log.get_logger().debug("detail")
    log.get_logger().info("step", number=1)
    logging.getLogger("kazoo.client").warning("Connection dropped")
    log.get_logger().error("failed")
    return [json.loads(line)["event"] for line in stream.getvalue().splitlines()]


def test_a_daemon_tells_its_steps():
    assert told() == ["step", "Connection dropped", "failed"]


def test_a_verbose_daemon_tells_details():
    assert told(verbose=True) == ["detail", "step", "Connection dropped", "failed"]


def test_a_command_tells_what_was_not_expected_and_leaves_the_rest_to_its_output():
    assert told(quiet=True) == ["failed"]
