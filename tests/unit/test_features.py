"""The list of features: each is a module with its contributions, which needs no other part of the program."""

import subprocess
import sys

import pytest

from zkdeployment.base import features
from zkdeployment.programs import FEATURES


@pytest.fixture(autouse=True)
def _installed():
    yield
    features.install(FEATURES)


@pytest.mark.all_features
def test_installed_features_come_in_the_order_of_the_list():
    features.install(("pools", "checks"))
    pools, checks = features.installed()
    assert [kind.name for kind in pools.document_kinds()] == ["pools"]
    assert "checks" in checks.verbs()


def test_a_program_without_installed_features_gets_an_error_instead_of_an_empty_frame():
    features.install(())
    with pytest.raises(RuntimeError, match=r"import zkdeployment\.programs first"):
        features.installed()


def test_the_names_of_features_are_available_without_imports_of_their_libraries():
    heavy = ("fastapi", "click", "kazoo", "yaml", "jinja2")
    code = (
        "import sys, zkdeployment.programs; from zkdeployment.base.features import installed; installed();"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"


def test_no_two_features_add_the_same_verb_or_kind_of_document():
    installed = features.installed()
    verbs = [name for feature in installed for name in feature.verbs()]
    schemas = [kind.schema for feature in installed for kind in feature.document_kinds()]
    assert (len(verbs), len(schemas)) == (len({*verbs}), len({*schemas}))
