"""Variables in queries: values are escaped, and no value changes the structure of a query."""

import re

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.strategies.queries import (
    QueryVariables,
    UnresolvedError,
    query_faults,
    resolve,
    syntax_fault,
)

ERRORS = 'sum(rate(errors{code=~"5..", instance=~"$instances"}[5m])) / sum(rate(all{instance=~"$instances"}[5m]))'

#: Structural characters of PromQL, of its quotes and of regular expressions.
_hostile = st.text(st.sampled_from("abc.1:\"'`{}\\|()[]$^*+?,=~!#\n\t\x00é"), min_size=1, max_size=12)

TEMPLATES = [
    'up{instance=~"$instances"}',
    "up{instance!~'$instances', revision='$revision'}",
    'up{instance=~`$instances`, job="x"}',
    'sum by (a) (rate(up{instance=~"^($instances):.*$"}[5m])) > 1 # "$instances"',
    'up{service=~"a\\\\.$service"}',
]


def matchers(query):
    """Return the structure of a query, without the values of its matchers, and these values."""
    found = []

    def note(part):
        if isinstance(part, promql_parser.VectorSelector):
            found.extend((m.name, str(m.op), m.value) for m in part.matchers.matchers)
        return True

    tree = promql_parser.parse(query)
    promql_parser.walk(tree, note)
    return [(name, op) for name, op, _ in found], [value for _, _, value in found]


@given(st.sampled_from(TEMPLATES), st.lists(_hostile, min_size=1, max_size=3), _hostile)
def test_no_value_changes_the_structure_of_a_query(template, instances, revision):
    values = QueryVariables(instances=tuple(instances), revision=(revision,), service=tuple(instances))
    plain = QueryVariables(instances=("x",), revision=("y",), service=("z",))
    assert matchers(resolve(template, values))[0] == matchers(resolve(template, plain))[0]


@given(st.lists(_hostile, min_size=1, max_size=3))
def test_a_regular_expression_matches_exactly_the_values(instances):
    resolved = resolve('up{instance=~"$instances"}', QueryVariables(instances=tuple(instances)))
    (value,) = matchers(resolved)[1]
    for instance in instances:
        assert re.fullmatch(value, instance)
    assert not re.fullmatch(value, "another")


@given(_hostile)
def test_a_label_value_is_kept_character_by_character(revision):
    for quote in "\"'":
        resolved = resolve(f"up{{revision={quote}$revision{quote}}}", QueryVariables(revision=(revision,)))
        assert matchers(resolved)[1] == [revision]


def test_several_instances_are_alternatives_and_dots_are_escaped():
    variables = QueryVariables(instances=("10.0.0.1:80", "b:80"))
    assert resolve('up{instance=~"$instances"}', variables) == 'up{instance=~"(?:10\\\\.0\\\\.0\\\\.1:80|b:80)"}'


def test_the_same_query_with_the_variables_of_the_others_measures_the_others():
    variables = QueryVariables(instances=("a",), hosts=("h1",), others=("b",), other_hosts=("h2",))
    query = 'up{instance=~"$instances", host=~"$hosts"}'
    assert resolve(query, variables.of_others()) == 'up{instance=~"b", host=~"h2"}'


def test_a_variable_without_values_has_no_query_but_a_reason():
    with pytest.raises(UnresolvedError, match="no instance of the hosts is registered"):
        resolve(ERRORS, QueryVariables())


@pytest.mark.parametrize("matcher", ["=", "!="])
def test_a_single_value_is_compared_as_a_label_value(matcher):
    query = f'up{{service{matcher}"$service"}}'
    assert not list(query_faults(query))
    assert resolve(query, QueryVariables(service=("/shop/a.b",))) == f'up{{service{matcher}"/shop/a.b"}}'
    with pytest.raises(UnresolvedError) as caught:
        resolve(query, QueryVariables(service=("/a", "/b")))
    assert str(caught.value) == f"$service has 2 values; expected one after {matcher}, or use =~ or !~"


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ('up{instance=~"$instance"}', "there is no variable $instance; did you mean $instances?"),
        ('up{instance=~"$nope"}', "there is no variable $nope; expected one of: $instances, $hosts, $others"),
        ("up{instance=~$instances}", "$instances stands outside of a quoted value"),
        ('label_replace(up, "a", "$hosts", "b", "c")', "$hosts is not the value of a label matcher"),
        ('sum(up{a="b"}) != "$service"', "$service is not the value of a label matcher"),
        ('up != "$service"', "$service is not the value of a label matcher"),
        ('up{instance=~"$instances}', 'a quoted text begins with " and does not end'),
        ('up{i=~"[$instances]"}', "$instances stands in [] or after a backslash; expected it outside"),
        ('up{i=~"[^]a$hosts]"}', "$hosts stands in [] or after a backslash"),
        (r'up{i=~"[\\]$hosts]"}', "$hosts stands in [] or after a backslash"),
        ('up{i=~"[[:alpha:]$hosts]"}', "$hosts stands in [] or after a backslash"),
        (r'up{i=~"\\$instances"}', "$instances stands in [] or after a backslash"),
        (r"up{i!~`\$instances`}", "$instances stands in [] or after a backslash"),
        (f"up{{a='{'x' * 10_001}'}}", "expected a query of at most 10000 characters"),
    ],
)
def test_faults_of_variables_and_quotes_are_named(query, fault):
    assert next(query_faults(query)).startswith(fault)


@pytest.mark.parametrize(
    "query",
    [
        ERRORS,
        'label_replace(up, "a", "$1", "b", "(.*)")',
        'up{a=~"x$"} # $nothing',
        'up{a="$revision"}',
        r'up{a="\\$revision[$revision]"}',
        r'up{a=~"[0-9]+\\.$instances[a-z]"}',
        r'up{a=~"\\[$instances\\]"}',
        r'up{a=~"\\\\$instances"}',
        r"up{a=~`\\$instances|[$]`}",
    ],
)
def test_valid_queries_have_no_faults(query):
    assert not [*query_faults(query), *filter(None, [syntax_fault(query)])]


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("sum(", "the query is not valid PromQL"),
        ("rate(up)", "the query is not valid PromQL"),
        ("(up[5m])", "the query returns all values of a time range"),
        ("up[5m:1m]", "the query returns all values of a time range"),
        ('"text"', "the query is only a text"),
    ],
)
def test_the_parser_of_promql_finds_faults(query, fault):
    assert syntax_fault(query).startswith(fault)
