import pytest

from zkdeployment.base.text import counted, listing


@pytest.mark.parametrize(
    ("names", "most", "text"),
    [
        ([], 2, ""),
        (["a"], 2, "a"),
        (["a", "b"], 2, "a, b"),
        (["a", "b", "c", "d"], 2, "a, b and 2 more"),
        (["a", "b", "c"], None, "a, b, c"),
    ],
)
def test_a_long_list_names_the_first_and_counts_the_rest(names, most, text):
    assert listing(names, most) == text


@pytest.mark.parametrize(
    ("number", "style", "text"),
    [
        (0, "", "0 hosts"),
        (1, "", "1 host"),
        (2000, "", "2000 hosts"),
        (1, ",", "1 host"),
        (2000, ",", "2,000 hosts"),
    ],
)
def test_a_number_has_its_noun_in_the_singular_or_plural(number, style, text):
    assert counted(number, "host", style) == text
