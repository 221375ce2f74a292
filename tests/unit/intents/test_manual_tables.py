"""The manual has the tables of the code."""

from pathlib import Path

import pytest

from support.intent_tables import life_cycle_table, status_tables

PAGE = Path(__file__).parents[3] / "etc" / "manual" / "intents.rst"


@pytest.mark.parametrize("table", [life_cycle_table(), status_tables()])
def test_the_manual_has_the_table_of_the_code(table):
    assert table in PAGE.read_text(encoding="utf-8")
