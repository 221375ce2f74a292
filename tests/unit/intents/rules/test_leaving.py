"""What leaves governance stays as published, and what governance gains is not undeployed: on literals."""

from dataclasses import replace

from zkdeployment.base.publication import LeftService
from zkdeployment.base.source_files import Severity, SourceFile
from zkdeployment.documents.edits import render_document
from zkdeployment.documents.reading import read_documents
from zkdeployment.intents.documents import (
    RELEASE,
    Approval,
    ClusterIntents,
    DeploymentIntentGroup,
    IntentState,
    ServiceRelease,
)
from zkdeployment.intents.rules.content import service_content
from zkdeployment.intents.rules.governance import (
    IntentGovernance,
    adoption_problems,
    change_governance,
    left_problems,
)
from zkdeployment.publishing.section import FormerGovernance
from zkdeployment.publishing.targets.compilation import compile_tree
from zkdeployment.tree.parse import parse

TREE = parse(
    "a.zk",
    """\
/shop
  /front : front
    version = '1'
    /deploy
      /web
      /h1
  /db : db
    version = '1'
    /deploy
      /h1
""",
).tree
WITHOUT_DB = parse("a.zk", "/shop\n  /front : front\n    version = '1'\n    /deploy\n      /web\n      /h1\n").tree
APPROVAL = Approval(f"sha256:{'0' * 64}", "alice")
SHOP = DeploymentIntentGroup("p", "a", "v", "shop", "plain", {"all": ("/shop",)}, approval=APPROVAL)
WEB = ClusterIntents("ams", "web", {"front": ("/shop/front",)})
ACTIVE = replace(SHOP, state=IntentState.INSTANTIATED)
LEFT = LeftService("/shop/front", None, SHOP.subject, "r1")


def documents(*values):
    written = [render_document(value.to_document()).encode() for value in values]
    files = [SourceFile(f"{number}.yaml", text) for number, text in enumerate(written)]
    found = read_documents(files)
    assert found.problems == ()
    return found


def former(*intents, left=()):
    governance = IntentGovernance(intents, left)
    compiled = compile_tree(TREE, governance)
    return FormerGovernance(governance, TREE, compiled.targets, compiled.withheld)


def change(before, *values, tree=TREE):
    return change_governance(before, documents(*values), tree, tree, "r2")


def released(left, tree=TREE, **fields):
    digest = service_content(left.path, left.target, tree).digest
    release = ServiceRelease(left.path, left.former, left.revision, Approval(digest, "alice"), left.target)
    return replace(release, **fields)


def adoption(before, *values):
    after = change(before, *values)
    compiled = compile_tree(TREE, after.after)
    return [*adoption_problems(before.governance, before.targets, compiled, after, documents(*values))]


def test_services_of_a_removed_group_leave_for_all_targets_and_those_of_a_cluster_for_its_target():
    assert change(former(SHOP)).left == (
        LeftService("/shop/db", None, SHOP.subject, "r2"),
        LeftService("/shop/front", None, SHOP.subject, "r2"),
    )
    assert change(former(WEB)).left == (LeftService("/shop/front", "web", WEB.subject, "r2"),)


def test_a_service_does_not_leave_while_another_intent_governs_it_or_after_its_removal_from_the_tree():
    renamed = replace(SHOP, name="store")
    assert change(former(SHOP), renamed).after == IntentGovernance((renamed,))
    assert [one.path for one in change(former(SHOP), tree=WITHOUT_DB).left] == ["/shop/front"]
    assert change(former(left=(LEFT,)), tree=parse("a.zk", "/shop\n").tree).after == IntentGovernance()
    assert change(former(left=(LEFT,)), SHOP).after.left == ()


def test_a_group_takes_a_service_back_for_all_targets_and_a_cluster_only_for_its_own():
    assert change(former(left=(LEFT,)), WEB).after.left == (LEFT,)
    of_web = replace(LEFT, target="web")
    assert change(former(left=(of_web,)), WEB).after.left == ()


def test_a_withheld_service_stays_withheld_for_each_target_and_a_deployed_one_keeps_its_content():
    after = change(former(SHOP)).after
    assert compile_tree(TREE, after).targets == {}
    kept = change(former(ACTIVE))
    assert [one.is_withheld for one in kept.left] == [False, False]
    assert compile_tree(TREE, kept.after).withheld == frozenset()
    assert [problem.severity for problem in left_problems(kept, documents(), TREE)] == [Severity.WARNING] * 2
    changed = parse("a.zk", "/shop\n  /front : front\n    version = '2'\n").tree
    (refused,) = left_problems(change(former(left=kept.after.left), tree=changed), documents(), changed)
    assert refused.severity is Severity.ERROR
    assert "/shop/front may not change: it left the governance of p/a/v/shop with r2" in refused.message


def test_a_release_counts_for_one_content_one_intent_and_one_departure():
    before = former(left=(LEFT,))
    assert change(before, released(LEFT)).after.left == ()
    assert change(before, released(LEFT)).releases == (released(LEFT),)
    for fields in ({"revision": "r0"}, {"former": WEB.subject}, {"target": "web"}, {"path": "/shop/db"}):
        assert change(before, released(LEFT, **fields)).after.left == (LEFT,)
    outdated = replace(released(LEFT), approval=APPROVAL)
    found = change(before, outdated)
    assert (found.after.left, found.releases, found.outdated) == ((LEFT,), (), (outdated,))
    (warning,) = left_problems(found, documents(outdated), TREE)
    assert (warning.severity, warning.file) == (Severity.WARNING, "0.yaml")
    assert RELEASE.name == "release"


def test_an_intent_that_would_undeploy_ungoverned_services_is_an_error_at_its_state():
    (problem,) = adoption(former(), SHOP)
    assert (problem.file, problem.path, problem.severity) == ("0.yaml", "data.state", Severity.ERROR)
    assert "/shop/db for h1, /shop/front for h1, /shop/front for web; take them over" in problem.message
    assert adoption(former(), ACTIVE) == []
    assert adoption(former(ACTIVE), replace(SHOP, state=IntentState.TERMINATED)) == []
    assert adoption(former(left=(LEFT, replace(LEFT, path="/shop/db"))), SHOP) == []
    other = replace(SHOP, name="other", state=IntentState.TERMINATED)
    assert len(adoption(former(ACTIVE), other)) == 1


def test_left_services_survive_their_json_form():
    left = (LEFT, replace(LEFT, target="web", content="sha256:1"))
    assert tuple(map(LeftService.from_json, [one.to_json() for one in left])) == left


def test_a_release_that_lacks_approvals_releases_nothing_and_is_a_warning():
    pending = released(LEFT, is_pending=True)
    after = change(former(left=(LEFT,)), pending)
    assert (after.after.left, after.releases, after.outdated, after.pending) == ((LEFT,), (), (), (pending,))
    (warned,) = left_problems(after, documents(pending), TREE)
    assert warned.severity is Severity.WARNING
    assert warned.message.startswith("/shop/front is not released yet: its release lacks approvals; another")
