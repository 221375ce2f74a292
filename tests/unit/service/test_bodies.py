"""The bodies of answers have the keys of the records that the answers encode."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from zkdeployment.base.records import APART, OMITTED, Key, Record, shown
from zkdeployment.service.bodies import answer, body_of


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True, slots=True)
class Author(Record):
    """Who wrote a book."""

    name: Annotated[str, Key("author")]


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


def test_a_body_has_the_keys_of_the_record():
    schema = schema_of(body_of(Book))
    assert schema["description"] == "A book."
    assert set(schema["properties"]) == set(Book("a", Size.SMALL, pages=1).to_json())
    assert schema["required"] == ["title", "size", "author", "tags", "sequels", "is_long"]
    properties = schema["properties"]
    assert properties["title"] == {"type": "string", "description": "As on the cover."}
    assert properties["size"] == {"type": "string", "enum": ["small", "large"]}
    assert properties["author"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert properties["pages"] == {"type": "integer", "default": None}
    assert properties["tags"] == {"type": "array", "items": {"type": "string"}}
    assert schema["$defs"]["Author"]["description"] == "Who wrote a book."


def test_an_answer_adds_its_schema_and_further_keys_and_leaves_keys_out():
    schema = schema_of(answer("book", Book, tags=None, sequels=None, author=None, read=list[Author]))
    assert schema["title"] == "BookAnswer"
    assert list(schema["properties"]) == ["schema", "title", "size", "pages", "is_long", "read"]
    assert schema["properties"]["schema"] == {"type": "string", "const": "zkdeployment/book/v1"}
    assert schema["properties"]["read"]["items"] == {"$ref": "#/$defs/Author"}


def test_a_part_of_an_answer_has_no_schema():
    assert list(schema_of(answer(None, text="Books.", books=list[Book]))["properties"]) == ["books"]
