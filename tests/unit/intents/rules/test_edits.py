"""Changes of intents in the files of a revision: only the parts that an act concerns, with all comments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zkdeployment.base.errors import NotFoundError, RefusedError
from zkdeployment.base.source_files import SourceFile
from zkdeployment.intents.documents import (
    Approval,
    ClusterIntents,
    DeploymentIntentGroup,
    FleetStop,
    Intent,
    IntentState,
    UpdateRule,
)
from zkdeployment.intents.rules.edits import (
    find_intent,
    restored_content,
    unpublished_act,
    with_description,
    with_new_intent,
    with_state,
    without_intent,
)
from zkdeployment.publishing.acts.commits import FileChanges

SHOP = ("p1", "store", "v1", "shop")
AMS = ("ams", "web-server")
DIGEST = f"sha256:{'0' * 64}"
APPROVAL = Approval(DIGEST, "alice@example.com", "the shop opens")
TREE = SourceFile(
    "a.zk", b"/p1\n  /shop\n    /front : web\n      /deploy\n        /h1\n    /db : db\n/net\n  /vlan12 : vlan\n"
)
GROUP = """\
# The shop of Amsterdam.
schema: zkdeployment/DeploymentIntentGroup/v1
metadata: {project: p1, composite-app: store, version: v1, name: shop}
data:
  composite-profile: plain   # the only one
  apps:
    front: [/p1/shop/front]  # two hosts
    db: [/p1/shop/db]
  state: Created  # see the runbook
