"""Intents between git and ZooKeeper: withheld services, refusals, records, and the ends of instances."""

from __future__ import annotations

import contextlib
import copy
import json
import time
from typing import TYPE_CHECKING

import pytest

from support.commands import invoke
from support.publishing import InterruptedSyncError, Publishing
from support.repository import make_key, public
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.errors import RefusedError, ShutdownError, TreeError
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Marker
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.source_files import SourceFile
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.intents.documents import Approval
from zkdeployment.intents.rules.revisions import intent_snapshots
from zkdeployment.intents.store import ZooKeeperIntents
from zkdeployment.intents.verification import GitApprovals, approval_signer
from zkdeployment.publishing.daemon.keeper import section_keeper
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import SyncOptions
from zkdeployment.publishing.rules.review import review
from zkdeployment.publishing.store import builder
from zkdeployment.publishing.store.hosts import encode as encode_host
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.intents.rules.instances import IntentRecord
    from zkdeployment.publishing.sources.git.source import GitSource

SHOP = ("p1", "store", "v1", "shop")
TREE = """\
/p1
  /front : front
    version => /defaults version
    /deploy
      /h1
      /h2
        n = 2
  /db : db
    version = '1'
    /deploy
      /h1
/defaults
  version = '1'
/other : other
  version = '1'
  /deploy
    /h1
"""
GROUP = """\
schema: zkdeployment/DeploymentIntentGroup/v1
metadata: {{project: p1, composite-app: store, version: v1, name: shop}}
data:
  composite-profile: plain
  apps: {{front: [/p1/front], db: [/p1/db]}}
  state: {state}
"""
CLUSTER = """\
schema: zkdeployment/Cluster/v1
metadata: {{provider: ams, name: h1}}
data:
  network-intents: {{other: [/other]}}
  state: {state}
"""

DEPLOYED = "p1/store/v1/shop is Instantiated, approved by alice@example.com: its services are deployed"


def content(tree: str) -> str:
    files = [SourceFile("a.zk", tree.encode()), SourceFile("i.yaml", GROUP.format(state="Created").encode())]
    reviewed = review(files)
    return intent_snapshots(reviewed.documents, reviewed.linted.tree)[SHOP].content.digest


def group(state: str, approved: str | None = TREE, extra: str = "") -> str:
    """The document of the group, approved for the content of a tree."""
    text = GROUP.format(state=state) + extra
    if approved is not None:
        text += f"  approval: {{content: {content(approved)}, by: alice@example.com, reason: the launch}}\n"
    return text


def record(publishing: Publishing, subject=SHOP) -> IntentRecord:
    with Session(publishing.zookeeper) as session:
        found = ZooKeeperIntents(session).record(subject)
    assert found is not None
    return found


def report(publishing: Publishing, host: str, *paths: str) -> None:
    """Write the inventory of a host with deployments of these services."""
    markers = tuple(Marker(Deployment(path, 0), path.rpartition("/")[2]) for path in paths)
    known = KnownHost(Identity(host, host), Inventory(markers=markers))
    publishing.client.ensure_path("/zkdeployment/inventory")
    node = f"/zkdeployment/inventory/{host}"
    if publishing.client.exists(node):
        publishing.client.set(node, encode_host(known))
    else:
        publishing.client.create(node, encode_host(known))


def test_a_group_is_deployed_only_while_it_is_instantiated(publishing: Publishing):
    publishing.push(TREE, i_yaml=group("Created", None), c_yaml=CLUSTER.format(state="Created"))
    publishing.sync()
    assert "/p1/front/deploy/h2" in publishing.nodes()
    assert publishing.targets == {}
    assert (record(publishing).state.value, record(publishing).instances) == ("Created", ())
    publishing.push(TREE, i_yaml=group("Approved"), c_yaml=CLUSTER.format(state="Applied"))
    publishing.sync()
    assert publishing.targets == {"h1": ["/other"]}
    revision = publishing.push(TREE, i_yaml=group("Instantiated"))
    publishing.sync()
    assert publishing.targets == {"h1": ["/other", "/p1/db", "/p1/front"], "h2": ["/p1/front"]}
    (instance,) = record(publishing).instances
    assert instance.id == publishing.get("/zkdeployment/targets")["sequence"]
    assert instance.by == "Tester <tester@example.com>"
    assert [(one.app, one.target, one.wanted) for one in instance.services] == [
        ("db", "h1", 1),
        ("front", "h1", 1),
        ("front", "h2", 2),
    ]
    assert instance.services[1].properties["version"] == "1"
    assert publishing.version == revision
    # More than half of the deployments end, and no guard against mass removal stops that.
    publishing.push(TREE, i_yaml=group("Terminated"))
    publishing.sync()
    assert publishing.targets == {"h1": ["/other"]}
    (ended,) = record(publishing).instances
    assert (ended.id, ended.terminated is None) == (instance.id, False)
    assert record(publishing, ("ams", "h1")).state.value == "Applied"


