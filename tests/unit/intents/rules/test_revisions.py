"""Changes between two revisions, judged by their files alone."""

from dataclasses import replace

import pytest

from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.edits import render_document
from zkdeployment.intents.documents import Approval, DeploymentIntentGroup, IntentState
from zkdeployment.intents.rules.content import intent_content
from zkdeployment.intents.rules.instances import IntentRecord
from zkdeployment.intents.rules.revisions import change_refusals
from zkdeployment.publishing.rules.review import review
from zkdeployment.publishing.section import ApprovalVerifier, CommitObjection

TREE = SourceFile("a.zk", b"/shop\n  /web : web\n    version = '1'\n    /deploy\n      /h1\n")
BARE = DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", {"web": ("/shop/web",)}, IntentState.TERMINATED)
CONTENT = intent_content(BARE, review([TREE]).linted.tree)
TERMINATED = replace(BARE, approval=Approval(CONTENT.digest, "alice", "go"))
INSTANTIATED = replace(TERMINATED, state=IntentState.INSTANTIATED)


def files(*intents):
    """Return the files of a revision with these intents."""
    documents = [SourceFile(f"{one.name}.yaml", render_document(one.to_document()).encode()) for one in intents]
    return [TREE, *documents]


class Objecting(ApprovalVerifier):
    """Objects to all approvals."""

    def objection(self, _snapshot, _revision):
        return "nobody signed it"


def test_an_instantiation_is_refused_whose_approval_does_not_count():
    approved = replace(BARE, approval=Approval(CONTENT.digest, "alice", "go", "signature", "Approved", 7))
    instantiated = replace(approved, state=IntentState.INSTANTIATED)
    reviewed = review(files(instantiated))
    objecting = CommitObjection(Objecting(), "c1")
    (refusal,) = change_refusals(files(replace(BARE, state=IntentState.CREATED)), reviewed, objecting)
    assert refusal.reason.startswith("its approval does not count: nobody signed it; ")
    known = {BARE.subject: IntentRecord(approved, IntentState.APPROVED, (), CONTENT, CONTENT)}
    before = files(replace(approved, state=IntentState.APPROVED))
    assert change_refusals(before, reviewed, objecting, known=known) == ()
    (again,) = change_refusals(files(approved), reviewed, objecting, known=known)
    assert again.reason.startswith("its approval does not count: it was given for an instance that has ended")


def test_approvals_of_intents_that_a_change_does_not_concern_are_not_verified():
    class Unexpected(ApprovalVerifier):
        def objection(self, snapshot, _revision):
            pytest.fail(f"asked about {snapshot}")

    more = [*files(INSTANTIATED), SourceFile("b.zk", b"/other : other\n")]
    assert change_refusals(files(INSTANTIATED), review(more), CommitObjection(Unexpected(), "c1")) == ()
