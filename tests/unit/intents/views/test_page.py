"""The page of an intent: its matrix, the resources of a cell, the change since the approval, and its acts."""

from dataclasses import replace

import pytest

from support.builders import make_user
from support.intents import APPROVAL, CHANGED, CLUSTER, CONTENT, GROUP, begun, recorded
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.host import Identity
from zkdeployment.fleet.views.requests import Job, JobState
from zkdeployment.intents.documents import IntentState, UpdateRule, intent_paths
from zkdeployment.intents.rules.instances import IntentRecord
from zkdeployment.intents.rules.reality import (
    FleetReports,
    RecordedDeployment,
    ReportedHost,
    ReportedHosts,
    ServiceProvider,
)
from zkdeployment.intents.rules.resources import instance_resources, row_to_json
from zkdeployment.intents.user_acts import (
    ApproveIntent,
    InstantiateIntent,
    PublishedIntent,
    TerminateIntent,
    offered_acts,
)
from zkdeployment.intents.views.matrix import APPS_SHOWN, MatrixQuery, cell_view, intent_matrix, status_counts
from zkdeployment.intents.views.page import (
    intent_view,
    service_part,
    shown_lines,
    with_approved_content,
)
from zkdeployment.service.users.user import Role, User

FRONT0 = Deployment("/p1/shop/front", 0)
HOSTS = (
    ReportedHost(
        Identity("w0", "w0.example.com", "web"),
        deployments={FRONT0: RecordedDeployment("shop-front", "1.2", 7)},
        error="disk full",
    ),
    ReportedHost(Identity("w1", "w1.example.com", "web"), is_present=False),
)
REPORTS = FleetReports(
    ReportedHosts(HOSTS),
    (ServiceProvider("/p1/shop/front/providers/w0:80", "/p1/shop/front", "w0", FRONT0, {"host": "w0"}),),
)
SHOP = recorded(replace(GROUP, approval=APPROVAL), IntentState.INSTANTIATED, begun())
ROWS = instance_resources(begun(), REPORTS)
QUERY = MatrixQuery(GROUP.subject)
PAGE = "/intents/p1/store/v1/shop"


def user(*paths: str, role: Role = Role.OPERATOR) -> User:
    return make_user("ann", role, paths=paths)


def counted(counts):
    return [(sign.word, count) for sign, count in counts]


def test_the_matrix_counts_the_resources_of_each_app_on_each_cluster():
    matrix = intent_matrix(ROWS, QUERY)
    assert matrix.clusters.rows == ("web",)
    (row,) = matrix.rows
    assert (row.app, counted(row.cells[0].counts.rsync)) == (
        "front",
        [("Retrying", 2), ("Pending", 1), ("Applied", 1)],
    )
    assert row.cells[0].href == f"{PAGE}?app=front&cluster=web"
    assert [(each.sign.word, each.count, each.href) for each in matrix.rsync_filters] == [
        ("Retrying", 2, f"{PAGE}?status=Retrying"),
        ("Pending", 1, f"{PAGE}?status=Pending"),
        ("Applied", 1, f"{PAGE}?status=Applied"),
    ]
    assert [each.sign.word for each in matrix.cluster_filters] == ["NotPresent", "Unknown", "Present"]


def test_the_view_of_the_matrix_is_in_the_address():
    parameters = {
        "status": ["Failed", "Odd"],
        "text": ["fr"],
        "app": ["front"],
        "cluster": ["web"],
        "instance": ["7"],
    }
    query = MatrixQuery.of_parameters(
        GROUP.subject, parameters | {"page": ["2"], "columns": ["3"], "resources": ["4"]}
    )
    assert query.address == (
        f"{PAGE}?status=Failed&page=2&columns=3&app=front&cluster=web&resources=4&instance=7&text=fr"
    )
    assert MatrixQuery.of_parameters(GROUP.subject, {"instance": ["x"], "app": ["front"]}) == QUERY
    assert query.with_cell(("front", "web")).cell is None
    assert query.with_status("Failed").address == f"{PAGE}?instance=7&text=fr"


def test_filters_choose_the_counted_resources():
    assert intent_matrix(ROWS, replace(QUERY, text="none")).rows == ()
    (row,) = intent_matrix(ROWS, replace(QUERY, statuses=frozenset({"Present", "Retrying"}))).rows
    assert counted(row.cells[0].counts.rsync) == [("Retrying", 2), ("Applied", 1)]


