"""An editor for tests: it starts the language server and talks to it over standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from pathlib import Path

#: Seconds to wait for an answer of the server.
_PATIENCE = 60.0

_PLACEHOLDER = re.compile(r"\$\{[0-9]+:([^}]*)\}")


#: The encodings of columns, each with the bytes of a unit.
ENCODINGS = {
    types.PositionEncodingKind.Utf8: ("utf-8", 1),
    types.PositionEncodingKind.Utf16: ("utf-16-le", 2),
    types.PositionEncodingKind.Utf32: ("utf-32-le", 4),
}


@dataclass
class Placeholder:
    """A place of a snippet to fill in: the offset in the text, and the word that stands there."""

    offset: int
    word: str


class Editor:
    """One open file of an editor; ``cursor`` is an offset in ``text``, ``log`` that of a server that ended."""

    def __init__(self, client: LanguageClient, path: Path, encoding: types.PositionEncodingKind) -> None:
        self._client = client
        self._encoding, self._unit = ENCODINGS[encoding]
        self._changed = asyncio.Event()
        self._diagnostics: dict[str, types.PublishDiagnosticsParams] = {}
        self.registered: list[types.Registration] = []
        self.uri = path.as_uri()
        self.text = path.read_text(encoding="utf-8") if path.exists() else ""
        self.cursor = 0
        self.version = 1
        self.log = ""

        @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
        def receive(params: types.PublishDiagnosticsParams) -> None:
            self._diagnostics[params.uri] = params
            self._changed.set()

        @client.feature(types.CLIENT_REGISTER_CAPABILITY)  # type: ignore[untyped-decorator]
        def register(params: types.RegistrationParams) -> None:
            self.registered += params.registrations
            self._changed.set()

    def open(self, language: str = "zkdeployment") -> None:
        """Open the file in the server."""
        document = types.TextDocumentItem(self.uri, language, self.version, self.text)
        self._client.text_document_did_open(types.DidOpenTextDocumentParams(document))

    async def diagnostics(self, uri: str | None = None) -> list[types.Diagnostic]:
        """Return the problems of the present text, or of another file, once the server has published them."""
        wanted = uri or self.uri
        await self.until(
            lambda: self.uri in self._diagnostics and self._diagnostics[self.uri].version == self.version
        )
        params = self._diagnostics.get(wanted)
        return [] if params is None else list(params.diagnostics)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for messages of the server until a condition is true."""
        async with asyncio.timeout(_PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def messages(self) -> list[str]:
        """Return the messages of the problems that the server published last for the file."""
        params = self._diagnostics.get(self.uri)
        return [] if params is None else [one.message for one in params.diagnostics]

    def report_change(self, path: Path) -> None:
        """Report a file that changed on disk, as an editor does that watches files."""
        event = types.FileEvent(path.as_uri(), types.FileChangeType.Changed)
        self._client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))

    @property
    def files(self) -> frozenset[str]:
        """The URIs of the files of which problems were published."""
        return frozenset(self._diagnostics)

    def position(self, offset: int) -> types.Position:
        """Return an offset as a position of the protocol, in UTF-16 or in the encoding of the editor."""
        before = self.text[:offset]
        line = before.rpartition("\n")[2]
        return types.Position(before.count("\n"), len(line.encode(self._encoding)) // self._unit)

    def offset(self, position: types.Position) -> int:
        """Return the offset of a position."""
        lines = self.text.split("\n")
        start = sum(len(line) + 1 for line in lines[: position.line])
        inside = (
            lines[position.line].encode(self._encoding)[: position.character * self._unit].decode(self._encoding)
        )
        return start + len(inside)

    def replace(self, start: int, end: int, text: str) -> None:
        """Replace a part of the text; the cursor is behind the new part."""
        place = types.Range(self.position(start), self.position(end))
        self.version += 1
        self._client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(self.version, self.uri),
                [types.TextDocumentContentChangePartial(place, text)],
            )
        )
        self.text = self.text[:start] + text + self.text[end:]
        self.cursor = start + len(text)

    def type(self, text: str) -> None:
        """Type text at the cursor."""
        self.replace(self.cursor, self.cursor, text)

    def go_to(self, text: str, *, end: bool = False) -> None:
        """Put the cursor on the first occurrence of a text, or behind it."""
        self.cursor = self.text.index(text) + (len(text) if end else 0)

    def _here(self) -> dict[str, Any]:
        return {
            "text_document": types.TextDocumentIdentifier(self.uri),
            "position": self.position(self.cursor),
        }

    async def proposals(self) -> list[types.CompletionItem]:
        """Return the completions at the cursor, as an editor sorts them."""
        found = await self._client.text_document_completion_async(types.CompletionParams(**self._here()))
        items = found.items if isinstance(found, types.CompletionList) else found or []
        return sorted(items, key=lambda item: item.sort_text or item.label)

    async def labels(self) -> list[str]:
        """Return the labels of the completions at the cursor."""
        return [item.label for item in await self.proposals()]

    async def choose(self, label: str) -> list[Placeholder]:
        """Accept a completion at the cursor, and return the places that it has to fill in."""
        items = await self.proposals()
        item = next((item for item in items if item.label == label), None)
        assert item is not None, f"{label} is not among {[item.label for item in items]}"
        edit = item.text_edit
        assert isinstance(edit, types.TextEdit)
        start, end = self.offset(edit.range.start), self.offset(edit.range.end)
        if item.insert_text_format is not types.InsertTextFormat.Snippet:
            self.replace(start, end, edit.new_text)
            return []
        line = self.text[:start].rpartition("\n")[2]
        indent = line[: len(line) - len(line.lstrip())]
        snippet = edit.new_text.replace("\n", f"\n{indent}")
        places: list[Placeholder] = []
        written = ""
        last = 0
        for match in _PLACEHOLDER.finditer(snippet):
            written += snippet[last : match.start()]
            places.append(Placeholder(start + len(written), match[1]))
            written += match[1]
            last = match.end()
        self.replace(start, end, written + snippet[last:])
        return places

    async def fill(self, places: list[Placeholder], *labels: str | None) -> None:
        """Go through the places of a snippet: choose a completion in each, or keep its word (``None``)."""
        moved = 0
        for place, label in zip(places, labels, strict=True):
            start = place.offset + moved
            if label is None:
                continue
            before = len(self.text)
            self.replace(start, start + len(place.word), "")
            await self.choose(label)
            moved += len(self.text) - before

    async def hover(self) -> str:
        """Return the description of the place at the cursor; empty without one."""
        found = await self._client.text_document_hover_async(types.HoverParams(**self._here()))
        return found.contents.value if found and isinstance(found.contents, types.MarkupContent) else ""

    async def definition(self) -> tuple[str, int] | None:
        """Return the URI and the line, from 1, to which the word at the cursor leads."""
        found = await self._client.text_document_definition_async(types.DefinitionParams(**self._here()))
        return (found.uri, found.range.start.line + 1) if isinstance(found, types.Location) else None

    async def references(self, *, with_definitions: bool = False) -> list[tuple[str, int, str]]:
        """Return the references to the word at the cursor: file name, line from 1, and text of an open file."""
        found = await self._client.text_document_references_async(
            types.ReferenceParams(context=types.ReferenceContext(with_definitions), **self._here())
        )
        return [
            (
                one.uri.rpartition("/")[2],
                one.range.start.line + 1,
                self._text(one.range) if one.uri == self.uri else "",
            )
            for one in found or ()
        ]

    def _text(self, place: types.Range) -> str:
        return self.text[self.offset(place.start) : self.offset(place.end)]

    async def outline(self) -> list[tuple[int, str, str]]:
        """Return the symbols of the outline: level, name, and the last line of the symbol's text."""
        document = types.TextDocumentIdentifier(self.uri)
        found = await self._client.text_document_document_symbol_async(types.DocumentSymbolParams(document))
        return [*self._symbols(found or (), 0)]

    def _symbols(self, symbols: Iterable[object], level: int) -> Iterator[tuple[int, str, str]]:
        for symbol in symbols:
            assert isinstance(symbol, types.DocumentSymbol)
            text = self._text(symbol.range)
            assert text.startswith(symbol.name)
            assert self._text(symbol.selection_range) == symbol.name
            yield level, symbol.name, text.rpartition("\n")[2].strip()
            yield from self._symbols(symbol.children or (), level + 1)

    async def rename(self, name: str) -> dict[str, list[types.TextEdit]]:
        """Return the edits that rename the node at the cursor, by the URI of their file."""
        found = await self._client.text_document_rename_async(types.RenameParams(new_name=name, **self._here()))
        return {} if found is None else {uri: list(edits) for uri, edits in (found.changes or {}).items()}

    async def fix(self, title: str) -> list[str]:
        """Apply a quick fix of the line at the cursor, and return the titles of all fixes there."""
        here = self.position(self.cursor)
        found = await self._client.text_document_code_action_async(
            types.CodeActionParams(
                types.TextDocumentIdentifier(self.uri), types.Range(here, here), types.CodeActionContext([])
            )
        )
        actions = [one for one in found or () if isinstance(one, types.CodeAction)]
        edit = next((one.edit for one in actions if one.title == title), None)
        for change in reversed(edit.changes[self.uri] if edit is not None and edit.changes is not None else ()):
            self.replace(self.offset(change.range.start), self.offset(change.range.end), change.new_text)
        return [one.title for one in actions]

    async def format(self) -> None:
        """Format the text as the server says; the cursor goes to the end."""
        options = types.FormattingOptions(tab_size=8, insert_spaces=False)
        document = types.TextDocumentIdentifier(self.uri)
        edits = await self._client.text_document_formatting_async(
            types.DocumentFormattingParams(document, options)
        )
        for edit in edits or ():
            self.replace(self.offset(edit.range.start), self.offset(edit.range.end), edit.new_text)

    async def can_rename(self) -> bool:
        """Whether the editor offers to rename the word at the cursor."""
        return (
            await self._client.text_document_prepare_rename_async(types.PrepareRenameParams(**self._here()))
            is not None
        )


