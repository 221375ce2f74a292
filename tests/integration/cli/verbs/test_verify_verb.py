"""``zkdeployment verify`` on a fleet as signed, and under an attacker who owns ZooKeeper."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from click.testing import CliRunner

from support.keys import SIGNED, make_key, make_publishers
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.cli.verbs import verify as verify_verb
from zkdeployment.config import settings as configuration
from zkdeployment.fleet.store import signed_fleet
from zkdeployment.programs.verbs import program
from zkdeployment.publishing.signing.statement import bucket_of

if TYPE_CHECKING:
    from pathlib import Path

    from support.publishing import Publishing

TREE = """\
/shop
  /web : shop
    version = '1.0'
    color => /colors main
    /deploy
      /h1
      /front
  /db : database
    version = '2.0'
    /deploy
      /h2
/colors
  main = 'red'
/roles
  /front : front-controller
    version = '3.0'
"""


@pytest.fixture
def publishers(publishing: Publishing, tmp_path: Path) -> Path:
    """Publish a signed tree; return the list of publishers."""
    publishing.key = make_key(tmp_path / "publisher")
    publishing.push(TREE)
    publishing.sync()
    return make_publishers(tmp_path / "publishers", publishing.key)


def verify(publishing: Publishing, publishers: Path, *options: str):
    """Run the verb."""
    return CliRunner().invoke(
        program, ["verify", "-z", publishing.zookeeper, "--publishers", str(publishers), *options]
    )


def differences(publishing: Publishing, publishers: Path) -> dict[str, tuple[str, str]]:
    """Return what is expected and what is found, by subject."""
    result = verify(publishing, publishers, "-o", "json")
    found = json.loads(result.stdout)["differences"]
    assert result.exit_code == (1 if found else 0)
    return {each["subject"]: (each["expected"], each["found"]) for each in found}


def test_a_fleet_that_matches_the_signed_publication(publishing: Publishing, publishers: Path):
    result = verify(publishing, publishers)
    sequence = (publishing.get("/zkdeployment/targets") or {})["sequence"]
    assert result.exit_code == 0
    signer, revision, compared = result.stdout.splitlines()
    assert signer.startswith("signed by publisher@example.com (SHA256:")
    assert revision == f"revision {publishing.version}, sequence {sequence}"
    assert compared == "compared: 3 targets, 3 services"
    assert result.stderr == "everything matches the signed publication\n"
    publishing.put("/hosts", {"version": None})
    assert differences(publishing, publishers) == {}


@pytest.mark.parametrize(
    "data", [b'{"services":[{"content":null,"former":"p/c","path":"/a","revision":"r","target":null}]}', b"{"]
)
def test_a_list_of_left_services_that_was_not_signed_is_a_difference(
    publishing: Publishing, publishers: Path, data
):
    publishing.client.create("/zkdeployment/left", data)
    assert differences(publishing, publishers).keys() == {"services that left their intents"}


def test_the_list_of_publishers_is_read_before_zookeeper_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(signed_fleet, "Session", mock.Mock(side_effect=AssertionError("ZooKeeper was asked")))
    for module in (configuration, verify_verb):
        monkeypatch.setattr(module, "SYSTEM_CONFIGURATION", tmp_path / "system.cfg")
    config = tmp_path / "zkdeployment.cfg"
    config.write_text("[zkdeployment]\nrun-directory = /run/zkdeployment\n")
    workers = tmp_path / "workers"
    workers.write_text('worker namespaces="zkdeployment-lease" ssh-ed25519 AAAA\n')
    for arguments, message in (
        (["-z", "zookeeper:1", "--publishers", str(workers)], 'found namespaces="zkdeployment-lease"'),
        (["-z", "zookeeper:1", "--publishers", str(tmp_path / "nobody")], "cannot read the keys in"),
        (
            ["-z", "zookeeper:1"],
            f"no configuration file {tmp_path}/system.cfg; name the file of keys with --publishers",
        ),
        (["--config", str(config)], "publishers not specified; name the file of keys with --publishers FILE"),
    ):
        result = CliRunner().invoke(program, ["verify", *arguments])
        assert isinstance(result.exception, ConfigurationError)
        assert message in str(result.exception)


def test_each_difference_of_an_attacked_fleet_is_listed(publishing: Publishing, publishers: Path):
    client, good = publishing.client, publishing.client.get(SIGNED)[0]
    client.set("/colors", b'{"main": "black"}')
    client.set("/zkdeployment/targets/h2", client.get("/zkdeployment/targets/h2")[0].replace(b"2.0", b"6.6"))
    client.delete("/zkdeployment/targets/front")
    client.create("/zkdeployment/targets/h9", b"[]")
    client.create("/zkdeployment/strategy", b"?")
    properties = publishing.get("/zkdeployment/targets") or {}
    publishing.put("/zkdeployment/targets", properties | {"sequence": 7, "since": 7})
    publishing.put("/hosts", {"version": "evil\x1b"})
    found = differences(publishing, publishers)
    assert found.keys() == {
        "cluster version",
        "sequence",
        "since",
        "strategy",
        "target h2",
        "target front",
        "target h9",
        "properties of /shop/web",
    }
    assert found["cluster version"] == (f"{properties['version']}, null or false", "evil\\x1b")
    assert found["target front"][1] == found["target h9"][0] == "no node"
    client.set(f"{SIGNED}/{bucket_of('h1')}", b"{}")
    assert f"bucket {bucket_of('h1')}" in differences(publishing, publishers)
    client.delete("/shop/web/deploy", recursive=True)
    client.delete("/shop/web", recursive=True)
    assert "bucket" in verify(publishing, publishers).stdout
    for data, subject, reason in (
        (good.replace(b'"sequence":', b'"sequence":1'), "signature", "not valid"),
        (b"", "signature", "none"),
        (b"\xff", "statement", "not text"),
    ):
        client.set(SIGNED, data)
        assert reason in differences(publishing, publishers)[subject][1]
    client.set(SIGNED, good)
    other = make_publishers(publishers.with_name("others"), make_key(publishers.with_name("other")))
    assert "is not by one of the keys in" in differences(publishing, other)["signature"][1]
