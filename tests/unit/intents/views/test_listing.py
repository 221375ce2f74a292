"""The list of intents: filters, orders and pages in the address, groups by project, clusters by provider."""

from dataclasses import replace

from support.intents import APPROVAL, CLUSTER, GROUP, begun, recorded
from zkdeployment.intents.documents import IntentState
from zkdeployment.intents.rules.reality import ClusterStatus, RsyncStatus
from zkdeployment.intents.rules.resources import ResourceRow
from zkdeployment.intents.views.matrix import (
    PAGE_SIZE,
    IntentListQuery,
    IntentSort,
    intent_part,
    intents_view,
    status_counts,
)

SHOP = recorded(replace(GROUP, approval=APPROVAL), IntentState.INSTANTIATED, begun(at=900.0))
NEWS = recorded(replace(GROUP, project="p2", name="news"), IntentState.CREATED)
OLD = recorded(replace(GROUP, name="old"), IntentState.TERMINATED, replace(begun(), terminated=950.0))
WEB = recorded(CLUSTER, IntentState.APPLIED)
RECORDS = (WEB, SHOP, OLD, NEWS)


def view(query: IntentListQuery, records=RECORDS, counts=None):
    return intents_view(records, query, intent_part(records, query), counts or {}, now=1000.0)


def names(shown):
    return [(section.title, [row.name for row in section.rows]) for section in shown.sections]


def test_groups_are_sorted_by_project_and_clusters_by_provider():
    shown = view(IntentListQuery())
    assert names(shown) == [
        ("Project p1", ["store/v1/old", "store/v1/shop"]),
        ("Project p2", ["store/v1/news"]),
        ("Clusters of provider ams", ["web"]),
    ]
    shop = shown.sections[0].rows[1]
    assert (shop.href, shop.state, shop.apps, shop.by) == (
        "/intents/p1/store/v1/shop",
        "Instantiated",
        "2 apps",
        "jane@example.com",
    )
    assert shop.since.age == "1 min ago"
    assert [(each.name, each.count, each.selected) for each in shown.filters] == [
        ("Created", 1, False),
        ("Instantiated", 1, False),
        ("Applied", 1, False),
        ("Terminated", 1, False),
    ]
    assert shown.part.range == "4 intents"


def test_the_row_has_the_statuses_of_the_newest_instance():
    failed = ResourceRow("db", "web", "Deployment", "w0:/p1/shop/db.0", RsyncStatus.FAILED, ClusterStatus.UNKNOWN)
    counts = {GROUP.subject: status_counts([failed, failed._replace(rsync=None)])}
    row = view(IntentListQuery(), counts=counts).sections[0].rows[1]
    assert [(sign.word, count) for sign, count in row.counts.rsync] == [("Failed", 1)]
    assert [(sign.word, count) for sign, count in row.counts.exists] == [("Unknown", 2)]
    assert row.counts.is_failing
    assert view(IntentListQuery()).sections[0].rows[1].counts is None


def test_the_view_is_in_the_address():
    address = "/intents?state=Created&state=Terminated&text=p1&sort=-since&page=2"
    parameters = {"state": ["Terminated", "Created", "Gone"], "text": [" p1 "], "sort": ["-since"], "page": ["2"]}
    query = IntentListQuery.of_parameters(parameters)
    assert query.address == address
    assert query.with_state(IntentState.CREATED).address == "/intents?state=Terminated&text=p1&sort=-since"
    assert (
        query.sorted_by(IntentSort.SINCE).address == "/intents?state=Created&state=Terminated&text=p1&sort=since"
    )
    assert IntentListQuery.of_parameters({"sort": ["colour"], "page": ["x"]}).address == "/intents"
    assert names(view(replace(query, page=1))) == [("Project p1", ["store/v1/old"])]


def test_intents_are_sorted_within_their_project():
    def first(sort, *, descending=False):
        return names(view(IntentListQuery(sort=sort, descending=descending)))[0][1]

    assert first(IntentSort.SUBJECT, descending=True) == ["store/v1/shop", "store/v1/old"]
    assert first(IntentSort.STATE) == ["store/v1/shop", "store/v1/old"]
    assert first(IntentSort.SINCE) == ["store/v1/old", "store/v1/shop"]
    assert first(IntentSort.SINCE, descending=True) == ["store/v1/shop", "store/v1/old"]


def test_a_long_list_has_pages():
    records = [recorded(replace(GROUP, name=f"g{n:03}"), IntentState.CREATED) for n in range(PAGE_SIZE + 1)]
    first, last = view(IntentListQuery(), records), view(IntentListQuery(page=9), records)
    assert (first.part.previous, first.part.next, first.part.range) == (
        None,
        "/intents?page=2",
        "1 to 50 of 51 intents",
    )
    assert (last.part.previous, last.part.next, last.part.range) == ("/intents", None, "51 to 51 of 51 intents")
    assert view(IntentListQuery(text="none"), records).sections == ()
