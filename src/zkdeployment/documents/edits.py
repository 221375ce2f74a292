"""Changes of documents: edits of their YAML text, new and removed files, and the names of files.

A change is a splice of the text at the place of the value. If a splice does not give the wanted document,
ruamel.yaml writes the document anew, which also keeps its comments but may change its layout. Every result is read
again and compared with the wanted values before it is returned.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import re
from typing import TYPE_CHECKING, Any, Final

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from zkdeployment.base.errors import TreeError
from zkdeployment.documents.yaml_values import Way, YamlTextError, parse_yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.documents.collection import DocumentEntry
    from zkdeployment.documents.kinds import DocumentKind, Subject


_UNSAFE = re.compile(r"[^A-Za-z0-9._+~@=-]+")
_LONGEST = 120


def document_file_name(kind: str, subject: Subject, taken: Collection[str] = ()) -> str:
    """Return the name of the file of a document: its kind and full subject, as in ``check-front-http.yaml``.

    Characters that do not belong in a file name become ``_``. The name of a subject with such characters, or of a
    very long one, ends with a digest of the subject, so that different subjects have different names. So does a
    name that is ``taken``.
    """
    joined = "-".join((kind, *subject))
    name = _UNSAFE.sub("_", joined)[:_LONGEST]
    if name != joined or f"{name}.yaml" in taken:
        name += f"-{hashlib.sha256(chr(0).join(subject).encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"
    return f"{name}.yaml"


class Removal:
    """The type of ``REMOVED``, the new value of a key that is to be removed."""


REMOVED: Final = Removal()

#: Text that every YAML reader takes for the same text without quotes.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@+=~-]*(?: [A-Za-z0-9_./@+=~()-]+)*")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_WIDTH = 100_000


def render_document(content: Mapping[str, Any]) -> str:
    """Return the text of a new document, in block style, with a newline at its end."""
    return "".join(f"{line}\n" for line in _block(content))


def add_document(text: str, content: Mapping[str, Any]) -> str:
    """Return the text with another document at its end."""
    if not text.strip():
        return render_document(content)
    end = "" if text.endswith("\n") else "\n"
    return f"{text}{end}---\n{render_document(content)}"


def remove_document(text: str, position: int) -> str:
    """Return the text without the document at a position, counted from 0; empty if no document is left.

    Raises ``TreeError`` if the document cannot be removed.
    """
    values, starts = _values(text), _document_starts(text)
    if len(starts) == 1:
        return ""
    begin = starts[position]
    end = starts[position + 1] if position + 1 < len(starts) else len(text)
    rest = text[:begin] + text[end:]
    if _values(rest) != [value for number, value in enumerate(values) if number != position]:
        raise TreeError("cannot remove the document from its file: remove it by hand")
    return rest


def change_document(text: str, position: int, changes: Mapping[Way, object]) -> str:
    """Return the text with other values of some keys of the document at a position, counted from 0.

    Each key of ``changes`` is the path to a key of a mapping that exists; ``REMOVED`` removes that key. Raises
    ``TreeError`` if the document cannot be changed in this way.
    """
    for way, value in changes.items():
        wanted = _changed(_values(text), position, way, value)
        for change in (_splice, _rewrite):
            try:
                after = change(text, position, way, value)
                if after is not None and _values(after) == wanted:
                    break
            except (TreeError, YAMLError, yaml.YAMLError):
                continue
        else:
            raise TreeError(f"cannot change {'.'.join(map(str, way))} in the document: change it by hand")
        text = after
    return text


def _values(text: str) -> list[Any]:
    """Return the values of all documents of a file; raises ``TreeError`` if one of them is no valid YAML."""
    try:
        return [_as_text(document.value) for document in parse_yaml(text)]
    except YamlTextError as error:
        raise TreeError(
            f"cannot change a document, because its file has an error at {error.line}:{error.column}: {error};"
            " correct the file first, see 'zkdeployment lint'"
        ) from error


def _as_text(value: object) -> Any:
    """Return a value with text for each scalar, as documents are read."""
    if isinstance(value, dict):
        return {str(key): _as_text(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_text(item) for item in value]
    return str(value) if isinstance(value, str) else json.dumps(value)


def _changed(values: list[Any], position: int, way: Way, value: object) -> list[Any]:
    """Return the values of all documents after a change; raises ``TreeError`` if the key's mapping is missing."""
    wanted = copy.deepcopy(values)
    try:
        place = wanted[position]
        for key in way[:-1]:
            place = place[key]
        if isinstance(value, Removal):
            del place[way[-1]]
        else:
            place[way[-1]] = _as_text(value)
    except (IndexError, KeyError, TypeError) as error:
        raise TreeError(f"cannot change {'.'.join(map(str, way))}: the document has no such place") from error
    return wanted