def test_the_targets_and_a_walk_of_the_tree_give_the_same_plan(publishing: Publishing):
    publishing.push(TREE, i_yaml=group("Approved"))
    publishing.sync()
    with Session(publishing.zookeeper) as session:
        fleet = ZooKeeperFleet(session)
        hosts = [Identity(name, name) for name in ("h1", "h2", "h3")]
        compiled = [fleet.wanted(host, publishing.version) for host in hosts]
        publishing.invalidate()
        publishing.put("/hosts", {"version": "by-hand"})
        assert [fleet.wanted(host, "by-hand") for host in hosts] == compiled
    assert [[one.path for one in wanted.assignments] for wanted in compiled] == [["/other"], [], []]


@pytest.mark.parametrize(
    ("tree", "document", "expected"),
    [
        (
            TREE.replace("/defaults\n  version = '1'", "/defaults\n  version = '2'"),
            group("Instantiated"),
            f"{DEPLOYED}; terminate it first (changed: /defaults, /p1/front)",
        ),
        (
            TREE.replace("/h2\n        n = 2", "/h2\n        n = 3"),
            group("Instantiated"),
            "terminate it first (changed: /p1/front/deploy/h2)",
        ),
        (TREE, None, f"{DEPLOYED}; terminate it first"),
        (TREE, group("Instantiated", TREE, "  update: approve\n"), "terminate it first (changed: update)"),
    ],
)
def test_a_push_that_breaks_the_life_cycle_is_refused_as_a_whole_and_nothing_is_lost(
    publishing: Publishing, tree: str, document: str | None, expected: str
):
    publishing.push(TREE, i_yaml=group("Instantiated"))
    first = publishing.push(TREE, b_zk="/b\n  x = 1\n")
    publishing.sync()
    before, known = publishing.nodes(), record(publishing)
    tip = publishing.push(tree, i_yaml=document, b_zk="/b\n  x = 2\n")
    with pytest.raises(RefusedError) as refused:
        publishing.sync()
    assert expected in str(refused.value)
    assert (publishing.version, publishing.nodes(), record(publishing)) == (first, before, known)
    with Session(publishing.zookeeper) as session:
        refusal = ZooKeeperFleetReader(session).snapshot().refusal
    assert refusal is not None
    assert refusal.revision == tip
    assert expected in " ".join(refusal.problems)
    # After the termination, everything of the refused push is published.
    publishing.push(tree, i_yaml=group("Terminated"))
    publishing.sync()
    assert publishing.nodes()["/b"] == {"x": 2}
    assert publishing.targets == {"h1": ["/other"]}


def test_an_approved_update_changes_an_instantiated_group_in_place(publishing: Publishing):
    newer = TREE.replace("/defaults\n  version = '1'", "/defaults\n  version = '2'")
    rule = "  update: approve\n"
    publishing.push(TREE, i_yaml=group("Instantiated", TREE, rule))
    publishing.sync()
    (begun,) = record(publishing).instances
    publishing.push(newer)
    with pytest.raises(RefusedError, match="its new content must be approved in the same change"):
        publishing.sync()
    publishing.push(newer, i_yaml=group("Instantiated", newer, rule))
    publishing.sync()
    (updated,) = record(publishing).instances
    assert (updated.id, updated.changed > begun.changed) == (begun.id, True)
    assert updated.services[1].assignment.version == "2"
    assert record(publishing).approved == record(publishing).content


def test_a_group_that_changed_since_its_approval_is_created_again_and_instantiating_it_is_refused(
    publishing: Publishing,
):
    newer = TREE.replace("/db : db\n    version = '1'", "/db : db\n    version = '2'")
    publishing.push(TREE, i_yaml=group("Approved"))
    publishing.sync()
    publishing.push(newer)
    publishing.sync()
    assert record(publishing).state.value == "Created"
    publishing.push(newer, i_yaml=group("Instantiated"))
    with pytest.raises(RefusedError) as refused:
        publishing.sync()
    assert (
        "p1/store/v1/shop is Created: its content has changed since it was approved"
        " by alice@example.com; approve it again (changed: /p1/db)"
    ) in str(refused.value)


