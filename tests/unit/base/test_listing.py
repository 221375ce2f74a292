import pytest

from zkdeployment.base.text import listing


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