# Splices


def _splice(text: str, position: int, way: Way, value: object) -> str | None:
    """Return the text with one changed key; ``None`` if the layout of the document allows no splice."""
    node: Any = list(yaml.compose_all(text, Loader=yaml.BaseLoader))[position]
    for key in way[:-1]:
        node = _child(node, key)
    if not isinstance(node, yaml.MappingNode):
        return None
    number = next((number for number, (key, _) in enumerate(node.value) if key.value == way[-1]), None)
    if isinstance(value, Removal):
        return None if number is None else _without_entry(text, node, number)
    if number is None:
        return _with_entry(text, node, str(way[-1]), value)
    return _with_value(text, node.value[number], value)


def _child(node: Any, key: str | int) -> Any:
    if isinstance(node, yaml.MappingNode):
        return next((value for name, value in node.value if name.value == key), None)
    return node.value[key] if isinstance(node, yaml.SequenceNode) and isinstance(key, int) else None


def _with_value(text: str, entry: tuple[Any, Any], value: object) -> str:
    key, old = entry
    begin, end = old.start_mark.index, _end(text, old)
    is_block = isinstance(old, yaml.CollectionNode) and not old.flow_style
    if isinstance(value, dict | list) and value and is_block:
        lines = _block(value)
        return text[:begin] + f"\n{' ' * old.start_mark.column}".join(lines) + text[end:]
    if is_block or (isinstance(old, yaml.ScalarNode) and (old.style in {"|", ">"} or begin == end)):
        begin = text.index(":", key.end_mark.index) + 1
        return f"{text[:begin]} {_inline(value)}{text[end:]}"
    return text[:begin] + _inline(value) + text[end:]


def _with_entry(text: str, mapping: Any, key: str, value: object) -> str | None:
    if not mapping.value:
        begin, end = mapping.start_mark.index, mapping.end_mark.index
        return f"{text[:begin]}{{{_inline(key)}: {_inline(value)}}}{text[end:]}"
    last = _end(text, mapping.value[-1][1])
    if mapping.flow_style:
        return f"{text[:last]}, {_inline(key)}: {_inline(value)}{text[last:]}"
    place = _line_end(text, last)
    indent = " " * mapping.value[0][0].start_mark.column
    lines = "".join(f"{indent}{line}\n" for line in _block({key: value}))
    missing = "" if text[:place].endswith("\n") else "\n"
    return text[:place] + missing + lines + text[place:]


def _without_entry(text: str, mapping: Any, number: int) -> str | None:
    if len(mapping.value) == 1:
        return None
    key, value = mapping.value[number]
    begin, end = key.start_mark.index, _end(text, value)
    if mapping.flow_style:
        if number + 1 < len(mapping.value):
            return text[:begin] + text[mapping.value[number + 1][0].start_mark.index :]
        return text[: _end(text, mapping.value[number - 1][1])] + text[end:]
    line = text.rfind("\n", 0, begin) + 1
    return None if text[line:begin].strip() else text[:line] + text[_line_end(text, end) :]


