"""Acts on intents where approvals need a signature, in a real repository and with real keys."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.branches import Branch
from support.repository import make_key, public
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.publication import LeftService
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.edits import render_document
from zkdeployment.intents.acts.governance import ReleaseOrder, pending_releases, release_services
from zkdeployment.intents.acts.intents import (
    IntentOrder,
    adopt_files,
    adopt_intent,
    approve_files,
    approve_intent,
    change_state,
    create_intent,
    replace_intent,
    replaced_approvals,
    roll_back_intent,
)
from zkdeployment.intents.documents import (
    RELEASE,
    Approval,
    DeploymentIntentGroup,
    IntentState,
    ServiceRelease,
    UpdateRule,
)
from zkdeployment.intents.rules.approvals import counted_approvals
from zkdeployment.intents.rules.content import intent_content
from zkdeployment.intents.rules.edits import find_intent
from zkdeployment.intents.rules.instances import (
    InstanceEvent,
    InstanceEventKind,
    IntentAct,
    IntentInstance,
    IntentRecord,
)
from zkdeployment.intents.verification import approval_signer
from zkdeployment.publishing.acts.commits import Author, BranchSnapshot, CommitOrder, CommitOutcome, FileChanges
from zkdeployment.publishing.rules.review import check_change, review

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.publishing.sources.git.act_commits import TreeCommits

ANN = Author("Ann", "ann@example.com")
EVE = Author("eve", "eve@server")
TREE = "/shop\n  /web : web\n    version = '{}'\n    /deploy\n      /h1\n"
GROUP = DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", {"web": ("/shop/web",)})
COMMAND = "zkdeployment intent approve p1/store/v1/shop --key FILE"
HINT = f"; this fleet needs signed approvals; use '{COMMAND}' at a terminal"
UNSIGNED = f"its approval does not count: it has no signature by one of the approvers{HINT}"


class Site:
    """A branch, the keys of people and of the service, and the last published form of the group."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.branch = Branch(directory)
        self.keys = {name: make_key(directory, name) for name in ("ann", "bob", "eve", "service")}
        self.approvers = self.allow("approvers", "ann", "bob")
        self.signers = self.allow("signers", "ann", "bob", "eve", "service")
        self.record: IntentRecord | None = None

    def allow(self, file: str, *names: str) -> Path:
        path = self.directory / file
        path.write_text("".join(f"{name}@example.com {public(self.keys[name])}\n" for name in names))
        return path

    def push(self, version: str, group: DeploymentIntentGroup, signer: str | None = None) -> str:
        """Push the tree with the group, signed by a person if one is named; return the revision."""
        if signer is not None:
            self.branch.clone.git("config", "gpg.format", "ssh")
            self.branch.clone.git("config", "user.signingkey", str(self.keys[signer]))
        files = {"a.zk": TREE.format(version), "i.yaml": render_document(group.to_document())}
        return self.branch.push(files, *([] if signer is None else ["-S"]))

    def commits(self, signer: str | None = None, *, rules: Path | None = None) -> TreeCommits:
        """Return the branch for commits, which a person or the service signs if one is named."""
        if signer is None:
            return self.branch.commits(approvers=self.approvers, rules=rules)
        key = self.keys[signer]
        return self.branch.commits(
            f"acts-{signer}", approvers=self.approvers, allowed_signers=self.signers, signing_key=key
        )

    @property
    def files(self) -> list[SourceFile]:
        return [SourceFile(name, text.encode()) for name, text in self.branch.files().items()]

    def group(self) -> DeploymentIntentGroup:
        intent = find_intent(self.files, GROUP.subject).intent
        assert isinstance(intent, DeploymentIntentGroup)
        return intent

    def publish(self, *, counts: bool) -> None:
        """Write the records of a publication of the tip; ``counts`` is whether the approval counts."""
        snapshot = find_intent(self.files, GROUP.subject).snapshot
        state = snapshot.state if counts else IntentState.CREATED
        approved = snapshot.content if counts else None
        self.record = IntentRecord(snapshot.intent, state, (), snapshot.content, approved)

    def approved(
        self, version: str, approver: str | None, state: IntentState, last: int = 0
    ) -> DeploymentIntentGroup:
        """Return the group with an approval of its content, signed by a person if one is named.

        ``last`` is the number of the last instance.
        """
        tree = review([SourceFile("a.zk", TREE.format(version).encode())]).linted.tree
        content = intent_content(GROUP, tree).digest
        approval = Approval(content, f"{approver}@example.com", "go")
        if approver is not None:
            approval = replace(approval, state="Approved", instance=last)
            approval = approval_signer(self.keys[approver])(GROUP.subject, approval)
        return replace(GROUP, state=state, approval=approval)

    def publish_instance(self, signer: str | None = None) -> None:
        """Write the record of an ended instance with the version 1; the tip has the version 2."""
        revision = self.push("1", GROUP, signer)
        content = find_intent(self.files, GROUP.subject).snapshot.content.digest
        event = InstanceEvent(InstanceEventKind.INSTANTIATED, 7, 1.0, "ann", revision, "", content, "bob")
        self.push("2", GROUP, signer)
        self.publish(counts=False)
        assert self.record is not None
        instance = IntentInstance(7, 1.0, "ann", 7, GROUP.apps, (), 2.0, events=(event,))
        self.record = replace(self.record, instances=(instance,))

    @property
    def order(self) -> IntentOrder:
        return IntentOrder(subject=GROUP.subject, author=ANN, record=self.record, reason="go")

    def signed(self, name: str) -> IntentOrder:
        """The order of an act that an approver signs."""
        return replace(self.order, sign=approval_signer(self.keys[name], self.approvers))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def restore(branch: BranchSnapshot) -> FileChanges:
    """Return the change that restores all files of the past revision."""
    return FileChanges({file.name: file.content for file in branch.past_files}, "Restore")