class ApprovedPublishing:
    """A syncer that publishes only groups which ``ann`` approved, and its record of them."""

    def __init__(self, publishing: Publishing) -> None:
        self.publishing = publishing
        self.key = make_key(publishing.directory, "ann")
        self.approvers = publishing.directory / "approvers"
        self.approvers.write_text(f"ann@example.com {public(self.key)}\n")
        self.file = publishing.directory / ".tree.accepted"
        self.approvals: dict[str, Approval] = {}

    def another(self) -> ApprovedPublishing:
        """Return another syncer of the same fleet, with a record of its own."""
        other = copy.copy(self)
        other.file = self.file.with_name(".other.accepted")
        return other

    def push(
        self,
        state: str,
        tree: str = TREE,
        extra: str = "",
        *,
        signed: bool,
        again: bool = False,
        step: str = "Instantiated",
    ) -> None:
        """Push a group; ``again``: with another approval, of a ``step``, than the last one of this content."""
        document = group(state, tree, extra)
        if signed:
            digest = content(tree)
            last = self.approvals.get(digest)
            if last is None or again:
                number = max((one.instance for one in self.approvals.values()), default=0)
                unsigned = Approval(digest, "ann@example.com", state=step, instance=number)
                last = self.approvals[digest] = approval_signer(self.key)(SHOP, unsigned)
            signature = str(last.signature).replace("\n", "\n\n")
            by = f"by: ann@example.com, state: {last.state}, instance: {last.instance}, signature: '{signature}'"
            document = document.replace("by: alice@example.com", by)
        self.publishing.push(tree, i_yaml=document)

    def sync(
        self, *, has_approvers: bool = True, force: bool = False, reach: Callable[[str], None] = lambda _: None
    ) -> None:
        source = self.publishing.source()
        approvals = self._verifier(source) if has_approvers else None
        with Session(self.publishing.zookeeper) as session:
            store, memory = ZooKeeperPublications(session, reach=reach), self.publishing.memory()
            syncer = Syncer(
                source, store, SystemClock(), memory, keeper=section_keeper(store, self.file, approvals)
            )
            syncer.sync(SyncOptions(force=force))

    def dry_run(self, commit: str) -> tuple[str, ...]:
        """Return the refusals of a commit, by a syncer without a record of its own."""
        source = self.publishing.source()
        with Session(self.publishing.zookeeper) as session:
            store = ZooKeeperPublications(session)
            keeper = section_keeper(store, None, self._verifier(source))
            return Syncer(source, store, SystemClock(), keeper=keeper).refusals(commit)

    def _verifier(self, source: GitSource) -> GitApprovals:
        return GitApprovals(lambda: source.reader, self.approvers, None, time.time)

    def is_killed(self, place: str) -> None:
        """Run a syncer that ends at the first transaction: before it is sent, or after it is written."""

        def reach(reached: str) -> None:
            if reached == place:
                raise InterruptedSyncError

        with pytest.raises(InterruptedSyncError):
            self.sync(reach=reach)

    def replace_approvers(self) -> None:
        """Let another person be the only approver."""
        self.approvers.write_text(f"bob@example.com {public(make_key(self.publishing.directory, 'bob'))}\n")

    def refuses(self, reason: str) -> None:
        with pytest.raises(RefusedError, match=f"its approval does not count: {reason}"):
            self.sync(force=True)


@pytest.fixture
def approved(publishing: Publishing) -> ApprovedPublishing:
    return ApprovedPublishing(publishing)


def test_with_approvers_only_their_signatures_approve(publishing: Publishing, approved: ApprovedPublishing):
    approved.push("Approved", signed=False)
    approved.sync()
    assert record(publishing).state.value == "Created"
    approved.push("Instantiated", signed=False)
    approved.refuses("it has no signature by one of the approvers")
    approved.push("Instantiated", signed=True)
    approved.sync()
    assert record(publishing).state.value == "Instantiated"