"""
CLUSTER = """\
schema: zkdeployment/Cluster/v1
metadata: {provider: ams, name: web-server}
data: {network-intents: {vlan12: [/net/vlan12]}, state: Applied}
"""
FILES = (TREE, SourceFile("all.yaml", f"{GROUP}---\n{CLUSTER}".encode()))


def text(changes: dict[str, bytes | None], name: str = "all.yaml") -> str:
    content = changes[name]
    assert content is not None
    return content.decode()


def test_an_approval_changes_the_state_and_adds_itself_and_every_comment_stays() -> None:
    changes = with_state(find_intent(FILES, SHOP), IntentState.APPROVED, replace(APPROVAL, signature="a\nb\n"))
    assert text(changes) == GROUP.replace("state: Created", "state: Approved") + (
        f'  approval:\n    content: "{DIGEST}"\n    by: alice@example.com\n    reason: the shop opens\n'
        f'    signature: "a\\nb\\n"\n---\n{CLUSTER}'
    )


def test_another_approval_takes_the_place_of_the_last_one() -> None:
    once = with_state(find_intent(FILES, SHOP), IntentState.APPROVED, APPROVAL)
    files = (TREE, SourceFile("all.yaml", text(once).encode()))
    other = Approval(f"sha256:{'1' * 64}", "bob@example.com")
    twice = with_state(find_intent(files, SHOP), IntentState.APPROVED, other)
    after = find_intent((TREE, SourceFile("all.yaml", text(twice).encode())), SHOP)
    assert after.intent.approval == other
    assert "# see the runbook" in text(twice)


def test_a_state_that_an_intent_has_changes_nothing() -> None:
    assert with_state(find_intent(FILES, AMS), IntentState.APPLIED) == {}


def test_a_document_that_does_not_exist_is_not_found_and_faulty_files_are_named() -> None:
    with pytest.raises(NotFoundError, match=r"there is no intent a/b at the tip of the branch"):
        find_intent(FILES, ("a", "b"))
    faulty = SourceFile("x.yaml", CLUSTER.replace("Applied", "Aplied").encode())
    with pytest.raises(NotFoundError, match=r"documents in x\.yaml have errors: see 'zkdeployment lint'"):
        find_intent((TREE, faulty), AMS)


@pytest.mark.parametrize(
    ("intent", "name"),
    [
        (
            DeploymentIntentGroup(
                *SHOP, "plain", {"front": ("/p1/shop/front",)}, IntentState.INSTANTIATED, approval=APPROVAL
            ),
            "intent-p1-store-v1-shop.yaml",
        ),
        (ClusterIntents(*AMS, {"vlan12": ("/net/vlan12",)}, IntentState.APPLIED), "cluster-ams-web-server.yaml"),
    ],
)
def test_a_new_intent_is_created_in_a_file_of_its_own(intent: Intent, name: str) -> None:
    changes = with_new_intent((TREE,), intent)
    assert changes.keys() == {name}
    found = find_intent((TREE, SourceFile(name, text(changes, name).encode())), intent.subject).intent
    assert (found.state, found.approval, found.apps) == (IntentState.CREATED, None, intent.apps)
    with pytest.raises(RefusedError, match=f"exists already: {name} holds its document"):
        with_new_intent((TREE, SourceFile(name, text(changes, name).encode())), intent)


def test_a_new_intent_gets_another_file_if_other_documents_are_in_the_file_of_its_name() -> None:
    name = "intent-p1-store-v1-shop.yaml"
    group = DeploymentIntentGroup(*SHOP, "plain", {"front": ("/p1/shop/front",)})
    changes = with_new_intent((TREE, SourceFile(name, CLUSTER.encode())), group)
    (other,) = changes
    assert other.startswith("intent-p1-store-v1-shop-")
    assert text(changes, other).startswith("schema: zkdeployment/DeploymentIntentGroup/v1\n")


def test_another_description_changes_its_keys_alone() -> None:
    placed = find_intent(FILES, SHOP)
    assert isinstance(placed.intent, DeploymentIntentGroup)
    wanted = replace(
        placed.intent,
        composite_profile="large",
        update=UpdateRule.APPROVE,
        apps={"front": ("/p1/shop/front",), "base": ("/p1/shop/db",)},
    )
    changes = with_description(placed, wanted)
    after = (TREE, SourceFile("all.yaml", text(changes).encode()))
    assert find_intent(after, SHOP).intent == wanted
    assert "front: [/p1/shop/front]  # two hosts" in text(changes)
    assert "composite-profile: large   # the only one" in text(changes)
    back = with_description(find_intent(after, SHOP), placed.intent)
    assert find_intent((TREE, SourceFile("all.yaml", text(back).encode())), SHOP).intent == placed.intent
    assert with_description(placed, placed.intent) == {}


def test_a_removed_document_leaves_the_others_of_its_file_and_the_last_one_removes_the_file() -> None:
    assert without_intent(find_intent(FILES, SHOP)) == {
        "all.yaml": f"# The shop of Amsterdam.\n---\n{CLUSTER}".encode()
    }
    alone = (TREE, SourceFile("c.yaml", CLUSTER.encode()))
    assert without_intent(find_intent(alone, AMS)) == {"c.yaml": None}


def test_an_act_waits_until_the_last_one_on_its_subject_is_published() -> None:
    created = find_intent(FILES, SHOP).intent
    assert unpublished_act(SHOP, created, created) is None
    assert unpublished_act(SHOP, created, None) is None
    assert isinstance(created, DeploymentIntentGroup)
    approved = replace(created, state=IntentState.APPROVED, approval=APPROVAL)
    assert unpublished_act(SHOP, approved, created) == (
        "an earlier act on p1/store/v1/shop is not published yet: at the tip of the branch it is Approved, the"
        " last publication has it as Created"
    )
    again = replace(approved, approval=replace(APPROVAL, by="bob@example.com"))
    assert "it has another approval" in str(unpublished_act(SHOP, again, approved))
    applied = find_intent(FILES, AMS).intent
    assert unpublished_act(AMS, applied, applied) is None
    assert "the last publication has it as Applied" in str(unpublished_act(AMS, None, applied))
    assert "the last publication does not have it" in str(unpublished_act(AMS, applied, None))


def test_another_description_is_not_an_act() -> None:
    created = find_intent(FILES, SHOP).intent
    assert isinstance(created, DeploymentIntentGroup)
    assert unpublished_act(SHOP, replace(created, composite_profile="large"), created) is None


def test_restored_content_keeps_the_rules_of_the_group() -> None:
    former = GROUP.replace("    db: [/p1/shop/db]\n", "")
    past = (TREE, SourceFile("all.yaml", former.encode()))
    present = (TREE, SourceFile("all.yaml", f"{GROUP}  update: approve\n  fleet-stop: group\n".encode()))
    before = find_intent(past, SHOP)
    changes, changed = restored_content(present, past, SHOP, before.snapshot.content.digest)
    assert changed == set()
    after = find_intent(FileChanges(changes, "").apply(present), SHOP).intent
    assert (after.apps, after.update, after.fleet_stop) == (
        {"front": ("/p1/shop/front",)},
        UpdateRule.APPROVE,
        FleetStop.GROUP,
    )


LINKED = """\
/defaults
  greeting = 'hello'
  timeout = 10
/p1
  /shop
    /front : web
      greeting => /defaults greeting
      /deploy
    /db : db
"""


@pytest.mark.parametrize(
    ("old", "new", "others"),
    [
        ("greeting = 'hello'", "greeting = 'bye'", None),
        ("greeting = 'hello'\n", "greeting => /p1/shop/db greeting\n", None),
        ("timeout = 10", "timeout = 20", "/defaults"),
        ("  timeout = 10\n", "", "/defaults"),
        ("/defaults\n", "/defaults\n  /more\n", "/defaults/more"),
    ],
)
def test_only_linked_properties_of_other_nodes_are_restored(old: str, new: str, others: str | None) -> None:
    document = SourceFile("all.yaml", GROUP.encode())
    past, present = ((SourceFile("a.zk", text.encode()), document) for text in (LINKED, LINKED.replace(old, new)))
    digest = find_intent(past, SHOP).snapshot.content.digest
    if others is None:
        changes, changed = restored_content(present, past, SHOP, digest)
        assert (text(changes, "a.zk"), changed) == (LINKED, {"/defaults"})
        return
    with pytest.raises(RefusedError, match=f"cannot be restored alone: a.zk would also change {others};"):
        restored_content(present, past, SHOP, digest)
