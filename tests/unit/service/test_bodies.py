"""The bodies of answers have the keys of the records that the answers encode."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

from pydantic import BaseModel

from zkdeployment.base.names import NameKind, name_pattern
from zkdeployment.base.records import APART, OMITTED, Key, Record, shown
from zkdeployment.documents.forms import json_schema, name_form
from zkdeployment.service.application import api_description
from zkdeployment.service.responses import Omittable, answer, body_of


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True, slots=True)
class Author(Record):
    """Who wrote a book."""

    name: Annotated[str, Key("author")]
    pseudonym: Annotated[str, OMITTED] = ""


@dataclass(frozen=True, slots=True)
class Book(Record):
    """A book.

    The rest of the docstring is for readers of the program.
    """

    title: Annotated[str, Key(about="As on the cover.")]
    size: Size
    author: Annotated[Author | None, Key(flat=True)] = None
    pages: Annotated[int | None, OMITTED] = None
    tags: frozenset[str] = frozenset()
    sequels: Mapping[str, Author] | None = None
    shelf: Annotated[int, APART] = 0

    @shown("is_long")
    def _is_long(self) -> bool:
        return (self.pages or 0) > 500


def schema_of(body):
    schema = body.model_json_schema()
    properties = schema["properties"]
    for described in properties.values():
        described.pop("title", None)
    return schema


@dataclass(frozen=True, slots=True)
class Loan(Record):
    """A loan."""

    reader: Annotated[str, Key(form=name_form(NameKind.USER))]


def test_a_key_with_the_form_of_a_document_has_its_json_schema():
    described = schema_of(body_of(Loan))["properties"]["reader"]
    assert described == json_schema(name_form(NameKind.USER))
    assert described["pattern"] == f"^(?:{name_pattern(NameKind.USER)})$"


def test_a_body_has_the_keys_of_the_record():
    schema = schema_of(body_of(Book))
    assert schema["description"] == "A book."
    assert set(schema["properties"]) == {*Book("a", Size.SMALL, pages=1).to_json(), "pseudonym"}
    assert schema["properties"]["pseudonym"] == {"type": "string", "default": None}
    assert schema["required"] == ["title", "size", "author", "tags", "sequels", "is_long"]
    properties = schema["properties"]
    assert properties["title"] == {"type": "string", "description": "As on the cover."}
    assert properties["size"] == {"type": "string", "enum": ["small", "large"]}
    assert properties["author"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert properties["pages"] == {"type": "integer", "default": None}
    assert properties["tags"] == {"type": "array", "items": {"type": "string"}}
    assert schema["$defs"]["Author"]["description"] == "Who wrote a book."


def test_an_answer_adds_its_schema_and_further_keys_and_leaves_keys_out():
    schema = schema_of(
        answer("book", Book, tags=None, sequels=None, author=None, pseudonym=None, read=list[Author])
    )
    assert schema["title"] == "BookAnswer"
    assert list(schema["properties"]) == ["schema", "title", "size", "pages", "is_long", "read"]
    assert schema["properties"]["schema"] == {"type": "string", "const": "zkdeployment/book/v1"}
    assert schema["properties"]["read"]["items"] == {"$ref": "#/$defs/Author"}


def test_a_part_of_an_answer_has_no_schema():
    assert list(schema_of(answer(None, text="Books.", books=list[Book]))["properties"]) == ["books"]


class Shelf(BaseModel):
    """A shelf."""

    room: Omittable[str] = None


def test_a_key_that_answers_omit_is_not_described_as_null_but_may_be_null_in_requests():
    assert schema_of(Shelf)["properties"]["room"] == {"type": "string", "default": None}
    assert Shelf.model_validate({"room": None}) == Shelf()


def objects(schema: Mapping[str, Any], parts: Mapping[str, Any], found: dict[str, Any]) -> Iterator[Any]:
    """Yield the objects in a schema, each once."""
    name = schema.get("$ref", "").rpartition("/")[2]
    if name in found:
        return
    if name:
        schema = found[name] = parts[name]
    yield schema
    nested = [*schema.get("anyOf", ()), *schema.get("properties", {}).values()]
    nested += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    for each in nested:
        yield from objects(each, parts, found)


def may_be_null(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> bool:
    named = parts[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return named.get("type") == "null" or any(may_be_null(each, parts) for each in named.get("anyOf", ()))


def test_each_key_of_an_answer_of_the_api_is_always_there_or_never_null():
    description, found = api_description(), dict[str, Any]()
    parts = description["components"]["schemas"]
    schemas = [
        content["schema"]
        for operations in description["paths"].values()
        for operation in operations.values()
        for status, response in operation["responses"].items()
        if status.startswith("2")
        for content in response["content"].values()
    ]
    for each in (each for schema in schemas for each in objects(schema, parts, found)):
        for key, value in each.get("properties", {}).items():
            assert key in each.get("required", ()) or not may_be_null(value, parts), (each["title"], key)
    assert len(found) > 40  # without any feature, too
