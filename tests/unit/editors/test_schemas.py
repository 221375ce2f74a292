"""The exported schemas accept the documents that lint accepts, and name the keys that forms have."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from support.manual import MANUAL, PAGES, blocks
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.kinds import known_kinds, mentions_documents
from zkdeployment.documents.reading import read_documents
from zkdeployment.editors.rules.schemas import ALL, document_schemas

if TYPE_CHECKING:
    from collections.abc import Iterator


def documents_of_the_manual() -> Iterator[str]:
    """Yield the texts of the manual that are valid documents, from pages and example files."""
    texts = [block for page in PAGES for _, block in blocks(page, "yaml")]
    texts += [file.read_text(encoding="utf-8") for file in sorted((MANUAL / "examples").rglob("*.yaml"))]
    for text in texts:
        if (
            mentions_documents(text.encode())
            and not read_documents([SourceFile("a.yaml", text.encode())]).problems
        ):
            yield text


def validator(name: str) -> Any:
    return jsonschema.Draft7Validator(document_schemas()[name])


@pytest.mark.parametrize("text", list(documents_of_the_manual()))
def test_documents_of_the_manual_are_valid(text):
    for document in YAML(typ="safe").load_all(io.StringIO(text)):
        assert list(validator(ALL).iter_errors(document)) == []


def test_the_manual_has_documents_of_most_kinds():
    text = "\n".join(documents_of_the_manual())
    assert sum(schema in text for schema in known_kinds().by_schema) > 5


@pytest.mark.parametrize("schema", sorted(known_kinds().by_schema))
def test_schemas_have_the_keys_of_their_forms(schema):
    kind = known_kinds().by_schema[schema]
    exported = document_schemas()[kind.name]
    jsonschema.Draft7Validator.check_schema(exported)
    assert set(keys(kind.form)) - {"schema"} == set(keys(exported)) - {"schema"}
    assert exported["properties"]["schema"] == {"const": schema}


def keys(form: dict[str, Any]) -> Iterator[str]:
    for name, below in form.get("properties", {}).items():
        yield name
        yield from keys(below)
    for key in ("items", "additionalProperties"):
        if isinstance(form.get(key), dict):
            yield from keys(form[key])
    for below in form.get("anyOf", ()):
        yield from keys(below)


PLAIN = """\
schema: shipyard/DeploymentStrategy/v1
metadata: {name: 1.10}
data:
  groups: [{name: yes, critical: on, depends_on: [], selectors: [], bake_time: 15m, max_parallel: 3}]
"""


def errors(text: str) -> list[str]:
    document = YAML(typ="safe").load(io.StringIO(text))
    return [error.message for error in validator(ALL).iter_errors(document)]


def test_plain_text_counts_as_text_and_as_a_boolean_as_for_lint():
    assert not read_documents([SourceFile("a.yaml", PLAIN.encode())]).problems
    assert errors(PLAIN) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("critical: on", "critical: maybe"),
        ("bake_time", "bakke_time"),
        ("max_parallel: 3", "max_parallel: 0"),
        ("depends_on: [], ", ""),
        ("bake_time: 15m", "bake_time: soon"),
    ],
)
def test_errors_of_lint_are_errors_of_the_schema(before, after):
    assert PLAIN.count(before) == 1
    broken = PLAIN.replace(before, after)
    assert read_documents([SourceFile("a.yaml", broken.encode())]).problems
    assert errors(broken)


def test_documents_of_other_programs_are_valid():
    assert errors("apiVersion: v1\nkind: Pod\n") == []
    assert errors("schema: other/Thing/v1\n") == []