def test_an_approval_begins_one_instance_only(publishing: Publishing, approved: ApprovedPublishing):
    for state in ("Instantiated", "Terminated"):
        approved.push(state, signed=True)
        approved.sync()
    approved.push("Instantiated", signed=True)
    approved.refuses("it was given for an instance that has ended")
    publishing.push(TREE, i_yaml=None)
    approved.sync()
    approved.push("Instantiated", signed=True)
    approved.refuses("it was given for an instance that has ended")
    approved.push("Instantiated", signed=True, again=True)
    approved.sync()
    assert record(publishing).state.value == "Instantiated"


def ended_by_another(approved: ApprovedPublishing) -> ApprovedPublishing:
    """Return another syncer, which published the end of an instance that the first one knows as running."""
    other = approved.another()
    approved.push("Instantiated", signed=True)
    approved.sync()
    approved.push("Terminated", signed=True)
    other.sync()
    return other


@pytest.mark.parametrize("is_removed", [False, True])
def test_an_approval_of_an_instance_that_another_syncer_ended_does_not_count_again(
    publishing: Publishing, approved: ApprovedPublishing, is_removed: bool
):
    other = ended_by_another(approved)
    if is_removed:
        publishing.push(TREE, i_yaml=None)
        other.sync()
    approved.push("Instantiated", signed=True)
    for syncer in (approved, other):
        syncer.refuses("it was given for an instance that has ended")
    approved.push("Instantiated", signed=True, again=True)
    approved.sync()


def test_a_syncer_that_first_publishes_the_removal_of_a_group_remembers_the_ended_instance(
    publishing: Publishing, approved: ApprovedPublishing
):
    other = approved.another()
    for state in ("Instantiated", "Terminated"):
        approved.push(state, signed=True)
        approved.sync()
    publishing.push(TREE, i_yaml=None)
    other.sync()
    approved.push("Instantiated", signed=True)
    other.refuses("it was given for an instance that has ended")


@pytest.mark.parametrize("is_last", [True, False])
def test_an_instance_that_another_syncer_ended_does_not_prevent_the_next_one(
    publishing: Publishing, approved: ApprovedPublishing, is_last: bool
):
    other = ended_by_another(approved)
    approved.push("Approved", signed=True, again=True, step="Approved")
    other.sync()
    approved.push("Instantiated", signed=True)
    if is_last:
        other.sync()
        publishing.push(f"{TREE}/more\n")
    approved.sync()
    assert record(publishing).state.value == "Instantiated"


def test_a_revert_of_an_update_by_another_syncer_needs_another_approval(approved: ApprovedPublishing):
    rule, newer = "  update: approve\n", TREE.replace("version = '1'", "version = '2'")
    approved.push("Instantiated", TREE, rule, signed=True)
    approved.sync()
    approved.push("Instantiated", newer, rule, signed=True)
    approved.another().sync()
    approved.push("Instantiated", TREE, rule, signed=True)
    approved.refuses("it was given for an instance that has ended, or for an earlier content")


def test_a_revert_of_an_update_needs_another_approval(approved: ApprovedPublishing):
    rule, newer = "  update: approve\n", TREE.replace("version = '1'", "version = '2'")
    for tree in (TREE, newer):
        approved.push("Instantiated", tree, rule, signed=True)
        approved.sync()
    approved.push("Instantiated", TREE, rule, signed=True)
    approved.refuses("it was given for an instance that has ended, or for an earlier content")
    approved.push("Instantiated", TREE, rule, signed=True, again=True)
    approved.sync()


def test_an_approval_that_only_zookeeper_calls_accepted_does_not_count(
    publishing: Publishing, approved: ApprovedPublishing
):
    """The attacker may push, and writes the records of a syncer without approvers to ZooKeeper."""
    approved.push("Created", signed=False)
    approved.sync()
    approved.push("Instantiated", signed=False)
    publishing.sync()
    assert record(publishing).state.value == "Instantiated"
    approved.refuses("it has no signature by one of the approvers")
    published = publishing.get("/zkdeployment/targets") or {}
    publishing.put("/zkdeployment/targets", {key: published[key] for key in published if key != "intents"})
    approved.refuses("it has no signature by one of the approvers")
    approved.push("Instantiated", signed=True)
    approved.sync()


def test_the_accepted_forms_are_forgotten_with_the_last_intent_although_zookeeper_hides_all_intents(
    publishing: Publishing, approved: ApprovedPublishing
):
    approved.push("Instantiated", signed=True)
    approved.sync()
    published = publishing.get("/zkdeployment/targets") or {}
    publishing.put("/zkdeployment/targets", {key: published[key] for key in published if key != "intents"})
    publishing.push(TREE, i_yaml=None)
    approved.sync(force=True)
    approved.replace_approvers()
    approved.push("Instantiated", signed=True)
    approved.refuses("its signature is not by one of the keys in")


