"""The approvals of deployed content: events of instances, also of removed documents, audit, rollback."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from support.branches import Branch
from zkdeployment.base.errors import NotFoundError, RefusedError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.documents.edits import render_document
from zkdeployment.fleet.operator import operator_adapters
from zkdeployment.intents.acts.intents import (
    IntentAdapters,
    IntentOrder,
    approve_intent,
    change_state,
    order_of,
    remove_intent,
    roll_back_intent,
)
from zkdeployment.intents.documents import (
    DeploymentIntentGroup,
    IntentState,
    UpdateRule,
    parse_subject,
)
from zkdeployment.intents.rules.instances import InstanceHistory, IntentAct, intent_history
from zkdeployment.intents.store import ZooKeeperIntents
from zkdeployment.publishing.acts.commits import Author
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import SyncOptions
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.service.act import Actor
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


ANN = Author("Ann", "ann@example.com")
SHOP = parse_subject("p1/store/v1/shop")
TREE = """\
/defaults
  greeting = '{}'
/p1
  /shop
    /front : web
      version = '1.0'
      greeting => /defaults greeting
      /deploy
        /h1
"""
OTHER = "/p2\n  /other : other\n    version = '1.0'\n    /deploy\n      /h1\n"


class Site:
    """A branch, and a syncer that publishes when it is told to."""

    def __init__(self, directory: Path, session: Session) -> None:
        self.branch = Branch(directory)
        self.commits = self.branch.commits()
        self.operator = operator_adapters(session)
        source = GitSource(str(self.branch.bare), directory / "syncer" / "tree", gap=0)
        self._syncer = Syncer(source, ZooKeeperPublications(session), SystemClock())

    def sync(self) -> None:
        self._syncer.sync(SyncOptions(force=True))

    def order(self, reason: str = "a reason") -> IntentOrder:
        adapters = IntentAdapters(self.operator, self.commits, ANN)
        return order_of(adapters, Actor("ann@host", time.time), SHOP, reason)

    def act(self, act: IntentAct) -> None:
        if act is IntentAct.APPROVE:
            approve_intent(self.commits, self.order("reviewed"))
        else:
            change_state(self.commits, self.order(), act)
        self.sync()

    def history(self) -> tuple[InstanceHistory, ...]:
        intents = self.operator.of(ZooKeeperIntents)
        return intent_history(SHOP, intents.record(SHOP), intents.former(SHOP))

    def document(self) -> Any:
        record = self.operator.of(ZooKeeperIntents).record(SHOP)
        assert record is not None
        return record

    def create(self, files: dict[str, str | bytes | None], **fields: Any) -> None:
        """Push files with the document of the group, and publish."""
        group = DeploymentIntentGroup(*SHOP, "plain", {"front": ("/p1/shop/front",)}, **fields)
        self.branch.push({**files, "shop.yaml": render_document(group.to_document())})
        self.sync()


@pytest.fixture
def site(zookeeper: str, tmp_path: Path) -> Iterator[Site]:
    with Session(zookeeper) as session:
        made = Site(tmp_path, session)
        made.branch.push({"b.zk": OTHER})
        made.sync()
        yield made


def test_the_history_names_the_revision_and_the_approver_and_stays_when_the_document_is_removed(site: Site):
    with pytest.raises(NotFoundError, match="no publication has an intent p1/store/v1/shop"):
        site.history()
    site.create({"a.zk": TREE.format("hello")})
    assert site.history() == ()
    for act in (IntentAct.APPROVE, IntentAct.INSTANTIATE):
        site.act(act)
    began = site.branch.tip()
    site.act(IntentAct.TERMINATE)
    (instance,) = site.history()
    begun, ended = instance.events
    assert [begun.kind.value, ended.kind.value] == ["instantiated", "terminated"]
    assert (begun.revision, begun.by, begun.reason) == (
        began,
        "Ann <ann@example.com>",
        "Instantiate p1/store/v1/shop: a reason",
    )
    assert (begun.approved_by, begun.approval_reason, begun.is_verified) == ("ann@example.com", "reviewed", False)
    assert begun.content == ended.content == site.document().content.digest

    remove_intent(site.commits, site.order(), is_terminating=False)
    site.sync()
    assert (site.operator.of(ZooKeeperIntents).record(SHOP), site.history()) == (None, (instance,))
    site.create({})
    site.act(IntentAct.APPROVE)
    site.act(IntentAct.INSTANTIATE)
    assert [one.events[0].kind.value for one in site.history()] == ["instantiated"] * 2
    assert site.history()[1] == instance
    recorded = [(act.by, act.what.partition(" (commit ")[0], act.reason) for act in site.operator.fleet.acts()]
    assert recorded[:4] == [
        ("ann@host", f"intent {verb} p1/store/v1/shop", reason)
        for verb, reason in (
            ("approve", "reviewed"),
            ("instantiate", "a reason"),
            ("terminate", "a reason"),
            ("remove", "a reason"),
        )
    ]


def test_a_rollback_restores_and_approves_the_content_of_an_instance(site: Site):
    site.create({"a.zk": TREE.format("hello")}, update=UpdateRule.APPROVE)
    for act in (IntentAct.APPROVE, IntentAct.INSTANTIATE, IntentAct.TERMINATE):
        site.act(act)
    (first,) = site.history()
    site.branch.push({"a.zk": TREE.format("bye"), "b.zk": OTHER.replace("1.0", "2.0")})
    site.sync()
    for unknown in (1, first.id + 1):
        with pytest.raises(NotFoundError, match=f"has no instance {unknown}: expected one of .*{first.id}"):
            roll_back_intent(site.commits, site.order(), unknown)
    assert roll_back_intent(site.commits, site.order("sessions are lost"), first.id).made
    site.sync()
    record = site.document()
    assert (record.state, record.content.digest) == (IntentState.APPROVED, first.events[0].content)
    assert (record.intent.approval.by, record.intent.approval.reason) == ("ann@example.com", "sessions are lost")
    assert site.branch.files()["b.zk"] == OTHER.replace("1.0", "2.0")  # the rest of the tree stays
    assert site.branch.ask("log", "-1", "--format=%s") == (
        f"Roll back to instance {first.id} of p1/store/v1/shop: sessions are lost"
    )
    assert not roll_back_intent(site.commits, site.order(), first.id).changed
    assert site.operator.fleet.acts()[-1].what.startswith(f"intent rollback to instance {first.id} of p1/store")

    site.act(IntentAct.INSTANTIATE)
    site.branch.push({"a.zk": TREE.format("again")})
    approve_intent(site.commits, site.order())
    site.sync()
    assert [event.kind.value for event in site.history()[0].events] == ["instantiated", "updated"]
    roll_back_intent(site.commits, site.order(), first.id)
    site.sync()
    assert (site.document().state, site.document().content.digest) == (
        IntentState.INSTANTIATED,
        first.events[0].content,
    )


def test_a_rollback_needs_permission_for_the_paths_that_it_restores(site: Site):
    site.create({"a.zk": TREE.format("hello")})
    narrow = site.document().intent
    wide = replace(narrow, apps={**narrow.apps, "db": ("/p3/db",)})
    service = "/p3\n  /db : db\n    version = '1.0'\n    /deploy\n      /h1\n"
    site.branch.push({"c.zk": service, "shop.yaml": render_document(wide.to_document())})
    site.sync()
    for act in (IntentAct.APPROVE, IntentAct.INSTANTIATE, IntentAct.TERMINATE):
        site.act(act)
    (first,) = site.history()
    document = render_document(narrow.to_document())
    tip = site.branch.push({"a.zk": TREE.format("bye"), "c.zk": "/p3\n", "shop.yaml": document})
    site.sync()

    def permit(refused: str, *paths: str) -> None:
        if refused in paths:
            raise RefusedError(f"{refused} is not permitted")

    for path in ("/p3/db", "/defaults"):
        with pytest.raises(RefusedError, match=f"{path} is not permitted"):
            roll_back_intent(site.commits, replace(site.order(), permit=partial(permit, path)), first.id)
    assert site.branch.tip() == tip
    assert roll_back_intent(site.commits, site.order(), first.id).made


def test_a_rollback_that_cannot_be_done_alone_or_in_the_present_state_is_refused(site: Site):
    site.create({"a.zk": TREE.format("hello") + OTHER, "b.zk": None})
    site.act(IntentAct.APPROVE)
    site.act(IntentAct.INSTANTIATE)
    (first,) = site.history()
    with pytest.raises(RefusedError, match="terminate it first"):
        roll_back_intent(site.commits, site.order(), first.id)
    site.act(IntentAct.TERMINATE)
    tip = site.branch.push({"a.zk": TREE.format("bye") + OTHER.replace("1.0", "2.0")})
    site.sync()
    with pytest.raises(RefusedError, match=r"cannot be restored alone: a\.zk would also change /p2/other"):
        roll_back_intent(site.commits, site.order(), first.id)
    assert site.branch.tip() == tip
