"""A syncer with a key signs each publication, and the standing one after a change of the key."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from kazoo.recipe.lock import Lock

from support.keys import SIGNED, make_key, make_publishers, read_signed_nodes, signed_by
from zkdeployment.base.errors import HostFilesError, LockHeldError, RefusedError, TreeError, UnreachableError
from zkdeployment.base.machine.files import JsonFile
from zkdeployment.publishing import keys as signing_keys
from zkdeployment.publishing.daemon.signing import signing_file
from zkdeployment.publishing.keys import sign_text
from zkdeployment.publishing.records import SyncOptions
from zkdeployment.publishing.signing.snapshot import deviations
from zkdeployment.publishing.signing.standing import SigningRecord
from zkdeployment.publishing.signing.statement import NAMESPACE, SignedStatement, Statement, bucket_of, left_digest
from zkdeployment.publishing.store import builder
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Check

if TYPE_CHECKING:
    from pathlib import Path

    from support.publishing import Publishing
    from zkdeployment.publishing.daemon.syncer import Syncer

TREE = """\
/who
  /web : shop
    version = '1.0'
    color => /colors main
    /providers
    /deploy
      /h1
      /front
  /other : other
    version = '1.0'
    /deploy
      /h2
/colors
  main = 'red'
/roles
  /front : front-controller
    version = '3.0'
"""

QUARANTINE = """\
schema: zkdeployment/Quarantine/v1
metadata: {name: shop, version: 2.0}
data: {reason: loses orders, by: alice@example.com, time: 2026-11-22}
"""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Return two keys, and the list of both."""
    directory = tmp_path_factory.mktemp("keys")
    old, new = make_key(directory / "old"), make_key(directory / "new", kind="ecdsa")
    return old, new, make_publishers(directory / "publishers", old, new)


@pytest.fixture
def signing(publishing: Publishing, keys: tuple[Path, Path, Path]) -> Publishing:
    """Return a fleet whose syncers sign with the old key."""
    publishing.key = keys[0]
    return publishing


def standing(signing: Publishing, keys: tuple[Path, Path, Path]) -> tuple[str, int, object]:
    """Return the signer, the sequence and the revision of the publication, which must match the signature."""
    signer, statement = signed_by(signing.client, keys[2])
    properties = signing.get("/zkdeployment/targets") or {}
    assert (statement.sequence, statement.since) == (properties["sequence"], properties["since"])
    return signer, statement.sequence, statement.revision


def test_each_publication_has_one_signature_and_rewrites_only_changed_statements(signing: Publishing, keys):
    first = signing.push(TREE)
    with (
        signing.syncer() as syncer,
        mock.patch.object(signing_keys, "sign_text", wraps=signing_keys.sign_text) as sign,
    ):
        syncer.sync()
        assert standing(signing, keys)[::2] == ("old", first)
        assert {name for name in read_signed_nodes(signing.client)[1] if name != "nobody"} == {"h1", "h2", "front"}
        second = signing.push(TREE.replace("red", "blue"))
        written = written_paths(syncer)
        assert standing(signing, keys)[::2] == ("old", second)
        targets = {path for path in written if path.startswith("/zkdeployment/targets/")}
        buckets = {path for path in written if path.startswith(f"{SIGNED}/")}
        assert targets == {"/zkdeployment/targets/h1", "/zkdeployment/targets/front"}
        assert len(buckets) == 2
        signing.push(TREE.replace("/h2", "/h1"))
        syncer.sync()
        statement = signed_by(signing.client, keys[2])[1]
        assert len(statement.buckets) == 2
        assert len(signing.client.get_children(SIGNED)) == 2
        syncer.sync()
        assert sign.call_count == 3
    assert keys[0].read_text() not in json.dumps(signing.get("/zkdeployment/syncer"))


def written_paths(syncer: Syncer) -> set[str]:
    """Run the syncer; return the paths of the nodes that its transactions write."""
    paths: set[str] = set()
    begin = Session.begin

    def noted(session: Session, *operations):
        paths.update(operation.path for operation in operations if not isinstance(operation, Check))
        return begin(session, *operations)

    with mock.patch.object(Session, "begin", noted):
        syncer.sync()
    return paths


