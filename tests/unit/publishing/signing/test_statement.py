"""The text of a statement: canonical, and read with suspicion."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.base.errors import UntrustedError
from zkdeployment.publishing.signing.statement import SignedStatement, Statement, decode_bucket, strategy_digest
from zkdeployment.strategies.strategy import Strategy

digests = st.text("0123456789abcdef", min_size=64, max_size=64)
statements = st.builds(
    Statement,
    st.integers(2**52, 2**53 - 1),
    st.integers(1, 2**52),
    st.text(max_size=9) | st.integers(),
    st.none() | digests,
    st.dictionaries(st.text("0123456789abcdef", min_size=2, max_size=2), digests, max_size=4),
    digests,
)


@given(statements)
def test_a_statement_is_read_back_unchanged(statement):
    text = statement.to_text()
    assert Statement.from_text(text) == statement
    data = SignedStatement(text, "-----BEGIN\nx\n").to_data()
    assert SignedStatement.from_data(data) == SignedStatement(text, "-----BEGIN\nx\n")


@given(statements, statements)
def test_different_statements_have_different_texts(one, other):
    assert (one.to_text() == other.to_text()) is (one == other)


def test_the_text_is_canonical_json():
    statement = Statement(7, 5, "é", None, {"ff": "0" * 64, "00": "1" * 64}, "2" * 64)
    assert statement.to_text() == (
        f'{{"buckets":{{"00":"{"1" * 64}","ff":"{"0" * 64}"}},"left":"{"2" * 64}","revision":"\\u00e9",'
        '"schema":"zkdeployment/signed-publication/v1","sequence":7,"since":5,"strategy":null}'
    )


GOOD = (
    f'{{"buckets":{{}},"left":"{"f" * 64}","revision":"r1","schema":"zkdeployment/signed-publication/v1",'
    '"sequence":7,"since":5,"strategy":null}'
)


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("", ""),
        (GOOD, "[]"),
        (GOOD, "[" * 100_000),
        ("/v1", "/v2"),
        ("7", "0"),
        ("7", "true"),
        ("7", '"7"'),
        ("5", "0"),
        ("5", "8"),  # hosts would take it for what they have
        ('"r1"', "null"),
        ("null", '"short"'),
        ("{}", '{"0":"' + "0" * 64 + '"}'),
        ("{}", '{"00":"' + "0" * 63 + '"}'),
        ("{}", '{"00":7}'),
        ('"left"', '"other"'),
        ("f" * 64, "f" * 63),
    ],
)
def test_a_text_of_another_form_is_refused(part, wrong):
    text = GOOD.replace(part, wrong) if part else GOOD[:-1]
    with pytest.raises(UntrustedError, match="the statement of the signed publication"):
        Statement.from_text(text)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"app1":7}', b'{"app1":"x"}', b"[" * 100_000])
def test_a_damaged_bucket_is_refused(data):
    with pytest.raises(UntrustedError, match="a bucket of the signed publication"):
        decode_bucket(data)


def test_a_root_node_that_is_not_text_is_refused():
    with pytest.raises(UntrustedError, match="not text"):
        SignedStatement.from_data(b"\xff")


def test_the_digest_of_a_strategy_changes_with_the_strategy():
    assert strategy_digest(None) is None
    one, other = strategy_digest(Strategy("one", ())), strategy_digest(Strategy("other", ()))
    assert one is not None
    assert one != other