@contextlib.asynccontextmanager
async def open_editor(
    path: Path,
    *options: str,
    language: str = "zkdeployment",
    watches: bool = False,
    encoding: types.PositionEncodingKind = types.PositionEncodingKind.Utf16,
) -> AsyncIterator[Editor]:
    """Yield an editor with one open file; its folder is the directory of the file.

    ``watches`` is whether the editor can watch files for the server; ``encoding`` is that of its columns.
    """
    client = LanguageClient("editor", "1")
    editor = Editor(client, path, encoding)
    await client.start_io(sys.executable, "-m", "zkdeployment", "language-server", *options)
    server = client._server
    assert server is not None
    assert server.stderr is not None
    # Without a reader, the pipe fills, and the end of the server is never noticed.
    log = asyncio.create_task(server.stderr.read())
    async with asyncio.timeout(_PATIENCE):
        await client.initialize_async(
            types.InitializeParams(
                capabilities=types.ClientCapabilities(
                    general=types.GeneralClientCapabilities(position_encodings=[encoding]),
                    workspace=types.WorkspaceClientCapabilities(
                        did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(watches)
                    ),
                ),
                workspace_folders=[types.WorkspaceFolder(path.parent.as_uri(), path.parent.name)],
            )
        )
    client.initialized(types.InitializedParams())
    editor.open(language)
    try:
        yield editor
    finally:
        async with asyncio.timeout(_PATIENCE):
            await client.shutdown_async(None)
            client.exit(None)
            await client.stop()  # type: ignore[no-untyped-call]
            editor.log = (await log).decode()