def test_a_large_publication_a_fresh_syncer_and_documents_alone_are_signed(signing: Publishing, keys, monkeypatch):
    monkeypatch.setattr(builder, "OPERATIONS_LIMIT", 12)
    signing.push(TREE)
    signing.sync()
    assert standing(signing, keys)[0] == "old"
    signing.push(TREE.replace("red", "green"))  # the next syncer has no digests
    signing.sync()
    before = signed_by(signing.client, keys[2])[1]
    signing.push(TREE.replace("red", "green"), quarantine_yaml=QUARANTINE)
    signing.sync()
    after = signed_by(signing.client, keys[2])[1]
    assert after.sequence > before.sequence
    assert after.since == before.since
    assert after.buckets == before.buckets


def test_another_key_signs_the_standing_publication_again_without_a_new_one(signing: Publishing, keys, tmp_path):
    revision = signing.push(TREE)
    signing.sync()
    before, buckets = standing(signing, keys), read_signed_nodes(signing.client)
    signing.key = keys[1]
    with signing.syncer() as other:
        assert other.sync().sentence == f"nothing to do: {revision} is published"
        assert standing(signing, keys) == ("new", *before[1:])
        assert read_signed_nodes(signing.client) == buckets
        data = signing.client.get(SIGNED)[0]
        other.sync()
        signing.key = keys[0]
        signing.publishers = make_publishers(tmp_path / "publishers", *keys[:2])
        with signing.syncer("second") as second:  # two syncers with two keys do not sign in turns
            second.sync()
            assert standing(signing, keys)[0] == "old"
            other.sync()  # it does not know the other key
            second.sync()
            after = signing.client.get(SIGNED)[0]
            other.sync()
            second.sync()
            assert signing.client.get(SIGNED)[0] == after
            signing.key = keys[1]
            signing.sync()
            assert standing(signing, keys)[0] == "new"
            second.sync()
            assert standing(signing, keys)[0] == "new"
            make_publishers(signing.publishers, keys[0])  # the other key is withdrawn while the syncer runs
            second.sync()
            assert standing(signing, keys)[0] == "old"
        assert signing.client.get(SIGNED)[0] != data
    assert len(signing.client.get_children("/zkdeployment/history")) == 1


def test_signing_is_turned_off_and_on_again(signing: Publishing, keys):
    signing.key = None
    signing.push(TREE)
    signing.sync()
    assert not signing.client.exists(SIGNED)
    signing.register("h1", str(signing.version))
    since = (signing.get("/zkdeployment/targets") or {})["since"]
    signing.key = keys[0]
    assert signing.sync().startswith("published")  # its targets had no digests of properties
    assert standing(signing, keys)[::2] == ("old", signing.version)
    assert (signing.get("/zkdeployment/targets") or {})["since"] > since  # nobody signed that hosts have it
    signing.register("h1", str(signing.version))
    signing.key = None
    signing.sync()
    assert standing(signing, keys)[0] == "old"
    signing.client.delete("/hosts/h1")
    signing.push(TREE.replace("red", "blue"))
    signing.sync()
    assert signing.client.get(SIGNED)[0] == b""
    signing.key = keys[0]
    signing.sync()
    assert standing(signing, keys)[0] == "old"


def test_the_initial_revision_is_signed_before_the_first_publication(signing: Publishing, keys):
    signing.client.ensure_path("/zkdeployment/targets")
    signing.put("/hosts", {"version": "initial"})
    signing.register("h1", "something else")
    revision = signing.push(TREE)
    with signing.syncer() as syncer:
        with pytest.raises(RefusedError, match="not converged"):
            syncer.sync()
        assert signed_by(signing.client, keys[2]) == ("old", Statement(1, 1, "initial"))
        signing.client.delete("/hosts/h1")
        syncer.sync()
    assert standing(signing, keys)[2] == revision


