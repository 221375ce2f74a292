"""Signed approvals of intents, with real keys and commits."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.repository import Repository, make_key, public
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.edits import render_document
from zkdeployment.intents.documents import Approval, DeploymentIntentGroup, FurtherApproval, IntentState
from zkdeployment.intents.rules.content import intent_content
from zkdeployment.intents.rules.instances import IntentSnapshot
from zkdeployment.intents.verification import GitApprovals, approval_signer
from zkdeployment.publishing.rules.review import review
from zkdeployment.publishing.sources.git.command import Git

if TYPE_CHECKING:
    from pathlib import Path

TREE = "/shop\n  /web : web\n    version = '{}'\n    /deploy\n      /h1\n"
GROUP = DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", {"web": ("/shop/web",)})


class Site:
    """A repository whose commits people sign, and keys of two approvers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.repository = Repository(directory / "repository")
        self.keys = {name: make_key(directory, name) for name in ("ann", "bob", "eve")}
        self.signers = self._allow("signers", "ann", "bob", "eve")
        self.approvers = self._allow("approvers", "ann", "bob")

    def _allow(self, file: str, *names: str) -> Path:
        path = self.directory / file
        path.write_text("".join(f"{name}@example.com {public(self.keys[name])}\n" for name in names))
        return path

    def commit(
        self, signer: str | None, version: str, group: DeploymentIntentGroup = GROUP, more: str = ""
    ) -> str:
        """Commit the tree and the group, signed by a person if one is named."""
        files = {"a.zk": TREE.format(version), "i.yaml": render_document(group.to_document()), "b.zk": more}
        if signer is None:
            return self.repository.commit(files)
        config = ("gpg.format=ssh", f"user.signingkey={self.keys[signer]}")
        return self.repository.commit(files, "-S", config=config)

    def approved(self, version: str, approver: str | None) -> IntentSnapshot:
        """Return the group with an approval of its content, signed by a person if one is named."""
        tree = review([SourceFile("a.zk", TREE.format(version).encode())]).linted.tree
        content = intent_content(GROUP, tree)
        approval = Approval(content.digest, f"{approver}@example.com", "go")
        if approver is not None:
            approval = approval_signer(self.keys[approver])(GROUP.subject, replace(approval, state="Approved"))
        return IntentSnapshot(replace(GROUP, state=IntentState.APPROVED, approval=approval), content)

    def objection(self, snapshot: IntentSnapshot, *, signers: bool = True) -> str | None:
        tip = self.repository.git("rev-parse", "HEAD")
        git = Git(directory=self.repository.directory, alone=True)
        return GitApprovals(lambda: git, self.approvers, self.signers if signers else None, time.time).objection(
            snapshot, tip
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_an_approval_counts_if_an_approver_signed_it_who_did_not_sign_the_content(site: Site) -> None:
    site.commit("eve", "0")
    site.commit("ann", "1")
    site.commit("bob", "1", more="/b\n")
    by_bob, by_ann = site.approved("1", "bob"), site.approved("1", "ann")
    site.commit("bob", "1", by_bob.intent, more="/b\n")
    assert site.objection(by_bob) is None
    objection = site.objection(by_ann)
    assert objection is not None
    assert "ann@example.com signed the approval and also the commit that brought the content" in objection
    # Where commits need no signature, nobody is the verified signer of a content.
    assert site.objection(by_ann, signers=False) is None


def test_the_next_signed_commit_vouches_for_unsigned_content(site: Site) -> None:
    site.commit("eve", "0")
    site.commit(None, "1")
    by_bob = site.approved("1", "bob")
    site.commit("bob", "1", by_bob.intent)
    assert "bob@example.com signed the approval and also" in str(site.objection(by_bob))


def test_other_signatures_do_not_count(site: Site) -> None:
    site.commit("eve", "1")
    assert site.objection(site.approved("1", None)) == "it has no signature by one of the approvers"
    assert "not by one of the keys in" in str(site.objection(site.approved("1", "eve")))
    good, other = site.approved("1", "bob"), site.approved("2", "bob")
    assert good.intent.approval is not None
    assert other.intent.approval is not None
    for signature in (other.intent.approval.signature, "rubbish", "x" * 20_000):
        forged = replace(good.intent, approval=replace(good.intent.approval, signature=signature))
        assert site.objection(replace(good, intent=forged)) is not None
    for changed in (
        replace(good.intent.approval, state="Instantiated"),
        replace(good.intent.approval, instance=good.intent.approval.instance + 1),
        replace(good.intent.approval, instance=0),
    ):
        objection = site.objection(replace(good, intent=replace(good.intent, approval=changed)))
        assert objection == "its signature by bob@example.com is not valid for this subject and content"
    another = replace(good.intent, approval=replace(good.intent.approval, by="ann@example.com"))
    assert site.objection(replace(good, intent=another)) == (
        "it names ann@example.com as its approver, but bob@example.com signed it"
    )
    renamed = replace(good.intent, name="another")
    assert "not valid for this subject" in str(site.objection(replace(good, intent=renamed)))
    assert site.objection(good) is None


def test_one_key_is_one_approval_and_each_signature_has_to_be_valid(site: Site) -> None:
    site.commit("eve", "1")
    keys = f"bob@example.com,robert@example.com {public(site.keys['bob'])}\n"
    site.approvers.write_text(f"{keys}ann@example.com {public(site.keys['ann'])}\n")
    snapshot = site.approved("1", "bob")
    approval = snapshot.intent.approval
    assert approval is not None

    def objection(by: str, signer: str) -> str | None:
        signed = approval_signer(site.keys[signer])(GROUP.subject, replace(approval, by=by))
        also = (FurtherApproval(by, str(signed.signature)),)
        intent = replace(snapshot.intent, approval=replace(approval, also=also))
        return site.objection(replace(snapshot, intent=intent))

    assert objection("ann@example.com", "ann") is None
    assert objection("robert@example.com", "bob") == (
        "bob@example.com and robert@example.com approved with the same key"
    )
    assert "its signature is not by one of the keys in" in str(objection("ann@example.com", "eve"))


def test_a_missing_file_of_approvers_is_an_error(site: Site) -> None:
    site.commit("eve", "1")
    site.approvers.unlink()
    with pytest.raises(ConfigurationError, match="cannot read the keys in"):
        site.objection(site.approved("1", "bob"))


def test_a_key_that_cannot_sign_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("rubbish")
    with pytest.raises(ConfigurationError, match="cannot sign with"):
        approval_signer(tmp_path / "key")(GROUP.subject, Approval("sha256:0", "ann"))