def test_an_approval_without_the_signature_of_an_approver_is_not_committed(site: Site):
    tip = site.push("1", GROUP)
    commits = site.commits()
    with pytest.raises(RefusedError, match=f"p1/store/v1/shop is not approved: {UNSIGNED}"):
        approve_intent(commits, site.order)
    with pytest.raises(RefusedError, match=r"its signature is not by one of the keys in"):
        approve_intent(commits, replace(site.order, sign=approval_signer(site.keys["eve"])))
    assert site.branch.tip() == tip
    # The verb shows what would be approved before it asks and signs.
    assert approve_intent(commits, site.order, dry_run=True).changed
    assert approve_intent(commits, site.signed("bob")).made
    assert site.group().state is IntentState.APPROVED


def test_a_group_whose_approval_has_no_signature_is_approved_again_before_it_is_instantiated(site: Site):
    tip = site.push("1", site.approved("1", None, IntentState.APPROVED))
    site.publish(counts=False)
    commits = site.commits()
    with pytest.raises(RefusedError, match=f"is Created, approved by None@example.com: {UNSIGNED}"):
        change_state(commits, site.order, IntentAct.INSTANTIATE)
    assert site.branch.tip() == tip
    assert approve_intent(commits, site.signed("bob")).made
    site.publish(counts=True)
    assert change_state(commits, site.order, IntentAct.INSTANTIATE).made
    site.publish(counts=True)
    assert change_state(commits, site.order, IntentAct.TERMINATE).made


def test_an_approval_without_an_instance_begins_no_instance_although_a_publication_accepted_it(site: Site):
    site.push("1", site.approved("1", None, IntentState.APPROVED))
    site.publish(counts=True)
    with pytest.raises(RefusedError, match="it does not name its instance; approve"):
        change_state(site.commits(), site.order, IntentAct.INSTANTIATE)
    assert approve_intent(site.commits(), site.signed("bob")).made
    site.publish(counts=True)
    assert change_state(site.commits(), site.order, IntentAct.INSTANTIATE).made


