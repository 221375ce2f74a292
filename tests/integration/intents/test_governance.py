"""Governance between git and ZooKeeper begins and ends only by an act, never by a push."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.repository import make_key, public
from zkdeployment.base.errors import RefusedError, TreeError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.edits import render_document
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.intents.documents import Approval, ServiceRelease
from zkdeployment.intents.rules.content import service_content
from zkdeployment.intents.rules.revisions import intent_snapshots
from zkdeployment.intents.verification import GitApprovals, approval_signer
from zkdeployment.publishing.daemon.keeper import section_keeper
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.rules.review import review
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from support.publishing import Publishing
    from zkdeployment.base.publication import LeftService

SHOP = ("p1", "store", "v1", "shop")
TREE = """\
/p1
  /front : front
    version = '1'
    /deploy
      /h1
      /h2
  /db : db
    version = '1'
    /deploy
      /h1
/other : other
  version = '1'
  /deploy
    /h1
"""
OTHER = {"h1": ["/other"]}
ALL = {"h1": ["/other", "/p1/db", "/p1/front"], "h2": ["/p1/front"]}
GROUP = """\
schema: zkdeployment/DeploymentIntentGroup/v1
metadata: {{project: p1, composite-app: store, version: v1, name: {name}}}
data:
  composite-profile: plain
  apps: {{{apps}}}
  state: {state}
