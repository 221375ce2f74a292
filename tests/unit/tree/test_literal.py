import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.trees import values
from zkdeployment.tree.diff import format_value, stored_alike
from zkdeployment.tree.literal import MAX_DEPTH, LiteralError, evaluate, read_assignment

VALUES = [
    ("1", 1),
    ("-1", -1),
    ("+1", 1),
    ("0", 0),
    ("1_000", 1000),
    ("0x10", 16),
    ("12345678901234567890", 12345678901234567890),
    ("1.5", 1.5),
    ("-0.5", -0.5),
    ("1e3", 1000.0),
    ("True", True),
    ("False", False),
    ("None", None),
    ("''", ""),
    ("'a'", "a"),
    ('"a"', "a"),
    ("u'a'", "a"),
    ("r'\\d'", "\\d"),
    ("'\\d'", "\\d"),
    ("'a\\n\\x00b'", "a\n\x00b"),
    ("'''a'b'''", "a'b"),
    ("'a' \"b\" 'c'", "abc"),
    ("'it\\'s'", "it's"),
    ("'é ☃ 😀'", "é ☃ 😀"),
    ("'a => b -> c # d'", "a => b -> c # d"),
    ("1 # one", 1),
    ("[]", []),
    ("()", []),
    ("{}", {}),
    ("(1)", 1),
    ("(1,)", [1]),
    ("1, 2", [1, 2]),
    ("[1, 'a', (2, [3])]", [1, "a", [2, [3]]]),
    ("{3, 1, 2, 1}", [1, 2, 3]),
    ("{'b', None, 2.5, 'a', True, (1,)}", [None, True, 2.5, "a", "b", [1]]),
    ("{'a': 1, 2: {}, 1.5: 0, True: 1, None: ''}", {"a": 1, "2": {}, "1.5": 0, "true": 1, "null": ""}),
    ("1 + 2 * 3", 7),
    ("(1 + 2) * 3", 9),
    ("60 * 60 * 24", 86400),
    ("6 / 2", 3),
    ("7 / 2", 3.5),
    ("6.0 / 2", 3.0),
    ("1 - -1", 2),
    ("-(1 + 2)", -3),
    ("1.0 + 1", 2.0),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_a_literal_evaluates_to_a_json_value(text, value):
    assert stored_alike(evaluate(text), value), evaluate(text)


ERRORS = [
    ("", 0, "cannot read"),
    ("1.2.3", 3, "cannot read 1.2.3 (invalid syntax); expected a number, text in quotes"),
    ("'a", 0, "unterminated string literal"),
    ("[1, 2", 0, "was never closed"),
    ("007", 0, "leading zeros"),
    ("foo", 0, "found foo (a name); text needs quotes"),
    ("[1, 'é', foo]", 9, "found foo (a name)"),
    ("true", 0, "did you mean True?"),
    ("[null]", 1, "did you mean None?"),
    ("nan", 0, "a name"),
    ("__import__('os').system('id')", 0, "(a call)"),
    ("().__class__", 0, "(an attribute)"),
    ("[x for x in 'abc']", 0, "(a comprehension)"),
    ("f'{1}'", 0, "(formatted text)"),
    ("lambda: 1", 0, "(an expression)"),
    ("1 if 2 else 3", 0, "(a condition)"),
    ("not 1", 0, "(an operator that is not + or -)"),
    ("2 ** 9", 0, "(an operator that is not + - * /)"),
    ("7 // 2", 0, "(an operator that is not + - * /)"),
    ("1 < 2", 0, "(a comparison)"),
    ("[1][0]", 0, "(an index)"),
    ("b'a'", 0, "(a constant of another kind)"),
    ("1j", 0, "(a constant of another kind)"),
    ("...", 0, "(a constant of another kind)"),
    ("[*()]", 1, "(an expression)"),
    ("{**{}}", 3, "found **"),
    ("{[1]: 2}", 1, "a key of a dict must be"),
    ("{(1,): 2}", 1, "a key of a dict must be"),
    ("{'a': 1, 'a': 2}", 9, "duplicate key 'a'"),
    ("{1: 1, '1': 2}", 7, "duplicate key '1'"),
    ("{[1]}", 1, "a set cannot hold"),
    ("'a' + 'b'", 0, "operators need numbers, found 'a'; texts side by side are joined"),
    ("'a' * 3", 0, "operators need numbers"),
    ("1 + True", 4, "operators need numbers, found True"),
    ("-[1]", 1, "operators need numbers, found [1]"),
    ("1 / 0", 4, "division by zero"),
    ("1.0 / 0", 6, "division by zero"),
    ("1e999", 0, "a number is too large"),
    ("1e308 * 10", 0, "a number is too large"),
    ("9" * 500 + " / 2", 0, "a number is too large"),
    ("9" * 500 + " + 1.5", 0, "a number is too large"),
    ("9" * 1001, 0, "more than 1000 digits"),
    ("9" * 9999, 0, "more than 1000 digits"),
    ("9" * 600 + " * " + "9" * 600, 0, "more than 1000 digits"),
    ("'\\ud800'", 0, "surrogate U+D800"),
    ("'\ud800'", 0, "not allowed"),
    ("1\0", 0, ""),
    ("[" * 101 + "]" * 101, None, "nested deeper than 100"),
    ("[" * 5000 + "]" * 5000, None, "nested deeper than 100"),
    ("-" * 100_000 + "1", None, "nested deeper than 100"),
    ("+".join("1" * 50_000), None, "nested deeper than 100"),
    ("'" + "a" * 80, None, "..."),
]


@pytest.mark.parametrize(("text", "offset", "message"), ERRORS, ids=lambda state: str(state)[:20])
def test_other_texts_are_refused_with_their_place(text, offset, message):
    with pytest.raises(LiteralError) as error:
        evaluate(text)
    assert message in str(error.value)
    if offset is not None:
        assert error.value.offset == offset


def test_brackets_may_nest_up_to_the_limit():
    depth = MAX_DEPTH
    assert json.dumps(evaluate("[" * depth + "]" * depth)) == "[" * depth + "]" * depth


@given(st.text())
@example("{1:{2:{}}}")
@example("\n\xc0")
@example("\\")
@example("'a'\n")
def test_any_text_gives_a_json_value_or_a_literal_error(text):
    offset = 0
    value = None
    try:
        value = evaluate(text)
    except LiteralError as error:
        offset = error.offset
    assert 0 <= offset <= len(text)
    assert stored_alike(json.loads(json.dumps(value)), value)


@given(values | st.text(st.characters(exclude_categories=["Cs"])))
def test_formatted_values_evaluate_to_themselves(value):
    assert stored_alike(evaluate(format_value(value)), value)


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("8", 8),
        ("-0.5", -0.5),
        ("true", True),
        ("False", False),
        ('"8"', "8"),
        ("[1, 'a']", [1, "a"]),
        ("x86_64", "x86_64"),
        ("a=b", "a=b"),
        ("", ""),
        ("1.10", "1.10"),
        ("007", "007"),
        ("3-1", "3-1"),
        ("1e3", "1e3"),
    ],
)
def test_the_value_of_an_assignment_is_a_literal_or_text_and_numbers_keep_their_form(given, value):
    assert read_assignment(f"key={given}") == ("key", value)


@pytest.mark.parametrize(("text", "problem"), [("key", "^$"), ("=1", "property name"), ("a b=1", "property name")])
def test_an_assignment_without_a_name_or_a_value_is_refused(text, problem):
    with pytest.raises(ValueError, match=problem):
        read_assignment(text)
