"""The manual has the table of the code."""

from support.check_tables import workflow_table
from support.manual import MANUAL


def test_the_manual_has_the_workflow_of_the_code():
    assert workflow_table() in (MANUAL / "reference" / "check-workflow.rst").read_text(encoding="utf-8")
