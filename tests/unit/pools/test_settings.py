"""The section ``[pools]``."""

from pathlib import Path

import pytest

from zkdeployment.config.forms import Section
from zkdeployment.pools.settings import PoolsSettings


def test_all_keys_have_defaults():
    section = Section({})
    assert PoolsSettings.read(section) == PoolsSettings(interval=300, authorized_keys="/root/.ssh/authorized_keys")
    assert section.problems == []


@pytest.mark.parametrize(("written", "seconds"), [("5m", 300), ("90", 90), ("0.5", 0.5), ("1h 30m", 5400)])
def test_the_interval_is_a_duration_or_a_number_of_seconds(written, seconds):
    assert PoolsSettings.read(Section({"interval": written})).interval == seconds


def test_the_worker_reaches_nodes_as_configured():
    texts = ("1m", "/etc/key", "/etc/ssh_config", "/home/ci/.ssh/keys", "/etc/lease_key")
    assert PoolsSettings.read(Section(dict(zip(PoolsSettings.rows(), texts, strict=True)))) == PoolsSettings(
        interval=60,
        ssh_key=Path("/etc/key"),
        ssh_config=Path("/etc/ssh_config"),
        authorized_keys="/home/ci/.ssh/keys",
        lease_key=Path("/etc/lease_key"),
    )


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("interval", "0", "expected seconds above 0, or a duration as in 5m, at most a year, found '0'"),
        ("interval", "53w", "at most a year, found '53w'"),
        ("interval", "999999999", "at most a year, found '999999999'"),
        ("interval", "soon", "found 'soon'"),
        ("ssh-key", "key", "expected an absolute path"),
        ("authorized-keys", "keys; reboot", "expected the absolute path of a file, of letters, digits"),
    ],
)
def test_a_problem_has_its_key(key, value, problem):
    section = Section({key: value})
    PoolsSettings.read(section)
    (found,) = section.problems
    assert found.startswith(f"{key}: ")
    assert problem in found