def test_a_terminated_group_is_approved_again_before_it_is_instantiated(site: Site):
    sign = approval_signer(site.keys["bob"], site.approvers)
    site.push("1", GROUP)
    assert approve_intent(site.commits(), replace(site.order, sign=sign)).made
    first = site.group().approval
    assert first is not None
    for act in (IntentAct.INSTANTIATE, IntentAct.TERMINATE):
        site.publish(counts=True)
        assert change_state(site.commits(), site.order, act).made
    site.publish(counts=True)
    with pytest.raises(RefusedError, match="it was given for an instance that has ended"):
        change_state(site.commits(), site.order, IntentAct.INSTANTIATE)
    assert approve_intent(site.commits(), replace(site.order, sign=sign)).made
    second = site.group().approval
    assert second is not None
    assert (second.by, second.instance > first.instance) == ("bob@example.com", True)
    site.publish(counts=True)
    assert change_state(site.commits(), site.order, IntentAct.INSTANTIATE).made


def test_the_author_of_a_content_cannot_approve_it_in_an_act(site: Site):
    site.push("1", GROUP, "ann")
    commits = site.commits("service")
    with pytest.raises(RefusedError, match=f"ann@example.com signed the approval and also the commit.*{HINT}"):
        approve_intent(commits, site.signed("ann"))
    assert approve_intent(commits, site.signed("bob")).made


def test_an_act_of_the_service_does_not_make_the_author_of_the_nodes_an_approver(site: Site):
    site.push("0", GROUP, "eve")
    site.push("1", GROUP, "ann")
    commits = site.commits("service")
    for profile in ("other", "another"):
        changed = replace(GROUP, composite_profile=profile)
        assert replace_intent(commits, replace(site.order, author=EVE), changed).made
    with pytest.raises(RefusedError, match=r"ann@example.com signed the approval and also the commit"):
        approve_intent(commits, site.signed("ann"))
    assert approve_intent(commits, site.signed("bob")).made
    # After the approval by another person, the author of the nodes may approve changes by others.
    site.publish(counts=True)
    assert replace_intent(commits, replace(site.order, author=EVE), GROUP).made
    site.publish(counts=False)
    assert approve_intent(commits, site.signed("ann")).made


def test_the_author_of_nodes_cannot_approve_a_group_that_the_service_creates_over_them(site: Site):
    site.push("1", replace(GROUP, name="former"), "ann")
    site.branch.push({"i.yaml": "# nothing\n"}, "-S")
    site.branch.clone.git("config", "user.signingkey", str(site.keys["bob"]))
    site.branch.push({"b.zk": "/other : other\n"}, "-S")
    commits = site.commits("service")
    assert create_intent(commits, replace(site.order, author=EVE, deployed={}), GROUP).made
    with pytest.raises(RefusedError, match=r"ann@example.com signed the approval and also the commit"):
        approve_intent(commits, site.signed("ann"))
    assert approve_intent(commits, site.signed("bob")).made


def test_other_acts_are_judged_with_the_approvals_in_their_result(site: Site):
    now = int(time.time())
    past = site.push("1", site.approved("1", "bob", IntentState.INSTANTIATED, last=now + 100), "ann")
    site.push("2", site.approved("1", "bob", IntentState.TERMINATED), "eve")
    by_bob = CommitOrder(author=ANN, compute=restore, check=check_change, back_to=past)
    # The commit of the one who approved the content would bring it back.
    with pytest.raises(RefusedError, match=r"bob@example.com signed the approval and also the commit"):
        site.commits("bob").commit(by_bob)
    assert site.commits("service").commit(by_bob).made
    site.push("2", site.approved("1", "bob", IntentState.TERMINATED, last=now + 100), "eve")
    with pytest.raises(RefusedError, match="it was given for an instance that has ended"):
        site.commits("service").commit(by_bob)
    site.push("1", site.approved("1", None, IntentState.INSTANTIATED), "ann")
    unsigned = site.push("1", site.approved("1", None, IntentState.TERMINATED), "ann")
    again = replace(by_bob, back_to=site.branch.ask("rev-parse", f"{unsigned}~1"))
    for dry_run in (True, False):
        with pytest.raises(RefusedError, match=UNSIGNED):
            site.commits("service").commit(again, dry_run=dry_run)
    # An act that leaves the group alone does not depend on its approval.
    site.push("1", site.approved("1", None, IntentState.INSTANTIATED), "ann")
    site.branch.push({"b.zk": "/other : other\n"}, "-S")
    other = replace(GROUP, name="other", apps={"other": ("/other",)})
    assert create_intent(site.commits("service"), replace(site.order, subject=other.subject), other).made


