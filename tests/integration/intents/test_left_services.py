"""Attacks on the list of services that left their intents, and the loss of this list."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from support.keys import SIGNED, make_key, make_publishers, signed_by
from support.zookeeper import write_node
from zkdeployment.base.errors import TreeError, UntrustedError
from zkdeployment.base.publication import LeftService
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.edits import render_document
from zkdeployment.intents.documents import Approval, ServiceRelease
from zkdeployment.intents.rules.content import service_content
from zkdeployment.publishing.rules.review import review

if TYPE_CHECKING:
    from pathlib import Path

    from support.publishing import Publishing

LEFT = "/zkdeployment/left"
TREE = """\
/p1
  /front : front
    version = '1'
    /deploy
      /h1
/other : other
  version = '1'
  /deploy
    /h1
"""
GROUP = """\
schema: zkdeployment/DeploymentIntentGroup/v1
metadata: {project: p1, composite-app: store, version: v1, name: shop}
data: {composite-profile: plain, apps: {front: [/p1/front]}, state: Created}
"""
WITHHELD = {"h1": ["/other"]}
FORGED = LeftService("/other", None, ("p1", "store", "v1", "shop"), "r1")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    directory = tmp_path_factory.mktemp("keys")
    key = make_key(directory / "key")
    return key, make_publishers(directory / "publishers", key)


@pytest.fixture(params=["signed", "unsigned"])
def attacked(request: pytest.FixtureRequest, publishing: Publishing, keys: tuple[Path, Path]) -> Publishing:
    """A fleet in which /p1/front left its intent without being deployed."""
    if request.param == "signed":
        publishing.key, publishing.publishers = keys
    for document in (GROUP, None):
        publishing.push(TREE, i_yaml=document)
        publishing.sync()
    assert publishing.targets == WITHHELD
    return publishing


def left(publishing: Publishing) -> list[str]:
    data = publishing.client.get(LEFT)[0]
    return [one.path for one in tuple(map(LeftService.from_json, json.loads(data)["services"]))] if data else []


def write_left(publishing: Publishing, *services: LeftService) -> None:
    publishing.client.set(
        LEFT, json.dumps({"services": [one.to_json() for one in services]}).encode() if services else b""
    )


def assert_unchanged(publishing: Publishing, keys: tuple[Path, Path]) -> None:
    assert (publishing.targets, left(publishing)) == (WITHHELD, ["/p1/front"])
    if publishing.key is not None:
        signed_by(publishing.client, keys[1])


@pytest.mark.parametrize("written", [(), (FORGED,), None], ids=["emptied", "forged", "damaged"])
def test_a_changed_list_neither_deploys_nor_undeploys(attacked: Publishing, keys, written):
    for force in (False, True):
        if written is None:
            attacked.client.set(LEFT, b"{damaged")
        else:
            write_left(attacked, *written)
        if not force:
            attacked.push(f"{TREE}/more\n")
        attacked.sync(force=force)
        assert_unchanged(attacked, keys)


def test_a_list_of_an_earlier_publication_does_not_undeploy_a_released_service(attacked: Publishing):
    earlier = attacked.client.get(LEFT)[0]
    (one,) = tuple(map(LeftService.from_json, json.loads(earlier)["services"]))
    digest = service_content(one.path, None, review([SourceFile("a.zk", TREE.encode())]).linted.tree).digest
    release = ServiceRelease(one.path, one.former, one.revision, Approval(digest, "alice@example.com"))
    attacked.push(TREE, r_yaml=render_document(release.to_document()))
    attacked.sync()
    attacked.push(TREE, r_yaml=None)
    attacked.client.set(LEFT, earlier)
    attacked.sync(force=True)
    assert (attacked.targets, left(attacked)) == ({"h1": ["/other", "/p1/front"]}, [])


def test_an_invented_intent_in_zookeeper_neither_undeploys_nor_governs(attacked: Publishing, keys):
    document = {
        "schema": "zkdeployment/DeploymentIntentGroup/v1",
        "metadata": {"project": "p1", "composite-app": "evil", "version": "v1", "name": "g"},
        "data": {"composite-profile": "plain", "apps": {"a": ["/other"]}, "state": "Created"},
    }
    index = {"document": document, "state": "Created", "content": [], "approved": None, "instances": []}
    write_node(attacked.client, "/zkdeployment/intents/p1:evil:v1:g", index)
    attacked.sync(force=True)
    assert_unchanged(attacked, keys)


def test_after_a_loss_of_zookeepers_data_services_that_left_their_intent_stay_undeployed(
    attacked: Publishing, keys
):
    attacked.client.delete("/zkdeployment", recursive=True)
    attacked.sync(force=True)
    assert_unchanged(attacked, keys)


def test_another_publication_that_zookeeper_names_does_not_bring_back_its_governance(attacked: Publishing, keys):
    first = attacked.repository.git("rev-list", "--max-parents=0", "HEAD").strip()
    attacked.put("/zkdeployment/targets", (attacked.get("/zkdeployment/targets") or {}) | {"version": first})
    write_left(attacked)
    attacked.sync(force=True)
    assert_unchanged(attacked, keys)


def test_another_syncer_needs_the_list_of_the_last_publication(attacked: Publishing, keys):
    good = attacked.client.get(LEFT)[0]
    attacked.push(f"{TREE}/more\n")
    for attack in ((), (FORGED,)):
        write_left(attacked, *attack)
        for force in (False, True):
            with pytest.raises(UntrustedError, match="expected the list of the publication of"):
                attacked.sync(force=force, name="second")
        assert attacked.targets == WITHHELD
    (attacked.directory / "third").mkdir()
    shutil.copy(attacked.directory / "syncer/.tree.accepted", attacked.directory / "third/.tree.accepted")
    attacked.sync(name="third")
    assert_unchanged(attacked, keys)
    attacked.client.set(LEFT, good)
    attacked.sync(name="second", force=True)
    assert_unchanged(attacked, keys)


def test_a_damaged_list_stops_another_syncer_with_advice(attacked: Publishing):
    attacked.client.set(LEFT, b"{damaged")
    with pytest.raises(TreeError, match="restore the node from a backup"):
        attacked.sync(force=True, name="second")


def test_the_standing_publication_is_signed_again_with_the_accepted_content(publishing: Publishing, keys):
    for document in (GROUP, None):
        publishing.push(TREE, i_yaml=document)
        publishing.sync()
    publishing.key, publishing.publishers = keys
    write_left(publishing)
    publishing.sync()
    assert publishing.targets == WITHHELD
    before = signed_by(publishing.client, keys[1])[1]
    publishing.client.set(SIGNED, b"")
    publishing.sync()
    assert signed_by(publishing.client, keys[1])[1] == before
    assert before.left is not None


def test_another_syncer_refuses_a_publication_whose_digest_of_the_list_was_removed(publishing: Publishing):
    for document in (GROUP, None):
        publishing.push(TREE, i_yaml=document)
        publishing.sync()
    targets = publishing.get("/zkdeployment/targets") or {}
    del targets["left"]
    publishing.put("/zkdeployment/targets", targets)
    publishing.push(f"{TREE}/more\n")
    with pytest.raises(UntrustedError, match=r"\(unknown, because /zkdeployment/targets lacks 'left'\)"):
        publishing.sync(name="second")
    publishing.sync()
    assert publishing.targets == WITHHELD
    assert (publishing.get("/zkdeployment/targets") or {})["left"]
