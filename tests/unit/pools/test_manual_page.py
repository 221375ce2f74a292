"""The page about host pools: its documents are valid, and its table names every key of Duffy's configuration."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest
import yaml

from support.manual import MANUAL, blocks, commands
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.reading import read_documents
from zkdeployment.pools.documents import POOLS

PAGE = (MANUAL / "pools.rst").read_text(encoding="utf-8")
EXAMPLES = MANUAL / "examples" / "pools"


@pytest.fixture
def duffy_configuration() -> Any:
    """Return the model of the configuration of the released Duffy."""
    return importlib.import_module("duffy.configuration.validation").ConfigModel


def typed_documents() -> list[str]:
    """Return the documents that commands of the page write."""
    texts = [command.text for command in commands("pools") if "pools.yaml <<END" in command.text]
    return ["\n".join(text.splitlines()[1:-1]) for text in texts]


def reference_documents() -> list[str]:
    """Return the documents in the reference."""
    return [block for _, block in blocks("reference/pools", "yaml") if block.startswith("schema:")]


@pytest.mark.parametrize(
    "text", [(EXAMPLES / "pools.yaml").read_text(encoding="utf-8"), *typed_documents(), *reference_documents()]
)
def test_the_documents_of_the_pages_are_valid_and_describe_pools(text: str) -> None:
    documents = read_documents([SourceFile("pools.yaml", text.encode())])
    assert documents.problems == ()
    (configuration,) = documents.of(POOLS).values()
    assert configuration.pools


def test_the_files_of_the_page_are_those_that_tests_use(duffy_configuration: Any) -> None:
    shown = re.findall(r"literalinclude:: examples/pools/(\S+)", PAGE)
    assert sorted(shown) == sorted(path.name for path in EXAMPLES.iterdir())
    client = yaml.safe_load((EXAMPLES / "duffy-client.yaml").read_text(encoding="utf-8"))
    assert duffy_configuration(**client).client is not None


#: Parts of Duffy's configuration that have no counterpart at all; the table names the parts themselves.
WITHOUT_COUNTERPART = {"CeleryModel", "SQLAlchemyModel", "RetriesModel", "LoggingModel", "LegacyModel"}


def test_the_table_names_every_key_of_duffys_configuration(duffy_configuration: Any) -> None:
    table = PAGE.partition("Duffy 3   ")[2].partition("The differences")[0]
    named = set(re.findall(r"[a-z]+(?:-[a-z]+)*", table))
    schema = duffy_configuration.model_json_schema()
    parts = {name: part for name, part in schema["$defs"].items() if name not in WITHOUT_COUNTERPART}
    keys = {key for part in (schema, *parts.values()) for key in part.get("properties", {})}
    assert {"fill-level", "node-quota", "interval", "celery", "metaclient"} <= keys
    legacy = set(schema["$defs"]["LegacyPoolMapModel"]["properties"])
    assert keys - legacy - named == set()