def test_several_people_approve_where_a_rule_demands_it(site: Site):
    rules = site.directory / "rules"
    rules.write_text("/shop 2 - ann@example.com bob@example.com\n")
    site.push("1", GROUP)
    commits = site.commits(rules=rules)
    sign = {name: approval_signer(site.keys[name], site.approvers) for name in ("ann", "bob")}
    assert approve_intent(commits, replace(site.order, sign=sign["ann"])).made
    site.publish(counts=False)
    one = "1 of 2 approvals for /shop: ann@example.com; needs 1 more of bob@example.com"
    assert site.record is not None
    assert commits.approvals is not None
    counts = counted_approvals(site.record.snapshot, commits.approvals.rules_in_force())
    assert [str(count) for count in counts] == [one]
    with pytest.raises(RefusedError, match=f"its approval does not count: {one}"):
        change_state(commits, site.order, IntentAct.INSTANTIATE)
    with pytest.raises(RefusedError, match=f"has approved p1/store/v1/shop already: {one}"):
        approve_intent(commits, replace(site.order, sign=sign["ann"]))
    assert approve_intent(commits, replace(site.order, sign=sign["bob"])).made
    approval = site.group().approval
    assert approval is not None
    assert (approval.by, [one.by for one in approval.also]) == ("ann@example.com", ["bob@example.com"])
    site.publish(counts=True)
    assert change_state(commits, site.order, IntentAct.INSTANTIATE).made


def test_a_rollback_needs_an_approval_that_counts(site: Site):
    site.publish_instance()
    tip, commits = site.branch.tip(), site.commits()
    with pytest.raises(RefusedError, match=r"not rolled back: .* no signature .* an approver uses .* --key FILE'"):
        roll_back_intent(commits, site.order, 7)
    assert roll_back_intent(commits, site.order, 7, dry_run=True).changed
    assert site.branch.tip() == tip
    assert roll_back_intent(commits, site.signed("bob"), 7).made
    assert (site.group().state, site.branch.files()["a.zk"]) == (IntentState.APPROVED, TREE.format("1"))


def test_a_rollback_whose_commit_the_approver_also_signs_waits_for_another_approver(site: Site):
    site.publish_instance("service")
    assert roll_back_intent(site.commits("bob"), site.signed("bob"), 7).made
    site.publish(counts=False)
    assert approve_intent(site.commits("ann"), site.signed("ann")).made
    site.publish(counts=True)


def test_a_rollback_collects_the_approvals_that_a_rule_demands(site: Site):
    rules = site.directory / "rules"
    rules.write_text("/shop 2 - ann@example.com bob@example.com\n")
    site.publish_instance()
    commits = site.commits(rules=rules)
    assert roll_back_intent(commits, site.signed("ann"), 7).made
    site.publish(counts=False)
    assert approve_intent(commits, site.signed("bob")).made
    site.publish(counts=True)
    assert change_state(commits, site.order, IntentAct.INSTANTIATE).made


def test_a_change_in_place_that_lacks_approvals_is_refused_with_the_command_that_collects_them(site: Site):
    rules = site.directory / "rules"
    rules.write_text("/shop 2 - ann@example.com bob@example.com\n")
    site.push("1", replace(GROUP, update=UpdateRule.APPROVE))
    commits = site.commits(rules=rules)
    for name in ("ann", "bob"):
        assert approve_intent(commits, site.signed(name)).made
        site.publish(counts=name == "bob")
    assert change_state(commits, site.order, IntentAct.INSTANTIATE).made
    site.publish(counts=True)
    published = site.branch.tip()
    site.push("2", site.group())
    with pytest.raises(RefusedError, match=r"needs 1 more of bob.*; each approver uses '.* --work-tree DIRECTORY"):
        approve_intent(commits, replace(site.signed("ann"), published=published))
    files = site.files
    for name in ("ann", "bob"):
        files = list(FileChanges(approve_files(files, site.signed(name)), "").apply(files))
    tip = site.branch.push({file.name: file.content for file in files})
    assert commits.at_tip()[0] == tip
    assert commits.approvals is not None
    assert commits.approvals.objection(find_intent(files, GROUP.subject).snapshot, tip) is None