def _end(text: str, node: Any) -> int:
    """Return the index after a node, without the comments and empty lines after a block collection."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(node, yaml.MappingNode) else last)
    begin: int = node.start_mark.index
    index: int = node.end_mark.index
    return begin + len(text[begin:index].rstrip()) if getattr(node, "style", None) in {"|", ">"} else index


def _line_end(text: str, index: int) -> int:
    found = text.find("\n", index)
    return len(text) if found < 0 else found + 1


def _document_starts(text: str) -> list[int]:
    """Return the index of the first character of each document, its marker ``---`` included."""
    events = yaml.parse(text, Loader=yaml.BaseLoader)
    return [_index(event) for event in events if isinstance(event, yaml.DocumentStartEvent)]


def _index(event: Any) -> int:
    index: int = event.start_mark.index
    return index


# Whole documents


def _rewrite(text: str, position: int, way: Way, value: object) -> str | None:
    """Return the text with one changed key in a document that ruamel.yaml writes anew."""
    starts = [*_document_starts(text), len(text)]
    begin, end = (0 if position == 0 else starts[position]), starts[position + 1]
    processor = YAML(typ="rt")
    processor.preserve_quotes = True
    processor.width = _WIDTH
    content = processor.load(text[begin:end])
    place = content
    for key in way[:-1]:
        place = place[key]
    if isinstance(value, Removal):
        del place[way[-1]]
    else:
        place[way[-1]] = value
    written = io.StringIO()
    processor.explicit_start = text[begin:end].startswith("---")
    processor.dump(content, written)
    return text[:begin] + written.getvalue() + text[end:]


# Rendering


def _block(value: object) -> list[str]:
    """Return the lines of a value in block style."""
    if isinstance(value, dict) and value:
        return [line for key, item in value.items() for line in _entry(f"{_inline(str(key))}:", item, "  ")]
    if isinstance(value, list | tuple) and value:
        return [line for item in value for line in _item(item)]
    return [_inline(value)]


def _entry(head: str, value: object, indent: str) -> list[str]:
    if isinstance(value, dict | list | tuple) and value:
        return [head, *(f"{indent}{line}" for line in _block(value))]
    return [f"{head} {_inline(value)}"]


def _item(value: object) -> list[str]:
    first, *others = _block(value)
    return [f"- {first}", *(f"  {line}" for line in others)]


def _inline(value: object) -> str:
    """Return a value on one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_inline(str(key))}: {_inline(item)}' for key, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _WORDS
        return str(value) if is_plain else json.dumps(value, ensure_ascii=not value.isprintable())
    return json.dumps(value)


def with_new_document(
    files: Sequence[SourceFile], kind: DocumentKind[Any], subject: Subject, content: Mapping[str, Any]
) -> dict[str, bytes | None]:
    """Return the changed file after a document is added: a file of its own, named by its kind and subject."""
    name = document_file_name(kind.name, subject, {file.name for file in files})
    return {name: add_document(text_of(files, name), content).encode()}


def with_changed_data(
    files: Sequence[SourceFile], entry: DocumentEntry, data: Mapping[str, Any]
) -> dict[str, bytes | None]:
    """Return the changed file after a document gets other ``data``; empty without a difference."""
    old = entry.content["data"]
    changes: dict[Way, object] = {
        ("data", key): value for key, value in data.items() if key not in old or old[key] != value
    }
    changes |= {("data", key): REMOVED for key in old if key not in data}
    if not changes:
        return {}
    return {entry.file: change_document(text_of(files, entry.file), entry.position, changes).encode()}


def without_document(files: Sequence[SourceFile], entry: DocumentEntry) -> dict[str, bytes | None]:
    """Return the changed file after a document is removed; an empty file is deleted."""
    rest = remove_document(text_of(files, entry.file), entry.position)
    return {entry.file: rest.encode() if rest.strip() else None}


def text_of(files: Sequence[SourceFile], name: str) -> str:
    """Return the text of a file, empty if the file does not exist."""
    content = next((file.content for file in files if file.name == name), b"")
    return content.decode("utf-8-sig")
