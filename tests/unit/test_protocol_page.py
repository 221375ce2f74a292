"""The page of the protocol names only nodes, functions, tests, mutations, themes and rules that exist."""

import pkgutil
import re

import pytest

from protocol.model import MODEL
from protocol.model import MUTATIONS as RULES
from simulation.mutations import DEFECTS, MUTATIONS, SEARCHED
from support.manual import HERE, MANUAL
from zkdeployment.checks import paths as check_paths
from zkdeployment.zookeeper import paths

pytestmark = pytest.mark.all_features

LITERAL = re.compile(r"``([^`]+)``")


def table(title):
    """Return the rows of a table of the page, each as its cells, without the head."""
    text = (MANUAL / "reference" / "protocol.rst").read_text(encoding="utf-8")
    body = text.partition(f".. list-table:: {title}\n")[2].partition("\n\n\n")[0].partition("\n\n")[2]
    rows = re.split(r"^   \* - ", body, flags=re.MULTILINE)[1:]
    return [re.split(r"^     - ", row.partition("\n\n")[0], flags=re.MULTILINE) for row in rows][1:]


INVARIANTS = table("Invariants")


def test_the_product_has_each_node():
    constants = {**vars(paths), **vars(check_paths)}.values()
    product = {value for value in constants if isinstance(value, str) and value.startswith("/")}
    named = {re.sub(r"/[A-Z-]+$", "", LITERAL.search(cells[0])[1]) for cells in table("Records")}
    assert len(named) > 10
    assert named <= product


def test_the_product_has_each_transaction():
    rows = table("Transactions")
    assert len(rows) > 10
    for *_, composer in rows:
        module, *names = re.fullmatch(r"(.*?)((?:\.[A-Z]\w+)?\.\w+)", LITERAL.search(composer)[1]).groups()
        assert callable(pkgutil.resolve_name(f"{module}:{names[0][1:]}"))


@pytest.mark.parametrize("cells", INVARIANTS, ids=lambda cells: LITERAL.search(cells[1])[1])
def test_what_holds_an_invariant_exists(cells):
    _, test, mutation, theme, _ = cells
    files = (HERE / "tests").rglob("test_*.py")
    assert any(f"def {LITERAL.search(test)[1]}(" in file.read_text(encoding="utf-8") for file in files)
    if (found := LITERAL.search(mutation)) is not None:
        assert (MUTATIONS | DEFECTS | SEARCHED)[found[1]].theme == LITERAL.search(theme)[1]


def test_the_invariants_name_each_rule_of_the_model():
    named = {rule for *_, rules in INVARIANTS for rule in LITERAL.findall(rules)}
    assert named == RULES.keys()
    model = MODEL.read_text(encoding="utf-8")
    assert [
        rule for rule in sorted(named) if not re.search(rf"^#(if|elif|ifn?def) .*\b{rule}\b", model, re.MULTILINE)
    ] == []
