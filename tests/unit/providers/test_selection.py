"""The version in service: the one used last, until another has a majority."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.providers.selection import (
    NO_VERSION,
    ProviderList,
    RegisteredProvider,
    parse_majority,
    select_providers,
    version_in_service,
)

SIXTY = Fraction(60)
VERSIONS = st.sampled_from(["1.1", "1.4", "1.10", "c0ffee", NO_VERSION])


def instances(*versions):
    """Return instances of these versions, registered in this order."""
    return {
        f"app{number}:80": RegisteredProvider({"version": version} if version else {}, number)
        for number, version in enumerate(versions, 1)
    }


def services():
    return st.lists(VERSIONS, max_size=12).map(lambda versions: instances(*versions))


@pytest.mark.parametrize(
    ("versions", "last", "chosen"),
    [
        (["1.1"] * 5, "1.1", "1.1"),
        (["1.1"] * 3 + ["1.4"] * 2, "1.1", "1.1"),
        (["1.1"] * 2 + ["1.4"] * 3, "1.1", "1.4"),
        (["1.1"] * 41 + ["1.4"] * 59, "1.1", "1.1"),
        (["1.1"] * 40 + ["1.4"] * 60, "1.1", "1.4"),
        (["1.1"] * 2 + ["1.4"] * 3, "1.4", "1.4"),
        (["1.2", "1.2", "1.4", "1.4"], "1.1", "1.1"),  # nobody has a majority yet
        ([], "1.1", "1.1"),
        ([], None, None),
        (["1.1", "1.1", "1.4"], None, "1.1"),
        (["1.10", "1.9"], None, "1.10"),
        (["1.9", "1.10", "1.2"], None, "1.10"),
        (["f00d", "c0ffee"], None, "c0ffee"),  # commits have no order: the one that registered last
        (["f00d", "c0ffee", "f00d", "c0ffee", "beef"], None, "c0ffee"),
        (["1.4", NO_VERSION], None, NO_VERSION),
        ([NO_VERSION, "1.4"], None, "1.4"),
        ([NO_VERSION] * 3, NO_VERSION, NO_VERSION),
        ([NO_VERSION] * 2 + ["1.4"] * 3, NO_VERSION, "1.4"),
    ],
)
def test_the_version_in_service(versions, last, chosen):
    assert version_in_service(instances(*versions), last, SIXTY) == chosen


def test_a_version_is_the_same_as_text_and_as_a_number():
    listed = {"a:1": RegisteredProvider({"version": 2}, 1), "b:1": RegisteredProvider({"version": "2"}, 2)}
    assert set(select_providers(ProviderList("/x", listed), None, SIXTY).providers) == {"a:1", "b:1"}


@given(services(), VERSIONS, st.fractions(min_value=51, max_value=100))
def test_a_version_stays_exactly_until_another_has_the_majority(providers, last, majority):
    counts = Counter(provider.version for provider in providers.values())
    chosen = version_in_service(providers, last, majority)
    if chosen != last:
        assert 100 * counts[chosen] >= majority * len(providers)
    else:
        assert all(100 * count < majority * len(providers) for version, count in counts.items() if version != last)


@given(services())
def test_at_first_no_version_has_more_instances(providers):
    counts = Counter(provider.version for provider in providers.values())
    chosen = version_in_service(providers, None, SIXTY)
    assert (chosen is None) == (not providers)
    assert counts[chosen] == max(counts.values(), default=0)


@given(services(), st.none() | VERSIONS)
def test_the_choice_does_not_depend_on_the_order_in_which_instances_are_read(providers, last):
    backwards = dict(reversed(providers.items()))
    assert version_in_service(backwards, last, SIXTY) == version_in_service(providers, last, SIXTY)


@given(services(), st.none() | VERSIONS, st.none() | st.just("/x"), st.none() | VERSIONS)
def test_a_selection_is_never_mixed_and_loses_no_instance(providers, last, source, kept):
    selection = select_providers(ProviderList("/shop/web/providers", providers, source, kept), last, SIXTY)
    assert {providers[address].version for address in selection.providers} <= {selection.version}
    assert selection.version not in {providers[address].version for address in selection.others}
    assert selection.providers.keys() | selection.others.keys() == providers.keys()
    assert source is None or selection.version == kept


def test_a_selection_in_words_and_for_programs():
    listed = ProviderList("/shop/web/providers", instances("1.4", "1.1", NO_VERSION, "1.1"))
    selection = select_providers(listed, None, SIXTY)
    assert selection.summary == (
        "in service at /shop/web/providers: 1.1, 2 of 4 instances; not in service: no version (1), 1.4 (1):"
        " app2:80, app4:80"
    )
    assert selection.to_json() == {
        "path": "/shop/web/providers",
        "version": "1.1",
        "providers": {"app2:80": {"version": "1.1"}, "app4:80": {"version": "1.1"}},
        "others": {"app1:80": {"version": "1.4"}, "app3:80": {}},
    }
    nothing = select_providers(ProviderList("/x", {}), None, SIXTY)
    assert nothing.summary == "no instance has registered at /x"
    unversioned = select_providers(ProviderList("/x", instances("1", "2")), NO_VERSION, SIXTY)
    assert unversioned.summary == "in service at /x: no version, 0 of 2 instances; not in service: 1 (1), 2 (1)"


@pytest.mark.parametrize(
    ("text", "percent"), [("60%", 60), ("60", 60), (" 66.7 %", Fraction(667, 10)), ("100%", 100), ("50.5%", 50.5)]
)
def test_majorities(text, percent):
    assert parse_majority(text) == percent


@pytest.mark.parametrize("text", ["50%", "100.1%", "0", "-60%", "six", "", "60%%", "1e2", "٦٠%"])
def test_values_other_than_a_majority_are_refused(text):
    with pytest.raises(ConfigurationError, match="expected more than 50% and at most 100%, such as 60%"):
        parse_majority(text)