def test_an_accepted_approval_counts_when_its_approver_has_left(
    publishing: Publishing, approved: ApprovedPublishing
):
    rule = "  update: approve\n"
    approved.push("Instantiated", extra=rule, signed=True)
    approved.sync()
    approved.replace_approvers()
    publishing.push(f"{TREE}/more\n")
    approved.sync()
    changed = TREE.replace("version = '1'", "version = '2'")
    approved.push("Instantiated", changed, rule, signed=True)
    approved.refuses("its signature is not by one of the keys in")
    approved.push("Instantiated", extra=rule, signed=True)
    approved.file.write_text("?")
    approved.refuses("its signature is not by one of the keys in")


def test_an_approval_that_was_accepted_and_not_published_is_published_by_the_next_run(
    publishing: Publishing, approved: ApprovedPublishing
):
    approved.push("Created", signed=False)
    approved.sync()
    approved.push("Instantiated", signed=True)
    approved.is_killed("before:commit")
    assert record(publishing).state.value == "Created"
    approved.sync()
    assert record(publishing).state.value == "Instantiated"
    assert publishing.targets["h2"] == ["/p1/front"]


def test_a_dry_run_counts_the_approvals_that_the_syncer_accepted(
    publishing: Publishing, approved: ApprovedPublishing
):
    rule = "  update: approve\n"
    approved.push("Instantiated", extra=rule, signed=True)
    approved.sync()
    approved.replace_approvers()
    tip = publishing.push(f"{TREE}/more\n")
    assert approved.dry_run(tip) == ()
    approved.sync()
    newer = TREE.replace("version = '1'", "version = '2'")
    approved.push("Instantiated", newer, rule, signed=True)
    (refusal,) = approved.dry_run(publishing.repository.git("rev-parse", "HEAD"))
    assert "its signature is not by one of the keys in" in refusal


def test_a_dry_run_counts_groups_that_were_deployed_before_approvals_needed_a_signature(
    publishing: Publishing, approved: ApprovedPublishing
):
    approved.push("Instantiated", signed=False)
    approved.sync()
    assert record(publishing).state.value == "Instantiated"
    tip = publishing.push(f"{TREE}/more\n")
    assert approved.dry_run(tip) == ()
    approved.sync()


@pytest.mark.parametrize("is_first", [True, False])
def test_an_approval_that_was_accepted_and_withdrawn_before_it_was_published_does_not_count(
    publishing: Publishing, approved: ApprovedPublishing, is_first: bool
):
    if not is_first:
        approved.push("Created", signed=False)
        approved.sync()
    approved.push("Instantiated", signed=True)
    approved.is_killed("before:commit")
    approved.push("Approved", signed=False)
    approved.sync()
    assert record(publishing).state.value == "Created"
    approved.push("Instantiated", signed=True)
    approved.is_killed("before:commit")
    approved.replace_approvers()
    approved.refuses("its signature is not by one of the keys in")


def test_a_publication_without_intents_does_not_accept_the_forms_of_an_unwritten_one(
    publishing: Publishing, approved: ApprovedPublishing
):
    approved.push("Instantiated", signed=True)
    approved.is_killed("before:commit")
    publishing.push(TREE.replace("/p1", "/p2"), i_yaml=None)
    approved.sync()
    assert json.loads(approved.file.read_text()) == {"last": None, "coming": None}


def test_an_unwritten_publication_does_not_change_the_accepted_forms(
    publishing: Publishing, approved: ApprovedPublishing
):
    rule = "  update: approve\n"
    approved.push("Instantiated", extra=rule, signed=True)
    approved.sync()
    approved.push("Instantiated", TREE.replace("version = '1'", "version = '2'"), rule, signed=True)
    approved.is_killed("before:commit")
    approved.replace_approvers()
    approved.push("Instantiated", extra=rule, signed=True)
    approved.sync(force=True)
    assert record(publishing).state.value == "Instantiated"


