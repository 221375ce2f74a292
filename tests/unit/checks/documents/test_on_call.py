"""Documents of on-call duties: their values, the nearest duty, and each fault with its place."""

import pytest

from zkdeployment.base.source_files import SourceFile
from zkdeployment.checks.documents import ON_CALL, OnCall, OnCallContact, check_problems, on_call_of
from zkdeployment.documents.reading import read_documents

TEXT = """\
schema: zkdeployment/OnCall/v1
metadata: {name: shop-team}
data:
  object: /p1/shop
  contacts:
    - {name: ann, email: ann@example.com}
    - {name: duty, phone: "+49 30 123456"}
"""


def read(text):
    return read_documents([SourceFile("c.yaml", text.encode())])


def test_a_duty_is_read():
    (duty,) = read(TEXT).of(ON_CALL).values()
    contacts = (OnCallContact("ann", "ann@example.com"), OnCallContact("duty", phone="+49 30 123456"))
    assert duty == OnCall("shop-team", "/p1/shop", contacts)
    (everywhere,) = read(TEXT.replace("/p1/shop", "/")).of(ON_CALL).values()
    assert everywhere.path == ""


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("ann@example.com", "ann", "6:26: data.contacts[0].email: expected an address such as ann@example.com"),
        ("ann@example.com", "'ann@$(id)'", "data.contacts[0].email: expected an address"),
        ("+49 30 123456", "dial 110; reboot", "data.contacts[1].phone: expected a number such as +49 30 123456"),
        (", email: ann@example.com", "", "data.contacts[0]: the contact ann has neither email nor phone"),
        ("name: duty", "name: ann", "7:14: data.contacts[1].name: there is another contact ann; keep one of them"),
        ("object: /p1/shop", "object: shop", "data.object: expected the path of a node, as in /p1/shop"),
        ("contacts:\n", "contacts: []\n  more:\n", "data.more: unknown key 'more'"),
    ],
)
def test_a_faulty_duty_is_an_error_with_its_place(before, after, expected):
    assert before in TEXT
    problems = read(TEXT.replace(before, after)).problems
    assert any(expected in str(problem) for problem in problems), [*map(str, problems)]


def test_each_node_has_one_duty_and_the_node_exists():
    other = TEXT.replace("shop-team", "other-team")
    (twice,) = check_problems(read(f"{TEXT}---\n{other}"), {"/p1/shop"})
    assert "data.object: /p1/shop has the on-call duty shop-team already; keep one of them" in str(twice)
    (missing,) = check_problems(read(TEXT), {"/p1"})
    assert "data.object: there is no node /p1/shop; expected the path of a node of the tree" in str(missing)


def test_the_nearest_duty_counts():
    shop, everywhere = OnCall("shop", "/p1/shop", ()), OnCall("all", "", ())
    duties = {duty.path: duty for duty in (shop, everywhere)}
    assert [on_call_of(duties, path) for path in ("/p1/shop/front", "/p1/shop", "/p1/shopping", "")] == [
        shop,
        shop,
        everywhere,
        everywhere,
    ]
    assert on_call_of({"/p1/shop": shop}, "/p2") is None