def test_a_large_matrix_is_shown_in_parts_the_apps_with_failures_first():
    (sample,) = {row for row in ROWS if row.name == "w0:/p1/shop/front.0"}
    rows = [
        sample._replace(app=f"a{app:03}", cluster=f"c{cluster}")
        for app in range(APPS_SHOWN + 1)
        for cluster in range(8)
    ]
    matrix = intent_matrix(rows, replace(QUERY, page=2, columns=2))
    assert ([row.app for row in matrix.rows], matrix.clusters.rows) == (["a025"], ("c6", "c7"))
    assert (matrix.apps.range, matrix.apps.previous) == ("26 to 26 of 26 apps", f"{PAGE}?columns=2")
    assert (matrix.clusters.next, matrix.clusters.previous) == (None, f"{PAGE}?page=2")
    first = intent_matrix(rows, QUERY)
    assert (first.apps.next, first.clusters.next) == (f"{PAGE}?page=2", f"{PAGE}?columns=2")


def test_a_cell_shows_its_resources_with_the_reports_of_hosts():
    assert cell_view(ROWS, QUERY, begun(), REPORTS) is None
    cell = cell_view(ROWS, replace(QUERY, cell=("front", "web")), begun(), REPORTS)
    assert [(line.name, line.rsync.word, line.exists.word) for line in cell.lines] == [
        ("w1:/p1/shop/front.0", "Retrying", "Unknown"),
        ("w1:/p1/shop/front.1", "Retrying", "Unknown"),
        ("w0:/p1/shop/front.1", "Pending", "NotPresent"),
        ("w0:/p1/shop/front.0", "Applied", "Present"),
    ]
    pending, applied = cell.lines[2:]
    assert (pending.href, pending.wanted, pending.deployed) == ("/hosts/w0", "shop-front 1.3", "")
    assert (pending.remark, applied.remark) == ("disk full", "")
    assert (applied.deployed, applied.providers) == ("shop-front 1.2", ("w0:80 (host = 'w0')",))
    assert (cell.part.range, cell.close) == ("4 resources", PAGE)


def test_the_page_has_its_instances_with_their_final_status():
    rows = tuple(map(row_to_json, instance_resources(begun(), REPORTS, with_details=True)))
    former = replace(begun(5), terminated=950.0, final=rows)
    record = replace(SHOP, instances=(former, begun()))
    shown = intent_view(record, QUERY, ROWS, REPORTS, (), {5: status_counts(ROWS)}, now=1000.0)
    assert [(line.id, line.href, line.shown) for line in shown.instances] == [
        (7, f"{PAGE}?instance=7", True),
        (5, f"{PAGE}?instance=5", False),
    ]
    assert counted(shown.instances[1].counts.rsync)[0] == ("Retrying", 2)
    assert shown.instances[0].counts is None
    assert record.instance(5) == former
    assert record.instance(9) is None
    assert recorded(GROUP, IntentState.CREATED).instance() is None


def test_a_change_since_the_approval_is_shown_in_lines():
    approved = replace(GROUP, state=IntentState.APPROVED, approval=APPROVAL)
    changed = IntentRecord(approved, IntentState.CREATED, (), CHANGED, CONTENT)
    shown = intent_view(changed, QUERY, (), REPORTS, (), {}, now=1000.0)
    assert (
        shown.sentence
        == "Its content has changed since it was approved by jane@example.com. Nothing of it is deployed."
    )
    assert shown.difference.lines == ("/p1/shop/db change property version from '1' to '2'",)
    unknown = intent_view(replace(changed, approved=None), QUERY, (), REPORTS, (), {}, now=1000.0)
    assert "never published" in unknown.difference.unknown
    same = intent_view(replace(changed, content=CONTENT), QUERY, (), REPORTS, (), {}, now=1000.0)
    assert (same.difference, same.matrix, same.cell) == (None, None, None)


def test_an_approval_that_does_not_suffice_is_shown_with_the_changes_since_the_one_before():
    partial = replace(GROUP, state=IntentState.APPROVED, approval=replace(APPROVAL, content=CHANGED.digest))
    record = IntentRecord(partial, IntentState.CREATED, (), CHANGED, CONTENT)
    shown = intent_view(record, QUERY, (), REPORTS, (), {}, now=1000.0)
    assert shown.sentence == "Its approval by jane@example.com does not suffice. Nothing of it is deployed."
    assert shown.difference.lines == ("/p1/shop/db change property version from '1' to '2'",)
    assert "the last publication did not accept it" in form(InstantiateIntent, record, signed=True).objection


def test_the_page_of_a_cluster_and_of_an_act():
    job = Job("a" * 40, JobState.FAILED, problems=("a.zk:1: wrong",))
    shown = intent_view(recorded(CLUSTER, IntentState.CREATED), QUERY, (), REPORTS, (), {}, now=1.0, job=job)
    assert ("Provider", "ams") in shown.facts
    assert shown.sentence == "It is not applied, so nothing of it is deployed."
    assert (shown.job.state, shown.job.problems) == ("failed", ("a.zk:1: wrong",))
    assert shown.job.sentence.startswith("Your act is commit aaaaaaaaaaaa. The syncer refused it")


