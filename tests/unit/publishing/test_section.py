"""Without a feature that governs services, a publication deploys its whole tree, and nothing leaves governance."""

import sys

import pytest

from zkdeployment.base import features
from zkdeployment.base.publication import Published
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.collection import PublishedDocuments
from zkdeployment.publishing.daemon.keeper import SectionKeeper
from zkdeployment.publishing.rules.changes import Baseline, draft
from zkdeployment.publishing.rules.convergence import PublicationSnapshot
from zkdeployment.publishing.rules.review import review
from zkdeployment.publishing.section import ChangeFindings, section
from zkdeployment.publishing.signing.standing import SigningRecord
from zkdeployment.publishing.store.documents import NO_CHANGE, SectionOperations, SectionReads
from zkdeployment.tree.values import LiveTree, Tree

FILES = [SourceFile("a.zk", b"/web : web\n  version = '1'\n  /deploy\n    /h1\n")]


@pytest.fixture(autouse=True)
def _without_intents(monkeypatch):
    others = tuple(feature for feature in features.load_features(sys.path) if feature.name != "intents")
    monkeypatch.setattr(features, "_features", lambda: others)


def test_a_draft_withholds_nothing_and_governs_nothing():
    baseline = Baseline.of_live_tree(LiveTree(Tree({})), None, PublishedDocuments())
    made = draft(review(FILES), baseline, PublicationSnapshot(None), revision="r1")
    assert (made.compilation.withheld, made.compilation.whole) == (frozenset(), made.targets)
    assert (made.governance.after.left, made.governance.after.size, made.concerns_governance) == ((), 0, False)
    again = draft(review(FILES), Baseline.of_text(review(FILES)), PublicationSnapshot(None), revision="r2")
    assert (again.affected, again.warnings) == ((), ())


def test_no_path_needs_governance_and_no_change_of_files_is_refused():
    reviewed = review(FILES)
    governance = section().governance(reviewed.documents)
    assert tuple(governance.ungoverned_problems(["/"], reviewed.compilation.whole)) == ()
    assert section().judge_files(FILES, reviewed, lambda _: "no approval") == ChangeFindings()


def test_a_syncer_judges_and_writes_no_records():
    keeper, made = SectionKeeper(), None
    assert keeper.judge(made, Published()) is NO_CHANGE
    assert NO_CHANGE.reads(made) == SectionReads()
    assert NO_CHANGE.operations(None, None) == SectionOperations()
    assert keeper.standing(Published(revision="r1"), None).revision == "r1"
    assert keeper.standing(Published(revision="r9"), SigningRecord(8, 8, 8, "r8")).revision == "r8"