def test_an_approval_whose_publication_was_written_counts_although_the_syncer_was_killed_then(
    publishing: Publishing, approved: ApprovedPublishing
):
    approved.push("Instantiated", signed=True)
    approved.is_killed("after:commit")
    approved.replace_approvers()
    publishing.push(f"{TREE}/more\n")
    approved.sync()
    assert record(publishing).state.value == "Instantiated"
    recorded = json.loads(approved.file.read_text())
    assert recorded["coming"] is None
    assert recorded["last"]["approvals"].keys() == {"p1/store/v1/shop"}


def test_groups_that_were_deployed_before_approvals_needed_signatures_stay_deployed(
    publishing: Publishing, approved: ApprovedPublishing
):
    approved.push("Instantiated", signed=False)
    approved.sync(has_approvers=False)
    publishing.push(f"{TREE}/more\n")
    approved.sync()
    assert record(publishing).state.value == "Instantiated"
    approved.file.unlink()
    approved.refuses("it has no signature by one of the approvers")


def test_faults_of_governance_are_errors_with_their_places(publishing: Publishing):
    publishing.push(TREE, i_yaml=group("Created", None).replace("/p1/db", "/p1/dx"))
    with pytest.raises(TreeError, match=r"i\.yaml:5:\d+: .*there is no node /p1/dx"):
        publishing.sync()


def test_a_document_is_removed_only_after_hosts_have_undeployed_its_last_instance(publishing: Publishing):
    publishing.push(TREE, i_yaml=group("Instantiated"))
    publishing.sync()
    report(publishing, "h1", "/p1/front", "/p1/db")
    publishing.push(TREE, i_yaml=group("Terminated"))
    publishing.sync()
    publishing.push(TREE, i_yaml=None)
    with pytest.raises(RefusedError, match="hosts still undeploy its last instance; wait until they are done"):
        publishing.sync()
    assert record(publishing).awaits_final_status
    report(publishing, "h1")
    publishing.sync()
    with Session(publishing.zookeeper) as session:
        assert ZooKeeperIntents(session).records() == ()
    assert publishing.targets == {"h1": ["/other"]}


def test_the_final_status_is_recorded_when_the_last_deployment_has_ended(publishing: Publishing):
    publishing.push(TREE, i_yaml=group("Instantiated"))
    publishing.sync()
    report(publishing, "h1", "/p1/front", "/p1/db")
    publishing.push(TREE, i_yaml=group("Terminated"))
    with publishing.syncer() as syncer:
        syncer.sync()
        syncer.sync()
        assert record(publishing).awaits_final_status
        report(publishing, "h1")
        syncer.sync()
        (ended,) = record(publishing).instances
        assert ended.final is not None
        assert {(row["name"], row["rsync"], row["exists"]) for row in ended.final} >= {
            ("h1:/p1/front.0", "Terminated", "NotPresent"),
            ("h1:/p1/db.0", "Terminated", "NotPresent"),
        }
        stamp = record(publishing).stamp
        syncer.sync()
        assert record(publishing).stamp == stamp
        publishing.push(TREE, i_yaml=group("Instantiated"))
        syncer.sync()
    again, last = record(publishing).instances
    assert (again, last.final) == (ended, None)


def test_an_instance_that_begins_before_the_last_one_ended_records_its_final_status(publishing: Publishing):
    publishing.push(TREE, i_yaml=group("Instantiated"))
    publishing.sync()
    publishing.push(TREE, i_yaml=group("Terminated"))
    report(publishing, "h1", "/p1/front")
    publishing.sync()
    publishing.push(TREE, i_yaml=group("Instantiated"))
    publishing.sync()
    first, second = record(publishing).instances
    assert first.final is not None
    assert ("h1:/p1/front.0", "Present") in {(row["name"], row["exists"]) for row in first.final}
    assert second.terminated is None


def test_a_fleet_without_intents_has_no_nodes_of_intents(publishing: Publishing):
    publishing.push(TREE)
    publishing.sync()
    assert {"intents", "withheld"}.isdisjoint(publishing.client.get_children("/zkdeployment"))
    assert "intents" not in publishing.get("/zkdeployment/targets")


def test_verbs_show_which_services_intents_withhold(publishing: Publishing):
    publishing.push(TREE, i_yaml=group("Approved"))
    publishing.sync()
    publishing.register("h1", publishing.version)
    why = invoke("why", "h1", "-z", publishing.zookeeper)
    assert "  /p1/front is not deployed to h1: p1/store/v1/shop is Approved\n" in why.stdout
    services = invoke("services", "/p1/front", "-z", publishing.zookeeper)
    assert (services.returncode, services.stdout) == (0, "")
    assert "/p1/front is not deployed to h2: p1/store/v1/shop is Approved\n" in services.stderr