def test_content_of_an_attacker_is_never_signed(signing: Publishing, keys):
    """An attacker who can write everything to ZooKeeper."""
    old = signing.push(TREE)
    signing.sync()
    tip = signing.push(TREE.replace("red", "blue"))
    with signing.syncer() as syncer:
        syncer.sync()
        good = signing.client.get(SIGNED)[0]
        # The signed nodes are changed: the syncer writes them again.
        signing.client.set(SIGNED, good.replace(b'"revision":"', b'"revision":"0'))
        bucket = signing.client.get_children(SIGNED)[0]
        signing.client.set(f"{SIGNED}/{bucket}", b"{}")
        syncer.sync()
        assert standing(signing, keys)[0] == "old"
        # A target is changed: it is not signed, and the right one is published.
        target = signing.client.get("/zkdeployment/targets/h2")[0]
        signing.client.set("/zkdeployment/targets/h2", target.replace(b'"n":1', b'"n":9'))
        signing.client.set(SIGNED, b"")
        assert syncer.sync().sentence.startswith("published")
        assert standing(signing, keys)[::2] == ("old", tip)
        assert signing.client.get("/zkdeployment/targets/h2")[0] == target
        # An earlier revision is put back: only the tip is signed.
        properties = signing.get("/zkdeployment/targets") or {}
        signing.put("/zkdeployment/targets", properties | {"version": old})
        signing.put("/hosts", {"version": old})
        signing.client.set(SIGNED, b"")
        syncer.sync()
        assert standing(signing, keys)[::2] == ("old", tip)
        # A service is added to the live tree.
        for path, node in (
            ("/evil", {"type": "evil", "version": "6"}),
            ("/evil/deploy", {}),
            ("/evil/deploy/h1", {}),
        ):
            signing.put(path, node)
        with pytest.raises(
            TreeError, match="/evil: nodes of the live tree that are in no file deploy this service"
        ):
            syncer.sync(SyncOptions(force=True))
        signing.client.delete("/evil", recursive=True)
        # A sequence in the far future would be the last one that hosts accept.
        signing.put("/zkdeployment/history/9999999999", {})
        with pytest.raises(RefusedError, match="expected a sequence near the time"):
            syncer.sync(SyncOptions(force=True))
        signing.client.delete("/zkdeployment/history/9999999999")
        syncer.sync(SyncOptions(force=True))
    assert standing(signing, keys)[::2] == ("old", tip)


def test_a_change_of_the_data_is_found(signing: Publishing, keys):
    signing.push(TREE)
    signing.sync()
    statement = signed_by(signing.client, keys[2])[1]
    signing.client.create("/zkdeployment/targets/h9", b"[]")
    found = [deviation.subject for deviation in deviations(statement, *read_signed_nodes(signing.client))]
    assert found == ["target h9"]


def numbers(signing: Publishing) -> tuple[int, int]:
    """Return the sequence and ``since`` in the signed statement, valid or not."""
    text = SignedStatement.from_data(signing.client.get(SIGNED)[0]).text
    statement = Statement.from_text(text)
    return statement.sequence, statement.since


def test_no_number_of_zookeeper_is_signed_and_each_is_recorded_before(signing: Publishing, keys):
    signing.push(TREE)
    signing.sync()
    first = signing.client.get(SIGNED)[0]
    tip = signing.push(TREE.replace("red", "blue"))
    ahead = f"/zkdeployment/history/{int(time.time()) + 80_000}"
    signing.put(ahead, {})
    with signing.syncer() as syncer:
        with pytest.raises(RefusedError, match="expected a sequence near the time"):
            syncer.sync()
        assert signing.client.get(SIGNED)[0] == first
        signing.client.delete(ahead)
        properties = signing.get("/zkdeployment/targets") or {}
        far = int(time.time()) + 4_000
        signing.put("/zkdeployment/targets", properties | {"sequence": far, "since": far})
        with pytest.raises(RefusedError, match="expected a sequence near the time"):
            syncer.sync(SyncOptions(force=True))
        near = int(time.time()) + 60  # as by another syncer whose clock is fast
        signing.put("/zkdeployment/targets", properties | {"sequence": near, "since": near})
        with (
            mock.patch.object(ZooKeeperPublications, "_begin", side_effect=UnreachableError("gone")),
            pytest.raises(UnreachableError),
        ):
            syncer.sync()
        record = signing_file(signing.directory / "syncer" / ".tree.signed")
        assert record.load() == SigningRecord(near + 1)  # it was signed, though nobody saw it
        signing.put("/zkdeployment/targets", properties)
        syncer.sync()
        assert numbers(signing) == (near + 2, near + 2)
        assert record.load() == SigningRecord(near + 2, near + 2, near + 2, tip, left_digest(()))
        # The standing publication is not signed again with another number.
        properties = signing.get("/zkdeployment/targets") or {}
        signing.put("/zkdeployment/targets", properties | {"sequence": near + 90, "since": near + 90})
        signing.client.set(SIGNED, b"")
        syncer.sync()
        assert numbers(signing) == (near + 91, near + 91)
    assert standing(signing, keys)[0] == "old"


