"""Acts on intents as commits, in a real repository."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.branches import Branch
from zkdeployment.base.errors import NotFoundError, RefusedError, TreeError
from zkdeployment.base.publication import LeftService
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.edits import render_document
from zkdeployment.documents.reading import read_documents
from zkdeployment.intents.acts.governance import ReleaseOrder, release_services
from zkdeployment.intents.acts.intents import (
    IntentOrder,
    adopt_intent,
    approve_intent,
    change_state,
    create_intent,
    remove_intent,
    replace_intent,
)
from zkdeployment.intents.documents import (
    RELEASE,
    Approval,
    ClusterIntents,
    DeploymentIntentGroup,
    IntentState,
    IntentSubject,
    UpdateRule,
    parse_subject,
)
from zkdeployment.intents.rules.content import service_content
from zkdeployment.intents.rules.instances import IntentAct, IntentRecord
from zkdeployment.intents.rules.revisions import change_refusals, intent_snapshots
from zkdeployment.publishing.acts.commits import Author, CommitOutcome
from zkdeployment.publishing.rules.review import Review, review

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.documents.collection import Documents
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits

ANN = Author("Ann", "ann@example.com")
SHOP = parse_subject("p1/store/v1/shop")
FILE = "intent-p1-store-v1-shop.yaml"
TREE = """\
/defaults
  greeting = '{greeting}'
/p1
  /shop
    /front : web
      version = '1.0'
      greeting => /defaults greeting
      /deploy
    /db : db-1
      /deploy
/net
  /vlan12 : vlan-1
    /deploy