"""
BOTH = "front: [/p1/front], db: [/p1/db]"


def group(state: str, *, apps: str = BOTH, name: str = "shop", tree: str = TREE, extra: str = "") -> str:
    """The document of a group; from Approved on, with the approval of its content in a tree."""
    text = GROUP.format(name=name, apps=apps, state=state) + extra
    if state == "Created":
        return text
    files = [SourceFile("a.zk", tree.encode()), SourceFile("i.yaml", text.replace(state, "Created").encode())]
    reviewed = review(files)
    (snapshot,) = intent_snapshots(reviewed.documents, reviewed.linted.tree).values()
    return f"{text}  approval: {{content: {snapshot.content.digest}, by: alice@example.com}}\n"


def left(publishing: Publishing) -> tuple[LeftService, ...]:
    with Session(publishing.zookeeper) as session:
        return ZooKeeperFleetReader(session).left()


def release(one: LeftService, tree: str = TREE, approval: Approval | None = None) -> str:
    """The document that releases a left service with its content in a tree."""
    reviewed = review([SourceFile("a.zk", tree.encode())])
    digest = service_content(one.path, one.target, reviewed.linted.tree).digest
    approval = approval or Approval(digest, "alice@example.com", "no approvals any more")
    return render_document(ServiceRelease(one.path, one.former, one.revision, approval, one.target).to_document())


def publish(publishing: Publishing, tree: str = TREE, **files: str | None) -> str:
    revision = publishing.push(tree, **files)
    publishing.sync()
    return revision


def test_a_group_that_is_removed_deploys_nothing_until_its_services_are_released(publishing: Publishing):
    publish(publishing, i_yaml=group("Created"))
    assert publishing.targets == OTHER
    revision = publish(publishing, i_yaml=None)
    assert publishing.targets == OTHER
    found = left(publishing)
    assert [(one.path, one.target, one.former, one.revision, one.is_withheld) for one in found] == [
        ("/p1/db", None, SHOP, revision, True),
        ("/p1/front", None, SHOP, revision, True),
    ]
    later = TREE.replace("      /h2\n", "      /h2\n      /h3\n").replace("version = '1'", "version = '2'")
    publish(publishing, later)
    assert publishing.targets == OTHER
    assert left(publishing) == found
    publish(publishing, later, r_yaml=release(found[1], later))
    assert publishing.targets == {"h1": ["/other", "/p1/front"], "h2": ["/p1/front"], "h3": ["/p1/front"]}
    assert left(publishing) == found[:1]


def test_a_terminated_group_that_is_removed_stays_undeployed(publishing: Publishing):
    for state in ("Instantiated", "Terminated"):
        publish(publishing, i_yaml=group(state))
    publish(publishing, i_yaml=None)
    assert publishing.targets == OTHER


def test_a_service_that_its_group_no_longer_names_stays_undeployed(publishing: Publishing):
    publish(publishing, i_yaml=group("Created"))
    publish(publishing, i_yaml=group("Created", apps="front: [/p1/front]"))
    assert publishing.targets == OTHER
    publish(publishing, i_yaml=group("Instantiated", apps="front: [/p1/front]"))
    assert publishing.targets == {"h1": ["/other", "/p1/front"], "h2": ["/p1/front"]}


def test_services_of_a_renamed_group_stay_under_approval(publishing: Publishing):
    publish(publishing, i_yaml=group("Created"))
    publish(publishing, i_yaml=group("Created", name="store"))
    assert (publishing.targets, left(publishing)) == (OTHER, ())
    publish(publishing, i_yaml=group("Instantiated", name="store"))
    assert publishing.targets == ALL


def test_a_deployed_service_that_leaves_its_group_may_not_change_until_it_is_released(publishing: Publishing):
    rule = "  update: approve\n"
    publish(publishing, i_yaml=group("Instantiated", extra=rule))
    publish(publishing, i_yaml=group("Instantiated", apps="front: [/p1/front]", extra=rule))
    assert publishing.targets == ALL
    (one,) = left(publishing)
    assert (one.path, one.is_withheld) == ("/p1/db", False)
    changed = TREE.replace("/db : db\n    version = '1'", "/db : db\n    version = '2'")
    publishing.push(changed)
    with pytest.raises(TreeError, match="/p1/db may not change: it left the governance of p1/store/v1/shop"):
        publishing.sync()
    publish(publishing, changed, r_yaml=release(one, changed))
    assert (publishing.targets, left(publishing)) == (ALL, ())


@pytest.mark.parametrize("interrupted", [1, 2, 3])
def test_a_service_that_leaves_after_an_interrupted_update_keeps_the_content_that_hosts_have(
    publishing: Publishing, monkeypatch: pytest.MonkeyPatch, interrupted: int
):
    rule = "  update: approve\n"
    publish(publishing, i_yaml=group("Instantiated", extra=rule))
    more = "".join(f"/more{n}\n" for n in range(20))
    changed = TREE.replace("/db : db\n    version = '1'", "/db : db\n    version = '2'") + more
    publishing.push(changed, i_yaml=group("Instantiated", extra=rule, tree=changed))
    publishing.interrupt(monkeypatch, after=interrupted)
    fewer = {"apps": "front: [/p1/front]", "extra": rule}
    publishing.push(changed, i_yaml=group("Instantiated", tree=changed, **fewer))
    with pytest.raises(
        TreeError, match="/p1/db may not change while it leaves the governance of p1/store/v1/shop"
    ):
        publishing.sync(force=True)
    publishing.push(TREE, i_yaml=group("Instantiated", **fewer))
    publishing.sync(force=True)
    assert publishing.targets == ALL
    (one,) = left(publishing)
    publish(publishing, TREE, r_yaml=release(one))
    assert left(publishing) == ()


def test_a_left_service_that_is_gone_from_the_tree_is_forgotten(publishing: Publishing):
    publish(publishing, i_yaml=group("Created"))
    publish(publishing, i_yaml=None)
    publish(publishing, TREE[TREE.index("/other") :] + "/p1\n")
    assert left(publishing) == ()


def test_a_left_service_comes_back_under_approval_with_a_new_group(publishing: Publishing):
    publish(publishing, i_yaml=group("Created"))
    publish(publishing, i_yaml=None)
    publish(publishing, i_yaml=group("Created", name="store"))
    assert (publishing.targets, left(publishing)) == (OTHER, ())


def test_a_release_counts_only_for_its_content_and_for_the_time_when_the_service_left(publishing: Publishing):
    publish(publishing, i_yaml=group("Created"))
    publish(publishing, i_yaml=None)
    _, front = left(publishing)
    changed = TREE.replace("/front : front\n    version = '1'", "/front : front\n    version = '2'")
    publish(publishing, changed, r_yaml=release(front))
    assert publishing.targets == OTHER
    publish(publishing, TREE, r_yaml=release(front))
    assert publishing.targets["h2"] == ["/p1/front"]
    publish(publishing, i_yaml=group("Instantiated"))
    publish(publishing, i_yaml=group("Terminated"))
    publish(publishing, i_yaml=None)
    assert publishing.targets == OTHER  # the release of the last time is still there


@pytest.mark.parametrize("interrupted", [1, 2, 3, 4])
def test_a_removal_that_was_interrupted_deploys_nothing(
    publishing: Publishing, monkeypatch: pytest.MonkeyPatch, interrupted: int
):
    more = "".join(f"/more{n}\n" for n in range(20))
    publish(publishing, i_yaml=group("Created"))
    publishing.push(TREE + more, i_yaml=None)
    publishing.interrupt(monkeypatch, after=interrupted)
    publishing.sync(force=True)
    assert publishing.targets == OTHER
    assert [one.path for one in left(publishing)] == ["/p1/db", "/p1/front"]


def test_a_forced_publication_of_the_whole_tree_keeps_left_services_unchanged(publishing: Publishing):
    publish(publishing, i_yaml=group("Created"))
    publish(publishing, i_yaml=None)
    found = left(publishing)
    publishing.put("/p1", {"by": "hand"})
    publishing.invalidate()
    publishing.sync(force=True)
    assert (publishing.targets, left(publishing)) == (OTHER, found)


@pytest.mark.parametrize("state", ["Created", "Approved", "Terminated"])
@pytest.mark.parametrize("had_intents", [False, True])
def test_a_new_group_over_deployed_services_is_refused(publishing: Publishing, state: str, *, had_intents: bool):
    others = {"o_yaml": group("Instantiated", apps="db: [/p1/db]", name="others")} if had_intents else {}
    publish(publishing, **others)
    publishing.push(TREE, i_yaml=group(state, apps="front: [/p1/front]"))
    with pytest.raises(TreeError, match=rf"i\.yaml:6:\d+: .*shop is {state}, .*intent adopt") as refused:
        publishing.sync()
    assert "/p1/front for h1, /p1/front for h2" in str(refused.value)
    assert publishing.targets == ALL


def test_a_new_app_over_deployed_services_is_refused(publishing: Publishing):
    publish(publishing, i_yaml=group("Created", apps="db: [/p1/db]"))
    publishing.push(TREE, i_yaml=group("Created"))
    with pytest.raises(TreeError, match="would undeploy services that are deployed without it: /p1/front for h1"):
        publishing.sync()


def test_a_group_that_takes_over_the_services_of_another_one_is_refused_while_they_are_deployed(
    publishing: Publishing,
):
    rule = "  update: approve\n"
    publish(publishing, i_yaml=group("Instantiated", extra=rule))
    fewer = group("Instantiated", apps="front: [/p1/front]", extra=rule)
    publishing.push(TREE, i_yaml=fewer, n_yaml=group("Created", apps="db: [/p1/db]", name="new"))
    with pytest.raises(TreeError, match="p1/store/v1/new is Created, but it would undeploy"):
        publishing.sync()


def test_an_adopted_group_changes_no_target(publishing: Publishing):
    publish(publishing)
    publish(publishing, i_yaml=group("Instantiated"))
    assert publishing.targets == ALL
    publish(publishing, i_yaml=group("Terminated"))
    assert publishing.targets == OTHER


class ApprovedPublishing:
    """A syncer with approvers, of whom alice is the only one."""

    def __init__(self, publishing: Publishing) -> None:
        self.publishing = publishing
        self.key: Path = make_key(publishing.directory, "alice")
        self.approvers = publishing.directory / "approvers"
        self.approvers.write_text(f"alice@example.com {public(self.key)}\n")

    def sync(self) -> None:
        source = self.publishing.source()
        approvals = GitApprovals(lambda: source.reader, self.approvers, None, time.time)
        with Session(self.publishing.zookeeper) as session:
            store = ZooKeeperPublications(session)
            keeper = section_keeper(store, self.publishing.directory / "accepted", approvals)
            Syncer(source, store, SystemClock(), self.publishing.memory(), keeper=keeper).sync()

    def approval(self, one: LeftService) -> Approval:
        """The signed approval of the release of a service."""
        reviewed = review([SourceFile("a.zk", TREE.encode())])
        digest = service_content(one.path, one.target, reviewed.linted.tree).digest
        unsigned = ServiceRelease(
            one.path, one.former, one.revision, Approval(digest, "alice@example.com"), one.target
        )
        return approval_signer(self.key)(unsigned.subject, unsigned.approval)


def test_who_removes_a_document_does_not_need_fewer_approvers(publishing: Publishing):
    approved = ApprovedPublishing(publishing)
    publishing.push(TREE, i_yaml=group("Created"))
    approved.sync()
    publishing.push(TREE, i_yaml=None)
    approved.sync()
    assert publishing.targets == OTHER
    db, front = left(publishing)
    publishing.push(TREE, r_yaml=release(front))
    with pytest.raises(RefusedError, match="the release of /p1/front does not count: it has no signature"):
        approved.sync()
    stolen = replace(approved.approval(front), signature=approved.approval(db).signature)
    publishing.push(TREE, r_yaml=release(front, approval=stolen))
    with pytest.raises(RefusedError, match="the release of /p1/front does not count"):
        approved.sync()
    publishing.push(TREE, r_yaml=release(front, approval=approved.approval(front)))
    approved.sync()
    assert publishing.targets == {"h1": ["/other", "/p1/front"], "h2": ["/p1/front"]}


def test_a_service_below_a_governed_path_is_published_with_an_intent_only(publishing: Publishing):
    publishing.governed = ("/p1",)
    publishing.push(TREE, i_yaml=group("Created", apps="front: [/p1/front]"))
    with pytest.raises(TreeError, match=r"a\.zk:7:3: /p1/db has no intent for h1: .* at and below /p1"):
        publishing.sync()
    publish(publishing, i_yaml=group("Created"))
    publishing.push(TREE, i_yaml=None)
    with pytest.raises(TreeError, match="/p1/front has no intent"):
        publishing.sync()
    assert publishing.targets == OTHER