def test_a_signed_approval_in_files_is_followed_only_by_signed_ones(site: Site):
    site.push("1", GROUP)
    files = list(FileChanges(approve_files(site.files, site.signed("ann")), "").apply(site.files))
    for change in (approve_files, adopt_files):
        with pytest.raises(RefusedError, match=r"p1/store/v1/shop in these files is signed; .* --key FILE"):
            change(files, site.order)
    assert approve_files(files, site.signed("bob"))


def test_an_adoption_without_all_signatures_is_refused_with_the_commands_of_an_adoption(site: Site):
    site.push("1", GROUP)
    order = replace(site.order, deployed=review(site.files).compilation.whole)
    with pytest.raises(RefusedError, match=r"use 'zkdeployment intent adopt p1/store/v1/shop --key FILE'"):
        adopt_intent(site.commits(), order)
    order = replace(order, sign=site.signed("ann").sign)
    rules = site.directory / "rules"
    rules.write_text("/shop 2 - ann@example.com bob@example.com\n")
    words = "--work-tree DIRECTORY --key FILE"
    with pytest.raises(
        RefusedError, match=f"adopt p1/store/v1/shop {words}', .* approve p1/store/v1/shop {words}'"
    ):
        adopt_intent(site.commits(rules=rules), order)
    assert adopt_intent(site.commits(), order).made


def test_a_release_collects_the_approvals_that_a_rule_demands(site: Site):
    rules = site.directory / "rules"
    rules.write_text("/shop 2 - ann@example.com bob@example.com\n")
    site.branch.push({"a.zk": TREE.format("1")})
    commits = site.commits(rules=rules)
    left = LeftService("/shop/web", None, GROUP.subject, "r1")
    order = ReleaseOrder(paths=[left.path], left=[left], author=ANN, reason="go")

    def release(name: str | None = None) -> CommitOutcome:
        sign = None if name is None else approval_signer(site.keys[name], site.approvers)
        return release_services(commits, replace(order, sign=sign))

    def document() -> ServiceRelease:
        (found,) = review(site.files).documents.of(RELEASE).values()
        return found

    with pytest.raises(RefusedError, match="does not count: it has no signature by one of the approvers"):
        release()
    first = release("ann")
    one = "1 of 2 approvals for /shop: ann@example.com; needs 1 more of bob@example.com"
    assert [*pending_releases(commits, first, order.paths)] == [f"/shop/web is not released yet: {one}"]
    assert not document().releases(left, document().approval.content)
    (name,) = (file.name for file in site.files if file.name.startswith("release-"))
    text = next(file.content for file in site.files if file.name == name).decode()
    site.branch.push({name: None, "releases.yaml": f"# moved by hand\n{text}"})
    with pytest.raises(RefusedError, match=f"has approved the release of /shop/web already: {one}"):
        release("ann")
    second = release("bob")
    assert [*pending_releases(commits, second, order.paths)] == []
    assert document().releases(left, document().approval.content)
    assert [file.content[:15] for file in site.files if b"Release/v1" in file.content] == [b"# moved by hand"]
    assert not release("ann").changed


def test_who_may_not_approve_a_path_does_not(site: Site):
    rules = site.directory / "rules"
    rules.write_text("/shop 1 - bob@example.com\n")
    site.push("1", GROUP)
    commits = site.commits(rules=rules)
    with pytest.raises(RefusedError, match=r"ann@example\.com may not approve /shop"):
        approve_intent(commits, site.signed("ann"))
    assert approve_intent(commits, site.signed("bob")).made


def test_an_old_approval_begins_no_instance(site: Site, monkeypatch: pytest.MonkeyPatch):
    rules = site.directory / "rules"
    rules.write_text("/ 1 30 *\n")
    site.push("1", GROUP)
    commits, sign = site.commits(rules=rules), approval_signer(site.keys["bob"], site.approvers)
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda now=time.time: now() - 31 * 86_400)
        assert approve_intent(commits, replace(site.order, sign=sign)).made
    site.publish(counts=True)
    with pytest.raises(RefusedError, match="it has expired: approvals for / count for 30 days"):
        change_state(commits, site.order, IntentAct.INSTANTIATE)
    assert approve_intent(commits, replace(site.order, sign=sign)).made
    site.publish(counts=True)
    assert change_state(commits, site.order, IntentAct.INSTANTIATE).made


