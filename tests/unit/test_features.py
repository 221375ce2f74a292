"""Features are found by the entry points of installed packages, and need no other part of the program."""

import subprocess
import sys

import pytest

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.features import Feature, installed, load_features
from zkdeployment.cli.places import VerbPlaces
from zkdeployment.documents.places import DocumentPlaces


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that writes an installed package with a feature into a directory of its own."""

    def write(name, *features, module="", suffix=".dist-info"):
        directory = tmp_path / f"{name}{suffix}"
        metadata = directory / f"{name}-1.0{suffix}"
        metadata.mkdir(parents=True)
        lines = [f"{feature} = {name}_feature:FEATURE" for feature in features]
        text = "\n".join(
            ["[console_scripts]", "a = a:b", "", "[zkdeployment.features]", *lines, "", "[z]", "c = c:d"]
        )
        (metadata / "entry_points.txt").write_text(text)
        (directory / f"{name}_feature.py").write_text(module)
        monkeypatch.syspath_prepend(directory)
        monkeypatch.delitem(sys.modules, f"{name}_feature", raising=False)
        return str(directory)

    return write


MODULE = """from zkdeployment.base.features import Feature
FEATURE = Feature("{}", ())
"""


def test_features_of_all_packages_come_in_the_order_of_their_names(package, tmp_path):
    path = [package("one", "zebra", module=MODULE.format("zebra"))]
    path += [str(tmp_path / "missing"), package("two", "ant", module=MODULE.format("ant"), suffix=".egg-info")]
    assert load_features(path) == (Feature("ant", ()), Feature("zebra", ()))


def test_of_two_installations_of_a_package_the_first_counts(package, tmp_path):
    first = package("one", "ant", module=MODULE.format("ant"))
    (second := tmp_path / "second" / "One-0.9.egg-info").mkdir(parents=True)
    (second / "entry_points.txt").write_text("[zkdeployment.features]\nbee = bees:FEATURE\n")
    assert load_features([first, str(second.parent)]) == (Feature("ant", ()),)


def test_two_features_with_one_name_are_an_error(package):
    path = [package("one", "ant", module=MODULE.format("ant")), package("two", "ant")]
    with pytest.raises(ConfigurationError) as raised:
        load_features(path)
    assert str(raised.value) == "the packages one and two both have a feature ant; uninstall one of them"


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        ("import missing_library\n", "ModuleNotFoundError: No module named 'missing_library'"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("", "AttributeError: module 'sick_feature' has no attribute 'FEATURE'"),
        ("FEATURE = 1\n", "expected a Feature with the name ant in sick_feature:FEATURE, found 1"),
    ],
)
def test_a_feature_that_cannot_be_loaded_ends_the_program_instead_of_leaving_out_its_rules(
    package, module, problem
):
    path = [package("sick", "ant", module=module)]
    with pytest.raises(ConfigurationError) as raised:
        load_features(path)
    assert str(raised.value) == (
        f"cannot load the feature ant of the package sick: {problem}; repair or uninstall the package"
    )


def test_a_program_without_installed_features_gets_an_error_instead_of_an_empty_frame(tmp_path):
    with pytest.raises(ConfigurationError, match="no features are installed: expected entry points of the group"):
        load_features([str(tmp_path)])


def test_features_are_available_without_imports_of_their_libraries():
    heavy = ("fastapi", "click", "kazoo", "yaml", "jinja2", "importlib.metadata")
    code = (
        "import sys; from zkdeployment.base.features import installed; installed(object);"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"


def test_no_two_features_add_the_same_verb_or_kind_of_document():
    verbs = [name for places in installed(VerbPlaces) for name in places.verbs]
    schemas = [kind.schema for places in installed(DocumentPlaces) for kind in places.kinds()]
    assert (len(verbs), len(schemas)) == (len({*verbs}), len({*schemas}))