def test_an_invented_sequence_is_not_remembered(signing: Publishing):
    signing.push(TREE)
    with signing.syncer() as syncer:
        syncer.sync()
        properties = signing.get("/zkdeployment/targets") or {}
        signing.put("/zkdeployment/targets", properties | {"sequence": 2**52})
        with pytest.raises(RefusedError, match=r"found 4503599627370496 in ZooKeeper, or in .*\.MIRROR\.signed"):
            syncer.sync()
        signing.put("/zkdeployment/targets", properties)
        syncer.sync()
        assert signing.memory().load().sequence == properties["sequence"]
    signing.key = None  # nor by a syncer without a key
    signing.put("/zkdeployment/targets", properties | {"sequence": 2**52})
    signing.sync()
    assert signing.memory().load().sequence == properties["sequence"]


def test_nothing_is_published_while_its_number_cannot_be_recorded(signing: Publishing, keys):
    signing.push(TREE)
    with signing.syncer() as syncer:
        syncer.sync()
        before, sequence = signing.nodes(), numbers(signing)
        signing.push(TREE.replace("red", "blue"))
        full = HostFilesError("cannot write .tree.signed: No space left on device")
        with (
            mock.patch.object(JsonFile, "save", side_effect=full),
            pytest.raises(HostFilesError, match="No space left"),
        ):
            syncer.sync()
        assert (signing.nodes(), numbers(signing)) == (before, sequence)
        syncer.sync()
        assert standing(signing, keys)[2] == signing.version
        assert signing.nodes() != before


def test_a_signature_is_prepared_before_the_lock_and_abandoned_without_it(signing: Publishing, keys, monkeypatch):
    calls: list[str] = []
    key = signing_keys.PublishKey

    def noting(owner: type, name: str) -> None:
        called = getattr(owner, name)

        def note(*arguments: object) -> object:
            calls.append(name)
            return called(*arguments)

        monkeypatch.setattr(owner, name, note)

    for owner, name in ((ZooKeeperPublications, "lock"), (key, "expect"), (key, "start"), (key, "abandon")):
        noting(owner, name)
    signing.push(TREE)
    with signing.syncer() as syncer:
        syncer.sync()
        before, record = signing.nodes(), syncer._sequences.known
        signing.push(TREE.replace("red", "blue"))
        with Lock(signing.client, "/hosts-lock", "process 4711"):
            calls.clear()
            with pytest.raises(LockHeldError):
                syncer.sync()
        assert calls == ["expect", "lock", "abandon"]
        assert (signing.nodes(), syncer._sequences.known) == (before, record)
        calls.clear()
        syncer.sync()
        assert calls == ["expect", "lock", "start", "abandon"]
        assert standing(signing, keys)[2] == signing.version


def test_a_since_that_this_syncer_did_not_write_is_replaced(signing: Publishing, keys):
    signing.push(TREE)
    with signing.syncer() as syncer:
        syncer.sync()
        first = numbers(signing)[0]
        signing.push(TREE.replace("red", "blue"))
        syncer.sync()
        second = numbers(signing)[0]
    properties = signing.get("/zkdeployment/targets") or {}
    signing.put("/zkdeployment/targets", properties | {"since": first})
    signing.push(TREE.replace("red", "blue"), quarantine_yaml=QUARANTINE)
    signing.sync()
    sequence, since = numbers(signing)
    assert since == sequence > second
    signing.push(TREE.replace("red", "blue"), quarantine_yaml=QUARANTINE.replace("loses", "lost"))
    signing.sync()
    assert numbers(signing)[1] == sequence  # a document alone: hosts have nothing to do
    (signing.directory / "syncer" / ".tree.signed").unlink()  # its own signature proves it, too
    signing.push(TREE.replace("red", "blue"))
    signing.sync()
    assert numbers(signing)[1] == sequence
    assert standing(signing, keys)[0] == "old"