def test_an_approval_from_the_future_begins_no_instance_although_a_publication_accepted_it(site: Site):
    future = "is the time of the first approval, and 728 d in the future"
    ahead = int(time.time()) + 2 * 52 * 7 * 86_400 + 60
    site.push("1", site.approved("1", "bob", IntentState.APPROVED, last=ahead))
    commits = site.commits()
    with pytest.raises(RefusedError, match=future):
        change_state(commits, site.order, IntentAct.INSTANTIATE)
    site.publish(counts=True)
    with pytest.raises(RefusedError, match=future):
        change_state(commits, site.order, IntentAct.INSTANTIATE)
    with pytest.raises(
        RefusedError, match=f"not approved: .*{future}.*; a group .* needs another version or name"
    ):
        approve_intent(commits, site.signed("bob"))


def test_a_release_from_the_future_does_not_count(site: Site, monkeypatch: pytest.MonkeyPatch):
    site.branch.push({"a.zk": TREE.format("1")})
    left = LeftService("/shop/web", None, GROUP.subject, "r1")
    order = ReleaseOrder(paths=[left.path], left=[left], author=ANN, reason="go")
    commits, sign = site.commits(), approval_signer(site.keys["bob"], site.approvers)

    def ahead(*given: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda now=time.time: now() + 86_400)
            return sign(*given)

    with pytest.raises(RefusedError, match=r"does not count: its instance .* in the future"):
        release_services(commits, replace(order, sign=ahead))
    assert release_services(commits, replace(order, sign=sign)).made


def test_expired_approvals_are_replaced_by_the_next_one(site: Site, monkeypatch: pytest.MonkeyPatch):
    rules = site.directory / "rules"
    rules.write_text("/shop 2 30 ann@example.com bob@example.com\n")
    site.push("1", GROUP)
    commits = site.commits(rules=rules)
    sign = {name: approval_signer(site.keys[name], site.approvers) for name in ("ann", "bob")}
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda now=time.time: now() - 31 * 86_400)
        assert approve_intent(commits, replace(site.order, sign=sign["ann"])).made
    site.publish(counts=False)
    for name, replaced in (("bob", "it has expired: approvals for /shop count for 30 days"), ("ann", None)):
        outcome = approve_intent(commits, replace(site.order, sign=sign[name]))
        found = replaced_approvals(commits, site.order.record, find_intent(outcome.files, GROUP.subject).snapshot)
        assert found is None if replaced is None else str(found).startswith(replaced)
        site.publish(counts=name == "ann")
    assert change_state(commits, site.order, IntentAct.INSTANTIATE).made


def test_a_change_that_is_not_pushed_yet_is_approved_by_several_people(site: Site):
    site.push("1", GROUP)
    files = site.files
    for name in ("ann", "bob", "bob"):
        changed = approve_files(files, site.signed(name))
        files = list(FileChanges(changed, "").apply(files))
    assert changed == {}
    approval = find_intent(files, GROUP.subject).intent.approval
    assert approval is not None
    assert (approval.by, [one.by for one in approval.also]) == ("ann@example.com", ["bob@example.com"])


@pytest.mark.parametrize("state", [IntentState.APPROVED, IntentState.INSTANTIATED])
def test_a_signed_approval_replaces_one_without_a_signature_before_it_is_pushed(site: Site, state: IntentState):
    site.push("1", replace(site.approved("1", None, state), update=UpdateRule.APPROVE))
    assert approve_files(site.files, site.order) == {}
    changed = approve_files(site.files, site.signed("bob"))
    found = find_intent(FileChanges(changed, "").apply(site.files), GROUP.subject)
    approval = found.intent.approval
    assert approval is not None
    assert (approval.by, approval.state, found.intent.state) == ("bob@example.com", state.value, state)
    assert (approval.signature is not None, found.snapshot.is_approved) == (True, True)
