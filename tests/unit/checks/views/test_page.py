"""The page of checks: filters, search and pages."""

from dataclasses import replace

from support.checks.instances import KEY
from zkdeployment.checks.rules.findings import check_findings
from zkdeployment.checks.rules.instance import CheckInstance, CheckState, InstanceConfiguration
from zkdeployment.checks.rules.listing import CheckSummary, SystemBacklog
from zkdeployment.checks.rules.monitoring_system import CheckResult, ResultState
from zkdeployment.checks.views.page import PAGE_SIZE, checks_view, service_part

NOW = 1000.0


def findings(*states):
    instances = [
        (
            CheckInstance(
                replace(KEY, host=f"h{number:03}"),
                (InstanceConfiguration(0, "c", CheckState.ACTIVE, {}, "nagios1"),),
                0,
            ),
            state,
        )
        for number, state in enumerate(states)
    ]
    results = {found.id: CheckResult(state, f"it is {state.value}", 1.0, 2.0) for found, state in instances}
    return check_findings({found.id: found for found, _ in instances}, results)


def view(found, **parameters):
    return checks_view(CheckSummary(), found, {name: [value] for name, value in parameters.items()}, NOW)


def test_the_filters_count_the_findings_and_lead_to_them():
    found = findings(ResultState.OK, ResultState.CRITICAL, ResultState.OK)
    page = view(found)
    assert [(link.word, link.count, link.href, link.selected) for link in page.filters] == [
        ("critical", 1, "/checks?state=critical", False),
        ("ok", 2, "/checks?state=ok", False),
    ]
    assert [each.word for each in page.part.rows] == ["critical", "ok", "ok"]
    assert page.part.range == "1 to 3 of 3"


def test_a_selected_filter_leads_back_to_all_checks():
    page = view(findings(ResultState.OK, ResultState.CRITICAL), state="ok", text="it is")
    assert [each.host for each in page.part.rows] == ["h000"]
    assert [(link.word, link.href, link.selected) for link in page.filters] == [
        ("critical", "/checks?state=critical&text=it+is", False),
        ("ok", "/checks?text=it+is", True),
    ]


def test_the_search_finds_hosts_services_and_outputs():
    found = findings(ResultState.OK, ResultState.CRITICAL)
    assert [each.host for each in view(found, text="H001").part.rows] == ["h001"]
    assert [each.host for each in view(found, text="is crit").part.rows] == ["h001"]
    assert len(view(found, text="/p1/shop").part.rows) == 2
    assert view(found, text="nothing").part.rows == ()


def test_an_unknown_state_in_the_address_shows_all_checks():
    assert len(view(findings(ResultState.OK), state="bogus").part.rows) == 1


def test_long_lists_have_pages():
    found = findings(*[ResultState.OK] * (PAGE_SIZE + 1))
    first, second = view(found), view(found, page="2")
    assert (first.part.range, first.part.previous, first.part.next) == ("1 to 50 of 51", None, "/checks?page=2")
    assert (second.part.range, second.part.previous, second.part.next) == ("51 to 51 of 51", "/checks", None)


def test_monitoring_systems_show_their_last_contacts():
    system = SystemBacklog("nagios1", None, NOW - 60, None, frozenset("ab"), frozenset("bc"), frozenset("d"))
    summary = CheckSummary((system,))
    (row,) = checks_view(summary, (), {}, NOW).systems
    assert row.fetched is not None
    assert not row.is_silent
    assert row.reported is None
    assert (row.name, row.waiting, row.failed) == ("nagios1", 3, 1)


def test_the_page_of_a_service_compares_results_with_the_deployment_of_the_host():
    instance = CheckInstance(KEY, (InstanceConfiguration(0, "c", CheckState.ACTIVE, {}, "nagios1"),), 0)

    def compared(since, checked, deployed):
        results = {instance.id: CheckResult(ResultState.CRITICAL, "down", since, checked)}
        ((row,),) = (
            part.rows for part in service_part(check_findings({instance.id: instance}, results), deployed)
        )
        return row[2].tone, row[4].text

    assert compared(500.0, 700.0, {KEY.host: 600.0}) == ("bad", "the same before and after")
    assert compared(500.0, 550.0, {KEY.host: 600.0}) == ("bad", "from before; not checked since then")
    assert compared(660.0, 700.0, {KEY.host: 600.0}) == ("bad", "changed 1 min after it")
    assert compared(660.0, 700.0, {}) == ("bad", "not known")
    assert service_part((), {}) == ()