"""
DEPLOYED = TREE.replace("greeting\n      /deploy\n", "greeting\n      /deploy\n        /h1\n")
GROUP = DeploymentIntentGroup(*SHOP, "plain", {"front": ("/p1/shop/front",)})


class Site:
    """A branch, and the documents that were published last."""

    def __init__(self, directory: Path) -> None:
        self.branch = Branch(directory)
        self.branch.push({"a.zk": TREE.format(greeting="hello")})
        self.commits: TreeCommits = self.branch.commits()
        self.records: dict[IntentSubject, IntentRecord] = {}
        self.published: str | None = None

    def publish(self) -> None:
        """Write the records of a publication of the tip."""
        reviewed = self.reviewed()
        self.published = self.branch.tip()
        for subject, now in intent_snapshots(reviewed.documents, reviewed.linted.tree).items():
            before = self.records.get(subject)
            approved = now.content if now.is_approved else None if before is None else before.approved
            self.records[subject] = IntentRecord(now.intent, now.state, (), now.content, approved)

    def order(self, subject: tuple[str, ...] = SHOP, reason: str = "a reason") -> IntentOrder:
        return IntentOrder(
            subject=subject,
            author=ANN,
            reason=reason,
            record=self.records.get(subject),
            published=self.published,
        )

    def refusals(self) -> list[str]:
        """Return why the syncer refuses the tip, by the life cycle."""
        files = [SourceFile(name, text.encode()) for name, text in self.branch.files(str(self.published)).items()]
        return [str(refusal) for refusal in change_refusals(files, self.reviewed())]

    def create(self, **fields: Any) -> None:
        create_intent(self.commits, self.order(), DeploymentIntentGroup(*SHOP, "plain", **fields))
        self.publish()

    def approve(self) -> None:
        approve_intent(self.commits, self.order())
        self.publish()

    def act(self, act: IntentAct, subject: tuple[str, ...] = SHOP) -> None:
        assert change_state(self.commits, self.order(subject), act).made
        self.publish()

    @property
    def subject_line(self) -> str:
        return self.branch.ask("log", "-1", "--format=%an <%ae>|%s", "main")

    def reviewed(self) -> Review:
        return review([SourceFile(name, text.encode()) for name, text in self.branch.files().items()])

    def documents(self) -> Documents:
        return self.reviewed().documents

    def value(self) -> Any:
        contents = read_documents([SourceFile(FILE, self.branch.files()[FILE].encode())]).contents
        return contents["intent", SHOP]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_group_lives_from_its_creation_to_its_removal(site: Site) -> None:
    site.create(apps={"front": ("/p1/shop/front",)})
    assert site.subject_line == "Ann <ann@example.com>|Create p1/store/v1/shop: a reason"
    site.approve()
    assert site.subject_line == "Ann <ann@example.com>|Approve p1/store/v1/shop: a reason"
    data = site.value()["data"]
    digest = data["approval"]["content"]
    assert data["state"] == "Approved"
    assert data["approval"] == {"content": digest, "by": "ann@example.com", "reason": "a reason"}
    again = approve_intent(site.commits, site.order())
    assert (again.made, again.changed, again.commit) == (False, False, site.branch.tip())
    for act, state in (
        (IntentAct.INSTANTIATE, "Instantiated"),
        (IntentAct.TERMINATE, "Terminated"),
        (IntentAct.INSTANTIATE, "Instantiated"),
        (IntentAct.TERMINATE, "Terminated"),
    ):
        site.act(act)
        assert site.value()["data"]["state"] == state
        expected = f"p1/store/v1/shop, approved by ann@example.com: it is {state.lower()} already"
        with pytest.raises(RefusedError, match=expected):
            change_state(site.commits, site.order(), act)
    with pytest.raises(RefusedError, match="hosts still undeploy its last instance"):
        remove_intent(site.commits, site.order(), is_terminating=True)
    assert remove_intent(site.commits, site.order(), is_terminating=False).made
    assert FILE not in site.branch.files()


def test_an_act_is_refused_while_an_earlier_one_is_not_published(site: Site) -> None:
    site.create(apps={"front": ("/p1/shop/front",)})
    approve_intent(site.commits, site.order())
    assert not approve_intent(site.commits, site.order()).changed
    with pytest.raises(RefusedError, match="an earlier act on p1/store/v1/shop is not published yet"):
        change_state(site.commits, site.order(), IntentAct.INSTANTIATE)
    site.publish()
    site.act(IntentAct.INSTANTIATE)


class TestAPushThatOvertookAnInstantiation:
    """A group is instantiated, and before the syncer publishes that, its content changes."""

    @pytest.fixture
    def overtaken(self, site: Site) -> Site:
        site.create(apps={"front": ("/p1/shop/front",)})
        site.approve()
        assert change_state(site.commits, site.order(), IntentAct.INSTANTIATE).made
        site.branch.push({"a.zk": TREE.format(greeting="good day")})
        assert "its content has changed since it was approved" in site.refusals()[0]
        return site

    def test_the_new_content_can_be_approved_and_instantiated(self, overtaken: Site) -> None:
        with pytest.raises(RefusedError, match="is Created: its content has changed since it was approved by ann"):
            change_state(overtaken.commits, overtaken.order(), IntentAct.INSTANTIATE)
        assert approve_intent(overtaken.commits, overtaken.order()).made
        assert (overtaken.value()["data"]["state"], overtaken.refusals()) == ("Approved", [])
        overtaken.publish()
        overtaken.act(IntentAct.INSTANTIATE)

    def test_the_instantiation_can_be_withdrawn(self, overtaken: Site) -> None:
        assert change_state(overtaken.commits, overtaken.order(), IntentAct.TERMINATE).made
        assert (overtaken.value()["data"]["state"], overtaken.refusals()) == ("Terminated", [])


def test_an_act_on_a_tip_that_is_refused_for_another_reason_does_not_wait_for_its_publication(site: Site) -> None:
    site.create(apps={"front": ("/p1/shop/front",)})
    site.approve()
    commit = change_state(site.commits, site.order(), IntentAct.INSTANTIATE).commit
    order = replace(site.order(), refused=frozenset({commit}))
    again = change_state(site.commits, order, IntentAct.INSTANTIATE)
    assert (again.commit, again.changed) == (commit, False)
    assert change_state(site.commits, order, IntentAct.TERMINATE).made
    assert site.value()["data"]["state"] == "Terminated"
    order = replace(order, refused=frozenset({str(site.branch.tip())}))
    with pytest.raises(RefusedError, match="the syncer refuses the tip: approve or terminate the intent first"):
        remove_intent(site.commits, order, is_terminating=False)


def test_a_refused_update_in_place_can_be_approved_afterwards(site: Site) -> None:
    site.create(apps={"front": ("/p1/shop/front",)}, update=UpdateRule.APPROVE)
    site.approve()
    site.act(IntentAct.INSTANTIATE)
    site.branch.push({"a.zk": TREE.format(greeting="good day")})
    assert site.refusals()
    assert approve_intent(site.commits, site.order()).made
    assert (site.value()["data"]["state"], site.refusals()) == ("Instantiated", [])


def test_the_termination_of_a_group_whose_document_was_removed_brings_the_document_back(site: Site) -> None:
    site.create(apps={"front": ("/p1/shop/front",)})
    site.branch.push({"a.zk": DEPLOYED.format(greeting="hello")})
    site.approve()
    site.act(IntentAct.INSTANTIATE)
    before = site.value()
    site.branch.push({FILE: None})
    assert "its services are deployed; terminate it first" in site.refusals()[0]
    with pytest.raises(
        NotFoundError, match="'zkdeployment intent terminate p1/store/v1/shop' brings the document"
    ):
        approve_intent(site.commits, site.order())
    assert change_state(site.commits, site.order(), IntentAct.TERMINATE).made
    assert site.value() == {**before, "data": {**before["data"], "state": "Terminated"}}
    assert site.refusals() == []


def test_an_act_on_a_document_in_a_file_with_an_error_is_refused(site: Site) -> None:
    site.create(apps={"front": ("/p1/shop/front",)})
    site.branch.push({FILE: f"{site.branch.files()[FILE]}---\nkey: 1\nkey: 2\n"})
    with pytest.raises(TreeError, match=r"its file has an error at .*: key is given twice"):
        approve_intent(site.commits, site.order())


def test_an_unapproved_intent_is_not_instantiated(site: Site) -> None:
    site.create(apps={"front": ("/p1/shop/front",)})
    with pytest.raises(RefusedError, match="p1/store/v1/shop is Created: it must be approved first"):
        change_state(site.commits, site.order(), IntentAct.INSTANTIATE)
    with pytest.raises(NotFoundError, match="there is no intent p1/store/v1/other"):
        change_state(site.commits, site.order(parse_subject("p1/store/v1/other")), IntentAct.INSTANTIATE)


def test_a_content_that_changed_since_its_approval_is_not_instantiated_and_the_changes_are_named(
    site: Site,
) -> None:
    site.create(apps={"front": ("/p1/shop/front",)})
    site.approve()
    site.branch.push({"a.zk": TREE.format(greeting="good day")})
    with pytest.raises(
        RefusedError,
        match=r"p1/store/v1/shop is Created: its content has changed since it was"
        r" approved by ann@example\.com; approve it again \(changed: /defaults, /p1/shop/front\)",
    ):
        change_state(site.commits, site.order(), IntentAct.INSTANTIATE)
    wider = DeploymentIntentGroup(*SHOP, "plain", {"front": ("/p1/shop/front",), "db": ("/p1/shop/db",)})
    assert replace_intent(site.commits, site.order(), wider).made
    with pytest.raises(RefusedError, match=r"\(changed: apps, /defaults, /p1/shop/db, /p1/shop/db/deploy,"):
        change_state(site.commits, site.order(), IntentAct.INSTANTIATE)
    site.approve()
    site.act(IntentAct.INSTANTIATE)


def test_only_the_content_that_was_shown_is_approved(site: Site) -> None:
    site.create(apps={"front": ("/p1/shop/front",)})
    shown = f"sha256:{'0' * 64}"
    with pytest.raises(RefusedError, match="changed after it was shown: expected sha256:000"):
        approve_intent(site.commits, site.order(), content=shown)

    def sign(subject: IntentSubject, approval: Approval) -> Approval:
        return replace(approval, signature=subject[3])

    assert approve_intent(site.commits, replace(site.order(), sign=sign)).made
    approval = site.value()["data"]["approval"]
    assert (approval["signature"], approval["state"]) == ("shop", "Approved")


def test_an_instantiated_group_does_not_change_and_is_not_removed(site: Site) -> None:
    site.create(apps={"front": ("/p1/shop/front",)})
    site.approve()
    site.act(IntentAct.INSTANTIATE)
    other = DeploymentIntentGroup(*SHOP, "large", GROUP.apps)
    with pytest.raises(RefusedError, match=r"is Instantiated.*terminate it first \(changed: composite-profile\)"):
        replace_intent(site.commits, site.order(), other)
    with pytest.raises(RefusedError, match=r"is Instantiated.*terminate it first"):
        remove_intent(site.commits, site.order(), is_terminating=False)
    with pytest.raises(RefusedError, match=r"is Instantiated.*terminate it first"):
        approve_intent(site.commits, site.order())
    assert not replace_intent(site.commits, site.order(), GROUP).changed


def test_a_group_that_is_updated_in_place_needs_the_approval_in_the_same_change(site: Site) -> None:
    site.create(apps={"front": ("/p1/shop/front",)}, update=UpdateRule.APPROVE)
    site.approve()
    site.act(IntentAct.INSTANTIATE)
    other = DeploymentIntentGroup(*SHOP, "large", GROUP.apps, update=UpdateRule.APPROVE)
    with pytest.raises(RefusedError, match="its new content must be approved in the same change"):
        replace_intent(site.commits, site.order(), other)


def test_a_cluster_is_applied_without_approval(site: Site) -> None:
    ams = ClusterIntents("ams", "web-server", {"vlan12": ("/net/vlan12",)})
    create_intent(site.commits, site.order(ams.subject), ams)
    site.publish()
    with pytest.raises(RefusedError, match="there is no act 'approve' for clusters"):
        approve_intent(site.commits, site.order(ams.subject))
    site.act(IntentAct.APPLY, ams.subject)
    with pytest.raises(RefusedError, match="ams/web-server: it is applied already; terminate it first"):
        change_state(site.commits, site.order(ams.subject), IntentAct.APPLY)
    site.act(IntentAct.TERMINATE, ams.subject)


def test_a_new_group_over_deployed_services_is_not_committed(site: Site) -> None:
    site.branch.push({"a.zk": DEPLOYED.format(greeting="hello")})
    with pytest.raises(RefusedError, match=r"would undeploy .*intent adopt p1/store/v1/shop"):
        site.create(apps={"front": ("/p1/shop/front",)})


def test_deployed_services_are_adopted_unchanged(site: Site) -> None:
    document = render_document(GROUP.to_document())
    tip = site.branch.push({"a.zk": DEPLOYED.format(greeting="hello"), "i.yaml": document})
    whole = site.reviewed().compilation.whole
    with pytest.raises(RefusedError, match=r"cannot adopt .*: /p1/shop/front for h1"):
        adopt_intent(site.commits, site.order())
    assert site.branch.tip() == tip
    assert adopt_intent(site.commits, replace(site.order(), deployed=whole)).made
    assert site.subject_line == "Ann <ann@example.com>|Adopt p1/store/v1/shop: a reason"
    site.publish()
    record = site.records[SHOP]
    assert (record.state, record.approved) == (IntentState.INSTANTIATED, record.content)
    with pytest.raises(RefusedError, match="it is instantiated already"):
        adopt_intent(site.commits, replace(site.order(), deployed=whole))


def test_left_services_are_released_and_settled_releases_are_removed(site: Site) -> None:
    front = LeftService("/p1/shop/front", None, SHOP, "r1")
    db = LeftService("/p1/shop/db", None, SHOP, "r1")

    def release(path: str, *left: LeftService) -> CommitOutcome:
        order = ReleaseOrder(paths=[path], left=left, author=ANN, reason="no approvals any more")
        return release_services(site.commits, order)

    with pytest.raises(NotFoundError, match=r"/p1/shop is not .* \(/p1/shop/db, /p1/shop/front\)"):
        release("/p1/shop", front, db)
    assert release("/p1/shop/front", front, db).made
    assert site.subject_line == "Ann <ann@example.com>|Release /p1/shop/front: no approvals any more"
    assert not release("/p1/shop/front", front, db).changed
    (document,) = site.documents().of(RELEASE).values()
    digest = service_content("/p1/shop/front", None, site.reviewed().linted.tree).digest
    assert document.releases(front, digest)
    assert release("/p1/shop/db", db).made
    assert [one.path for one in site.documents().of(RELEASE).values()] == ["/p1/shop/db"]


def test_a_result_with_errors_is_not_committed(site: Site) -> None:
    before = site.branch.tip()
    with pytest.raises(TreeError, match="expected the path of a node"):
        create_intent(site.commits, site.order(), DeploymentIntentGroup(*SHOP, "plain", {"front": ("p1",)}))
    assert site.branch.tip() == before