def test_a_plan_withholds_services_as_intents_demand_and_shows_refusals(
    publishing: Publishing,
):
    publishing.push(TREE, i_yaml=group("Approved"))
    publishing.sync()
    tree = publishing.directory / "a.zk"
    tree.write_text(TREE)
    more = publishing.directory / "more.zk"
    more.write_text("/more\n  x = 1\n")
    for paths in ([tree], [tree, more]):
        planned = invoke("plan", *paths, "-o", "json", "-z", publishing.zookeeper)
        # Only the service without an intent has a target, h1, which no known host matches.
        hosts = [host["id"] for host in json.loads(planned.stdout)["hosts"]]
        assert planned.returncode != 1
        assert hosts == ["h1"]
    publishing.push(TREE, i_yaml=group("Instantiated"))
    publishing.sync()
    document = publishing.directory / "i.yaml"
    document.write_text(group("Instantiated"))
    tree.write_text(TREE.replace("n = 2", "n = 3"))
    planned = invoke("plan", tree, document, "-z", publishing.zookeeper)
    assert planned.returncode == 1
    refusal = (
        f"{DEPLOYED}; terminate it first (changed: /p1/front/deploy/h2); the termination takes down /p1/db on h1"
    )
    assert f"the syncer would refuse this: {refusal}, /p1/front on h1, h2 (2 instances); " in planned.stderr


def test_an_import_by_hand_deploys_no_withheld_service(publishing: Publishing):
    publishing.push(TREE, i_yaml=group("Approved"))
    publishing.sync()
    more = publishing.directory / "p1.zk"
    more.write_text(TREE.replace("      /h2\n        n = 2\n", "      /h2\n      /h3\n"))
    assert invoke("tree", "import", str(more), "-z", publishing.zookeeper).returncode == 0
    publishing.put("/hosts", {"version": "by-hand"})
    with Session(publishing.zookeeper) as session:
        fleet = ZooKeeperFleet(session)
        wanted = {name: fleet.wanted(Identity(name, name), "by-hand").assignments for name in ("h1", "h2", "h3")}
    assert {name: [one.path for one in found] for name, found in wanted.items()} == {
        "h1": ["/other"],
        "h2": [],
        "h3": [],
    }


@pytest.mark.parametrize("number", range(1, 5))
def test_a_syncer_that_is_killed_at_any_write_loses_and_doubles_no_instance(
    publishing: Publishing, number: int, monkeypatch: pytest.MonkeyPatch
):
    """Publications in several transactions, killed after each of them, with another act before the repetition."""
    monkeypatch.setattr(builder, "OPERATIONS_LIMIT", 6)
    report(publishing, "h1")
    publishing.push(TREE, i_yaml=group("Instantiated"))

    def killed() -> None:
        commits = 0

        def reach(place: str) -> None:
            nonlocal commits
            commits += place == "after:commit"
            if commits == number:
                raise ShutdownError("killed")

        with Session(publishing.zookeeper) as session, contextlib.suppress(ShutdownError):
            store = ZooKeeperPublications(session, reach=reach)
            Syncer(publishing.source(), store, SystemClock(), publishing.memory()).sync(SyncOptions(force=True))

    killed()
    publishing.push(TREE, b_zk="/b\n  x = 1\n")
    publishing.sync()
    (begun,) = record(publishing).instances
    assert [one.assignment.path for one in begun.services] == ["/p1/db", "/p1/front", "/p1/front"]
    assert publishing.targets["h2"] == ["/p1/front"]
    publishing.push(TREE, i_yaml=group("Terminated"))
    killed()
    publishing.sync()
    publishing.sync()
    (ended,) = record(publishing).instances
    assert (ended.id, ended.terminated is None, ended.final is None) == (begun.id, False, False)
    publishing.push(TREE, i_yaml=group("Instantiated"))
    killed()
    publishing.push(TREE, b_zk="/b\n  x = 2\n")
    publishing.sync()
    first, second = record(publishing).instances
    assert (first, second.terminated) == (ended, None)
    (node,) = publishing.client.get_children("/zkdeployment/intents")
    parts = publishing.client.get_children(f"/zkdeployment/intents/{node}")
    assert sorted(part.split("-")[0] for part in parts) == ["content", "final", "instance", "instance"]
