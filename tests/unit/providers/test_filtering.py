"""The list of a filter: never mixed after any interruption, and the same for all consumers."""

from fractions import Fraction

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zkdeployment.base.errors import ConfigurationError, RefusedError
from zkdeployment.providers.selection import (
    FilterChange,
    FilteredList,
    ProviderList,
    RegisteredProvider,
    check_output,
    check_paths,
    next_change,
    select_providers,
)

SIXTY = Fraction(60)
SOURCE, OUTPUT = "/shop/web/providers", "/in-service/web"


def registered(**versions):
    return ProviderList(
        SOURCE,
        {name: RegisteredProvider({"version": version}, 1) for name, version in versions.items()},
    )


def listed(version, **versions):
    return FilteredList(SOURCE, version, {name: {"version": version} for name, version in versions.items()})


def test_a_first_list_is_written_even_without_an_instance():
    assert next_change(registered(), FilteredList(None, None, {}), SIXTY) == FilterChange(None, {}, {}, set())
    assert next_change(registered(), FilteredList(SOURCE, None, {}), SIXTY) is None


def test_instances_of_the_version_in_service_come_and_go():
    change = next_change(registered(a="1.1", b="1.1", c="1.4"), listed("1.1", a="1.1", x="1.1"), SIXTY)
    assert change == FilterChange("1.1", {"b": {"version": "1.1"}}, {}, {"x"})


def test_a_switch_replaces_instances_that_kept_their_address():
    change = next_change(registered(a="1.4", b="1.4", c="1.1"), listed("1.1", a="1.1", c="1.1"), SIXTY)
    assert change == FilterChange("1.4", {"b": {"version": "1.4"}}, {"a": {"version": "1.4"}}, {"c"})


def test_a_list_that_is_as_wanted_is_left_alone():
    assert next_change(registered(a="1.1", b="1.4"), listed("1.1", a="1.1"), SIXTY) is None


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("/web", "expected a node below a top-level node"),
        ("/zkdeployment/web", "/zkdeployment belongs to zkdeployment"),
        ("/hosts/web", "/hosts belongs to zkdeployment"),
        (SOURCE, "not at, above or below"),
        (f"{SOURCE}/x", "not at, above or below"),
        ("/shop/web", "not at, above or below"),
    ],
)
def test_paths_that_no_filter_may_have(output, problem):
    with pytest.raises(ConfigurationError, match=problem):
        check_paths(SOURCE, output)
    check_paths(SOURCE, OUTPUT)
    check_paths(SOURCE, f"{SOURCE}-in-service")


@pytest.mark.parametrize(
    ("managed", "found", "problem"),
    [
        ({"/in-service"}, listed(None), "the tree's repository manages /in-service"),
        ({"/shop"}, FilteredList(None, None, {"a": {}}), "it holds nodes that no filter wrote"),
        ({"/shop"}, FilteredList("/shop/db/providers", "1", {}), "a filter of /shop/db/providers, not of"),
    ],
)
def test_outputs_that_are_refused(managed, found, problem):
    with pytest.raises(RefusedError, match=problem):
        check_output(SOURCE, OUTPUT, managed, found)
    check_output(SOURCE, OUTPUT, {"/shop"}, FilteredList(None, None, {}))
    check_output(SOURCE, OUTPUT, {"/shop"}, listed("1.1", a="1.1"))


ADDRESSES = st.sampled_from("abcdefgh")
VERSIONS = st.sampled_from(["1.1", "1.4", "1.10", ""])


class SplitUpdate(RuleBasedStateMachine):
    """Instances change their versions; filters are killed at any point; consumers read, restart and compare."""

    def __init__(self) -> None:
        super().__init__()
        self.instances = {}
        self.list = FilteredList(None, None, {})
        self.pending = None
        self.transactions = 0
        self.seen = {}

    @rule(address=ADDRESSES, version=VERSIONS)
    def register(self, address, version):
        self.transactions += 1
        properties = {"version": version} if version else {}
        self.instances[address] = RegisteredProvider(properties, self.transactions)

    @rule(address=ADDRESSES)
    def leave(self, address):
        self.instances.pop(address, None)

    @rule()
    def a_filter_decides(self):
        self.pending = next_change(ProviderList(SOURCE, dict(self.instances)), self.list, SIXTY)
        self.decided_on = self.list

    @rule()
    def a_filter_is_killed_before_it_writes(self):
        self.pending = None

    @precondition(lambda self: self.pending is not None and self.decided_on is self.list)
    @rule()
    def a_filter_writes(self):
        change, self.pending = self.pending, None
        kept = {name: found for name, found in self.list.providers.items() if name not in change.remove}
        self.list = FilteredList(SOURCE, change.version, {**kept, **change.replace, **change.add})

    @precondition(lambda self: self.list.source is not None)  # else there is no node to read
    @rule(consumer=st.integers(0, 3), remembered=st.none() | VERSIONS)
    def a_consumer_reads(self, consumer, remembered):
        """``remembered`` is the list that the consumer used last, or empty after a restart."""
        nodes = {name: RegisteredProvider(found, 0) for name, found in self.list.providers.items()}
        found = select_providers(
            ProviderList(OUTPUT, nodes, self.list.source, self.list.version), remembered, SIXTY
        )
        self.seen[consumer] = (self.list, found)

    @invariant()
    def the_list_is_never_mixed(self):
        versions = {found.get("version", "") for found in self.list.providers.values()}
        assert versions <= {self.list.version}

    @invariant()
    def consumers_that_have_read_the_same_list_agree(self):
        for state, found in self.seen.values():
            assert dict(found.providers) == dict(state.providers)
            assert found.others == {}
            for other_state, other in self.seen.values():
                assert state is not other_state or found == other

    @invariant()
    def what_is_written_is_what_is_in_service(self):
        """A filter that starts anew, or takes over, decides the same: nothing but the list is remembered."""
        now = ProviderList(SOURCE, dict(self.instances))
        change = next_change(now, self.list, SIXTY)
        if change is None:
            assert select_providers(now, self.list.version, SIXTY).providers == self.list.providers


TestSplitUpdate = SplitUpdate.TestCase
TestSplitUpdate.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_consumers_that_each_judge_for_themselves_may_disagree_about_the_same_instances():
    now = registered(a="1.1", b="1.1", c="1.4", d="1.4")
    assert select_providers(now, "1.1", SIXTY).version != select_providers(now, None, SIXTY).version