@pytest.mark.parametrize(
    ("record", "offers"),
    [
        (recorded(GROUP, IntentState.CREATED), {"Approve": "", "Instantiate": "must be approved first"}),
        (
            IntentRecord(
                replace(GROUP, state=IntentState.APPROVED, approval=APPROVAL), IntentState.APPROVED, (), CONTENT
            ),
            {"Approve": "", "Instantiate": "", "Terminate": "nothing of it is deployed"},
        ),
        (
            recorded(replace(CLUSTER, state=IntentState.APPLIED), IntentState.APPLIED),
            {"Apply": "already", "Terminate": ""},
        ),
    ],
)
def test_only_the_acts_of_the_life_cycle_are_offered_the_others_with_the_reason(record, offers):
    shown = {offer.label: offer.objection for offer in offered_acts(record, user(), PAGE, signed=False)}
    for label, objection in offers.items():
        assert (objection in shown[label], bool(shown[label])) == (True, bool(objection))


def test_an_operator_with_paths_sees_why_an_act_is_not_possible():
    offers = offered_acts(SHOP, user("/p1/shop/front"), PAGE, signed=False)
    assert all("may not change intents of services at /p1/shop/db" in offer.objection for offer in offers)
    assert intent_paths(GROUP) == ("/p1/shop/db", "/p1/shop/front")


def form(act, record, *, signed=False):
    return act(subject=record.intent.subject).form(PublishedIntent(record, signed))


NEW_SHOP = replace(recorded(GROUP, IntentState.CREATED), content=CONTENT)


def test_where_approvals_need_a_signature_the_page_names_the_command_for_a_terminal():
    offered = {offer.label: offer.objection for offer in offered_acts(NEW_SHOP, user(), PAGE, signed=True)}
    expected = (
        "needs signed approvals; use 'zkdeployment intent approve p1/store/v1/shop --key FILE' at a terminal"
    )
    assert expected in offered["Approve"]
    assert "signed" not in offered["Instantiate"] + offered["Terminate"]
    assert form(ApproveIntent, NEW_SHOP, signed=True).objection == offered["Approve"]


def test_the_forms_show_the_consequences():
    approve = form(ApproveIntent, NEW_SHOP, signed=False)
    assert (approve.fields, approve.objection) == ((("subject", "p1/store/v1/shop"),), "")
    shown = with_approved_content(
        replace(approve, fields=(*approve.fields, ("content", "old"))), NEW_SHOP.snapshot
    )
    assert shown.fields == (("subject", "p1/store/v1/shop"), ("content", CONTENT.digest))
    assert "2 apps with 2 nodes" in shown.consequences[0]
    terminate = form(TerminateIntent, replace(SHOP, intent=replace(SHOP.intent, state=IntentState.INSTANTIATED)))
    assert (terminate.kind, terminate.button, terminate.objection) == ("danger", "Terminate", "")
    again = form(InstantiateIntent, replace(SHOP, intent=replace(SHOP.intent, state=IntentState.INSTANTIATED)))
    assert "instantiated already" in again.objection


def test_a_change_in_place_may_be_approved_if_the_document_allows_it():
    deployed = replace(GROUP, state=IntentState.INSTANTIATED, approval=APPROVAL)
    fixed, changing = (
        IntentRecord(replace(deployed, update=rule), IntentState.INSTANTIATED, (begun(),), CONTENT, CONTENT)
        for rule in (UpdateRule.TERMINATE, UpdateRule.APPROVE)
    )
    assert "terminate it first" in form(ApproveIntent, fixed, signed=False).objection
    found = form(ApproveIntent, changing, signed=False)
    assert (found.objection, "in place" in found.consequences[0]) == ("", True)


def test_a_long_content_is_cut_and_names_the_place_of_the_rest():
    assert shown_lines(str(n) for n in range(2000)) == tuple(str(n) for n in range(2000))
    assert shown_lines(str(n) for n in range(2001))[2000].startswith("and more: ")


def test_the_page_of_a_service_names_the_intents_that_govern_it():
    (part,) = service_part([SHOP], "/p1/shop/front")
    ((intent, state, targets, approver),) = part.rows
    assert (intent.text, intent.href, state.tone) == ("p1/store/v1/shop", PAGE, "good")
    assert (targets.text, approver.text) == ("all", APPROVAL.by)
    assert service_part([SHOP], "/p1/shop/frontier") == ()