def damages(signing: Publishing) -> list[str]:
    """Return the differences from the signed statement, without a verification of its signature."""
    statement = Statement.from_text(SignedStatement.from_data(signing.client.get(SIGNED)[0]).text)
    return [deviation.subject for deviation in deviations(statement, *read_signed_nodes(signing.client))]


def test_a_running_syncer_repairs_buckets(signing: Publishing, keys):
    signing.push(TREE)
    bucket = f"{SIGNED}/{bucket_of('h2')}"
    with signing.syncer() as syncer:
        syncer.sync()
        signing.client.delete(bucket)
        syncer.sync()
        assert not damages(signing)
        signing.client.set(bucket, b"{}")
        syncer.sync()
        assert not damages(signing)
        signing.push(TREE.replace("red", "blue"))  # does not concern h2
        signing.client.delete(bucket)
        syncer.sync()
        assert not damages(signing)
        signing.push(TREE.replace("red", "green"))
        signing.client.delete(SIGNED, recursive=True)
        syncer.sync()
        assert not damages(signing)
    assert standing(signing, keys)[0] == "old"


def test_a_target_that_alone_was_changed_is_written_again_by_a_forced_publication(signing: Publishing):
    signing.push(TREE)
    node = "/zkdeployment/targets/h2"
    with signing.syncer() as syncer:
        syncer.sync()
        target = signing.client.get(node)[0]
        signing.client.set(node, target.replace(b'"n":1', b'"n":9'))
        assert syncer.sync().draft is None
        assert damages(signing) == ["target h2"]
        syncer.sync(SyncOptions(force=True))
        assert not damages(signing)
        signing.client.delete(node)
        signing.client.create("/zkdeployment/targets/h7", b"[]")
        assert damages(signing) == ["target h7"]
        syncer.sync(SyncOptions(force=True))
        assert not damages(signing)
        assert signing.client.get(node)[0] == target


def test_an_idle_syncer_reads_only_buckets_that_have_changed(signing: Publishing, monkeypatch):
    follow, numbers_of_reads = Session.follow, []

    def counted(session, reads, changed):
        numbers_of_reads.append(len(reads))
        return follow(session, reads, changed)

    monkeypatch.setattr(Session, "follow", counted)
    signing.push(TREE)
    with signing.syncer() as syncer:
        for _ in range(3):
            syncer.sync()
        assert numbers_of_reads == [len(signing.client.get_children(SIGNED))]
        signing.client.set(f"{SIGNED}/{bucket_of('h2')}", b"{}")
        syncer.sync()
        assert not damages(signing)
        assert set(numbers_of_reads[1:]) == {1}


def test_a_forged_signature_over_the_right_text_is_replaced(signing: Publishing, keys, tmp_path):
    signing.push(TREE)
    forger = make_key(tmp_path / "forger")

    def forge() -> None:
        text = SignedStatement.from_data(signing.client.get(SIGNED)[0]).text
        signing.client.set(SIGNED, SignedStatement(text, sign_text(forger, NAMESPACE, text)).to_data())

    with signing.syncer() as syncer:
        syncer.sync()
        syncer.sync()
        forge()
        syncer.sync()
        assert standing(signing, keys)[0] == "old"
        forge()
        forged = signing.client.get(SIGNED)[0]
        syncer.sync()  # it may be that of another syncer: once an hour
        assert signing.client.get(SIGNED)[0] == forged
    signing.publishers = keys[2]
    with signing.syncer() as syncer:
        for _ in range(2):
            syncer.sync()
            assert standing(signing, keys)[0] == "old"
            forge()
        syncer.sync()
    assert standing(signing, keys)[0] == "old"
