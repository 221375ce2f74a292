"""The view of the list of hosts is in the address: it survives acts, reloads and sharing."""

from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.fleet.views.columns import NAME, ROLE, SINCE, SORTED_BY, VERSION
from zkdeployment.fleet.views.status import HostState, HostStatus
from zkdeployment.service.views.hosts import HostQuery

HOSTS = [
    HostStatus("h1", "web1.example.com", HostState.CONVERGED, role="web", version="r2", since=30.0),
    HostStatus("h2", "db1.example.com", HostState.FAILED, role="db", version="r1", since=10.0, error="disk full"),
    HostStatus("h3", "app1.example.com", HostState.BEHIND, version="r1"),
]


def ids(query):
    return [host.id for host in query.select(HOSTS)]


@given(
    st.builds(
        HostQuery,
        states=st.frozensets(st.sampled_from(HostState)),
        text=st.text(max_size=50).map(lambda text: " ".join(text.split())),
        sort=st.sampled_from(SORTED_BY),
        descending=st.booleans(),
        page=st.integers(1, 1000),
    )
)
def test_an_address_leads_back_to_its_view(query):
    address = urlsplit(query.address)

    assert address.path == "/"
    assert HostQuery.of_parameters(parse_qs(address.query)) == query


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"state": ["nonsense"], "sort": ["weight"], "page": ["-1"]},
        {"page": ["0"]},
        {"page": ["99999999999999999999"]},
        {"page": ["\u0663"]},
        {"text": ["  "]},
    ],
)
def test_malformed_parameters_count_as_absent(values):
    assert HostQuery.of_parameters(values) == HostQuery()


def test_hosts_that_need_attention_come_first():
    assert ids(HostQuery()) == ["h2", "h3", "h1"]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        (NAME, ["h3", "h2", "h1"]),
        (ROLE, ["h2", "h1", "h3"]),
        (VERSION, ["h3", "h2", "h1"]),
        (SINCE, ["h1", "h2", "h3"]),
    ],
)
def test_hosts_are_sorted_by_a_column(sort, order):
    assert ids(HostQuery(sort=sort)) == order


def test_a_column_that_is_chosen_again_is_reversed():
    query = HostQuery().sorted_by(NAME)

    assert ids(query) == ["h3", "h2", "h1"]
    assert ids(query.sorted_by(NAME)) == ["h1", "h2", "h3"]


@pytest.mark.parametrize(
    ("text", "found"), [("WEB1", ["h1"]), ("h3", ["h3"]), ("disk", ["h2"]), ("r1", ["h2", "h3"]), ("none", [])]
)
def test_hosts_are_found_by_name_id_error_and_revision(text, found):
    assert ids(HostQuery(text=text)) == found


def test_states_are_chosen_and_dropped_and_begin_on_the_first_page():
    query = HostQuery(page=7).with_state(HostState.FAILED)

    assert (ids(query), query.page) == (["h2"], 1)
    assert query.with_state(HostState.FAILED) == HostQuery()
