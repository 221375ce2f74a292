"""The list of features: each is a module with its contributions, which needs no other part of the program."""

import subprocess
import sys

import pytest

from zkdeployment.base import features
from zkdeployment.cli.places import VerbPlaces
from zkdeployment.documents.places import DocumentPlaces
from zkdeployment.programs import FEATURES


@pytest.fixture(autouse=True)
def _installed():
    yield
    features.install(FEATURES)


@pytest.mark.all_features
def test_installed_features_come_in_the_order_of_the_list():
    features.install(("pools", "checks"))
    (pools, _), (_, checks) = features.installed(DocumentPlaces), features.installed(VerbPlaces)
    assert [kind.name for kind in pools.kinds()] == ["pools"]
    assert "checks" in checks.verbs


def test_a_program_without_installed_features_gets_an_error_instead_of_an_empty_frame():
    features.install(())
    with pytest.raises(RuntimeError, match=r"import zkdeployment\.programs first"):
        features.installed(VerbPlaces)


def test_the_names_of_features_are_available_without_imports_of_their_libraries():
    heavy = ("fastapi", "click", "kazoo", "yaml", "jinja2")
    code = (
        "import sys, zkdeployment.programs; from zkdeployment.base.features import installed; installed(object);"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"


def test_no_two_features_add_the_same_verb_or_kind_of_document():
    verbs = [name for places in features.installed(VerbPlaces) for name in places.verbs]
    schemas = [kind.schema for places in features.installed(DocumentPlaces) for kind in places.kinds()]
    assert (len(verbs), len(schemas)) == (len({*verbs}), len({*schemas}))
