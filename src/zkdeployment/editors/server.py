"""The language server: the messages of the Language Server Protocol, answered from the rules of this package."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import ServerTextPosition

from zkdeployment.base.errors import TreeError, ZkdeploymentError
from zkdeployment.base.source_files import Problem, Severity, is_tree_file
from zkdeployment.editors.rules.completion import (
    Proposal,
    ProposalKind,
    describe_node,
    describe_tree_place,
    node_under,
    tree_proposals,
)
from zkdeployment.editors.rules.document_text import describe_place, document_proposals, place_at
from zkdeployment.editors.rules.fixes import fixes
from zkdeployment.editors.rules.naming import (
    TextPlace,
    check_renaming,
    definition_at,
    node_in_documents,
    reference_places,
    renaming_places,
    resolved,
    subject_at,
)
from zkdeployment.editors.rules.outline import OutlineEntry, outline
from zkdeployment.editors.rules.tree_text import (
    Live,
    TreeContext,
    indentation,
    owner_of,
    property_line,
    references,
)
from zkdeployment.editors.trees import SOURCE_PATTERN, LintOptions, OpenTree, is_source, tree_directory
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.tree.canonical import canonical_text
from zkdeployment.tree.parse import LineKind, parse
from zkdeployment.zookeeper.session import Session, verb_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zkdeployment.editors.rules.fixes import Edit
    from zkdeployment.zookeeper.servers import Servers

#: Seconds between two reads of the hosts, and between two attempts to connect.
_INTERVAL = 30.0


class PublishedFleet:
    """The known hosts, read in the background, and the published properties of nodes.

    ``report`` receives a message when ZooKeeper becomes unreachable; it is called in another thread.
    """

    def __init__(self, servers: Servers, report: Callable[[str], None]) -> None:
        self._servers = servers
        self._report = report
        self._session: Session | None = None
        self._live = Live()
        self._thread = threading.Thread(target=self._follow, name="published", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def live(self, path: str | None = None) -> Live:
        """Return the hosts that were read last, with the published properties of the node at ``path``.

        The node is missing if it does not exist, or if ZooKeeper does not answer.
        """
        session = self._session
        if session is None or path is None:
            return self._live
        try:
            node = session.get(path)
        except ZkdeploymentError:
            return self._live
        return Live(self._live.hosts, {} if node is None else {path: node.properties})

    def _follow(self) -> None:
        reported = False
        while True:
            try:
                with verb_session(self._servers) as session:
                    reported = False
                    self._read(session)
            except ZkdeploymentError as error:
                if not reported:
                    self._report(f"published values and hosts are not shown: {error}")
                reported = True
            finally:
                self._session = None
            time.sleep(_INTERVAL)

    def _read(self, session: Session) -> None:
        fleet = ZooKeeperFleetReader(session)
        while True:
            self._live = Live(fleet.known_hosts())
            self._session = session
            time.sleep(_INTERVAL)


#: The most seconds after the last key until the tree is checked. The pause is as long as the last check took:
#: checks take at most half of the time in which a person types.
_PAUSE = 0.03

#: The characters after which editors ask for completion.
_TRIGGERS = ("/", ":", "=", ">", "'", '"', " ", "-", "[")

_KINDS = {
    ProposalKind.NODE: types.CompletionItemKind.Module,
    ProposalKind.PROPERTY: types.CompletionItemKind.Property,
    ProposalKind.VALUE: types.CompletionItemKind.Value,
    ProposalKind.SNIPPET: types.CompletionItemKind.Snippet,
}

_SYMBOLS = {
    LineKind.NODE: types.SymbolKind.Module,
    LineKind.PROPERTY: types.SymbolKind.Property,
    LineKind.LINK: types.SymbolKind.Key,
}

_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
}


class Cursor(NamedTuple):
    """A place in a file, in characters, with the lines of the file and the context about its tree."""

    path: str
    context: TreeContext
    lines: Sequence[str]
    number: int
    column: int

    @property
    def node(self) -> str | None:
        """The node that the word here stands for, in a tree file or in the paths of a document."""
        context, lines, number, column = self[1:]
        if is_tree_file(self.path):
            return node_under(context, lines, number, column)
        return node_in_documents(context, lines, number, column)


class TreeLanguageServer(LanguageServer):
    """A server for one editor; ``published`` is ``None`` without a ZooKeeper."""

    def __init__(self, options: LintOptions) -> None:
        super().__init__("zkdeployment", version("zkdeployment"))
        self.published: PublishedFleet | None = None
        self._options = options
        self._trees: dict[Path, OpenTree] = {}
        self._shown: dict[Path, set[str]] = {}
        self._pending: asyncio.TimerHandle | None = None
        self._pause = _PAUSE
        self._changed: set[Path] = set()

    def tree_of(self, path: str) -> OpenTree:
        """Return the tree that a file belongs to."""
        folders = [Path(at) for folder in self.workspace.folders.values() if (at := to_fs_path(folder.uri))]
        if not folders and self.workspace.root_path is not None:
            folders = [Path(self.workspace.root_path)]
        directory = tree_directory(Path(path), folders)
        return self._trees.setdefault(directory, OpenTree(directory, self._options))

    def texts_of(self, tree: OpenTree) -> dict[str, str]:
        """Return the open texts of a tree by the path of their file."""
        return {
            document.path: document.source
            for document in self.workspace.text_documents.values()
            if is_source(document.path) and self.tree_of(document.path) is tree
        }

    def cursor(
        self, document: types.TextDocumentIdentifier, position: types.Position, *, on_disk: bool = False
    ) -> Cursor | None:
        """Return a place in a file of a tree, ``None`` in other files; ``on_disk`` reads the files again.

        Files that changed on disk are read again, and their problems published, also if the editor does not watch
        files.
        """
        path = to_fs_path(document.uri)
        if path is None or not is_source(path):
            return None
        tree = self.tree_of(path)
        if on_disk:
            tree.forget()
        elif tree.refresh():
            self._check_soon(tree)
        texts = self.texts_of(tree)
        live = Live() if self.published is None else self.published.live()
        context, lines = TreeContext(tree.review(texts), live), tree.lines(path, texts)
        place = self.workspace.position_codec.position_from_client_units(lines, position)
        return Cursor(path, context, lines, min(place.line, len(lines) - 1), place.character)

    def check_later(self, uri: str, *, on_disk: bool = False) -> None:
        """Publish the problems of the tree of a file after a short pause in typing."""
        path = to_fs_path(uri)
        if path is None or not is_source(path):
            return
        tree = self.tree_of(path)
        if on_disk:
            tree.forget()
        self._check_soon(tree)

    def _check_soon(self, tree: OpenTree) -> None:
        self._changed.add(tree.directory)
        if self._pending is not None:
            self._pending.cancel()
        self._pending = asyncio.get_running_loop().call_later(self._pause, self._check)

    def _check(self) -> None:
        self._pending, begin = None, time.perf_counter()
        changed, self._changed = self._changed, set()
        for directory in changed:
            self._trees[directory].refresh()
            self._publish(self._trees[directory])
        self._pause = min(_PAUSE, time.perf_counter() - begin)

    def _publish(self, tree: OpenTree) -> None:
        """Publish the problems of a tree, file by file; files without problems get an empty list once."""
        texts = self.texts_of(tree)
        found: dict[str, list[types.Diagnostic]] = {path: [] for path in texts}
        for problem in tree.problems(tree.review(texts)):
            # A problem of the whole tree has no place; people see it at the top of the tree files that they edit.
            files = [problem.file] if problem.file is not None else filter(is_tree_file, texts)
            for file in files:
                found.setdefault(file, []).append(self.diagnostic(problem, tree.lines(file, texts)))
        for file in self._shown.get(tree.directory, set()) - found.keys():
            found[file] = []
        self._shown[tree.directory] = {file for file, diagnostics in found.items() if diagnostics}
        # The open files are last: a person who sees their problems then has all others, too.
        for file, diagnostics in sorted(found.items(), key=lambda entry: entry[0] in texts):
            uri = from_fs_path(file) or file
            document = self.workspace.text_documents.get(uri)
            self.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(uri, diagnostics, None if document is None else document.version)
            )

    def diagnostic(self, problem: Problem, lines: Sequence[str]) -> types.Diagnostic:
        """Return a problem in the form of the protocol; ``lines`` are those of its file."""
        line = min((problem.line or 1) - 1, len(lines) - 1)
        text = lines[line]
        start = min((problem.column or 1) - 1, len(text))
        message = problem.message
        if problem.path is not None and problem.path not in message:
            message = f"{problem.path}: {message}"
        return types.Diagnostic(
            self.range_of(lines, line, start, max(len(text.rstrip()), start)),
            message,
            severity=_SEVERITIES[problem.severity],
            source="zkdeployment",
        )

    def edit(self, lines: Sequence[str], edit: Edit) -> types.TextEdit:
        """Return an edit in the form of the protocol."""
        return types.TextEdit(self.range_of(lines, edit.line, edit.start, edit.end), edit.text)

    def range_of(self, lines: Sequence[str], line: int, start: int, end: int) -> types.Range:
        """Return a range of the protocol for columns in characters."""
        codec = self.workspace.position_codec
        first = codec.position_to_client_units(lines, ServerTextPosition(line, start))
        return types.Range(first, codec.position_to_client_units(lines, ServerTextPosition(line, end)))

    def lines_of_all(self, tree: OpenTree, context: TreeContext) -> dict[str, list[str]]:
        """Return the lines of each file of a reviewed tree, by its name."""
        texts = self.texts_of(tree)
        files = (*context.reviewed.linted.parsed, *context.reviewed.documents.files)
        return {file.name: tree.lines(file.name, texts) for file in files}

    def location_of(self, place: TextPlace, texts: Mapping[str, Sequence[str]]) -> types.Location:
        """Return a place of the protocol; ``texts`` has the lines of each file."""
        return types.Location(
            from_fs_path(place.file) or place.file,
            self.range_of(texts[place.file], place.line, place.start, place.end),
        )

    def location(self, context: TreeContext, node: str, name: str | None = None) -> types.Location | None:
        """Return the place of a node, or of its property; ``None`` for a node that no file has."""
        positions = context.reviewed.linted.positions
        if node not in positions:
            return None
        file, line, column = positions[node]
        tree = self.tree_of(file)
        lines = tree.lines(file, self.texts_of(tree))
        number = line - 1 if name is None else property_line(lines, line - 1, name)
        start = column if number == line - 1 else len(lines[number]) - len(lines[number].lstrip())
        return types.Location(
            from_fs_path(file) or file, self.range_of(lines, number, start, len(lines[number].rstrip()))
        )


def build_server(options: LintOptions) -> TreeLanguageServer:
    """Return the language server, which answers when it is started."""
    server = TreeLanguageServer(options)
    for method in (types.TEXT_DOCUMENT_DID_OPEN, types.TEXT_DOCUMENT_DID_SAVE, types.TEXT_DOCUMENT_DID_CLOSE):
        server.feature(method)(_read_again)
    server.feature(types.TEXT_DOCUMENT_DID_CHANGE)(_check)
    server.feature(types.INITIALIZED)(_watch_files)
    server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)(_check_changed_files)
    server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=list(_TRIGGERS)))(
        _complete
    )
    server.feature(types.TEXT_DOCUMENT_HOVER)(_hover)
    server.feature(types.TEXT_DOCUMENT_DEFINITION)(_define)
    server.feature(types.TEXT_DOCUMENT_REFERENCES)(_find_references)
    server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)(_outline)
    server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)(_prepare_renaming)
    server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))(_rename)
    server.feature(types.TEXT_DOCUMENT_FORMATTING)(_format)
    quick_fixes = types.CodeActionOptions([types.CodeActionKind.QuickFix])
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, quick_fixes)(_offer_fixes)
    return server


def _watch_files(server: TreeLanguageServer, _params: types.InitializedParams) -> None:
    """Ask the editor to report changes of files, if it can; without reports, requests find the changes."""
    workspace = server.client_capabilities.workspace
    watched = None if workspace is None else workspace.did_change_watched_files
    if watched is None or not watched.dynamic_registration:
        return
    method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
    options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher(SOURCE_PATTERN)])
    server.client_register_capability(types.RegistrationParams([types.Registration(method, method, options)]))


def _read_again(
    server: TreeLanguageServer,
    params: types.DidOpenTextDocumentParams | types.DidSaveTextDocumentParams | types.DidCloseTextDocumentParams,
) -> None:
    server.check_later(params.text_document.uri, on_disk=True)


def _check(server: TreeLanguageServer, params: types.DidChangeTextDocumentParams) -> None:
    server.check_later(params.text_document.uri)


def _check_changed_files(server: TreeLanguageServer, params: types.DidChangeWatchedFilesParams) -> None:
    for change in params.changes:
        server.check_later(change.uri, on_disk=True)


def _complete(server: TreeLanguageServer, params: types.CompletionParams) -> types.CompletionList | None:
    cursor = server.cursor(params.text_document, params.position)
    if cursor is None:
        return None
    path, context, lines, number, column = cursor
    propose = tree_proposals if is_tree_file(path) else document_proposals
    proposals = propose(context, lines, number, column)
    return types.CompletionList(
        is_incomplete=False, items=[_item(server, lines, number, column, proposal) for proposal in proposals]
    )


def _item(
    server: TreeLanguageServer, lines: Sequence[str], number: int, column: int, proposal: Proposal
) -> types.CompletionItem:
    snippet = types.InsertTextFormat.Snippet if proposal.is_snippet else types.InsertTextFormat.PlainText
    return types.CompletionItem(
        label=proposal.label,
        kind=_KINDS[proposal.kind],
        detail=proposal.detail or None,
        sort_text=f"{proposal.order}{proposal.label}",
        filter_text=lines[number][proposal.start : column] + proposal.label.removeprefix("/")
        if proposal.kind is ProposalKind.SNIPPET
        else proposal.label,
        insert_text_format=snippet,
        insert_text_mode=types.InsertTextMode.AdjustIndentation,
        text_edit=types.TextEdit(server.range_of(lines, number, proposal.start, column), proposal.text),
    )


async def _hover(server: TreeLanguageServer, params: types.HoverParams) -> types.Hover | None:
    cursor = server.cursor(params.text_document, params.position)
    if cursor is None:
        return None
    path, context, lines, number, column = cursor
    node = cursor.node
    if server.published is not None:
        named = node or owner_of(lines, number, indentation(lines[number]))
        live = await asyncio.get_running_loop().run_in_executor(None, server.published.live, named)
        context = TreeContext(context.reviewed, live)
    if is_tree_file(path):
        text = describe_tree_place(context, lines, number, column)
    elif node is not None:
        text = describe_node(context, node)
    else:
        text = describe_place(place_at(lines, number, _word_end(lines[number], column)))
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text else None


def _word_end(text: str, column: int) -> int:
    """Return the column behind the colon of the key at a place, so that the place is its value."""
    colon = text.find(":", column)
    return colon + 1 if colon >= 0 else len(text)


def _define(server: TreeLanguageServer, params: types.DefinitionParams) -> types.Location | None:
    cursor = server.cursor(params.text_document, params.position)
    if cursor is None:
        return None
    context, node = cursor.context, cursor.node
    if is_tree_file(cursor.path):
        target = definition_at(context, cursor.lines, cursor.number, node)
    else:
        target = None if node is None else (resolved(context, node), None)
    return None if target is None else server.location(context, *target)


def _find_references(server: TreeLanguageServer, params: types.ReferenceParams) -> list[types.Location] | None:
    # Some editors do not report changes of files that are not open.
    cursor = server.cursor(params.text_document, params.position, on_disk=True)
    if cursor is None:
        return None
    path, context, lines, number, column = cursor
    node = cursor.node
    if is_tree_file(path):
        subject = subject_at(context, lines, number, column, node)
    else:
        subject = None if node is None else (resolved(context, node), None)
    if subject is None:
        return None
    texts = server.lines_of_all(server.tree_of(path), context)
    with_definitions = params.context.include_declaration
    return [
        server.location_of(place, texts)
        for place in reference_places(context, subject, texts, with_definitions=with_definitions)
    ]


def _offer_fixes(server: TreeLanguageServer, params: types.CodeActionParams) -> list[types.CodeAction] | None:
    """Return the fixes of the problems in the lines of a range."""
    path = to_fs_path(params.text_document.uri)
    if path is None or not is_tree_file(path):
        return None
    tree = server.tree_of(path)
    texts = server.texts_of(tree)
    lines = tree.lines(path, texts)
    first, last = params.range.start.line + 1, params.range.end.line + 1
    return [
        types.CodeAction(
            fix.title,
            types.CodeActionKind.QuickFix,
            [server.diagnostic(problem, lines)],
            is_preferred=number == 0,
            edit=types.WorkspaceEdit({params.text_document.uri: [server.edit(lines, edit) for edit in fix.edits]}),
        )
        for problem in tree.problems(tree.review(texts))
        if problem.file == path and first <= (problem.line or 0) <= last
        for number, fix in enumerate(fixes(problem, lines))
    ]


def _outline(server: TreeLanguageServer, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol] | None:
    path = to_fs_path(params.text_document.uri)
    if path is None or not is_tree_file(path):
        return None
    tree = server.tree_of(path)
    lines = tree.lines(path, server.texts_of(tree))
    return [_symbol(server, lines, entry) for entry in outline(lines)]


def _symbol(server: TreeLanguageServer, lines: Sequence[str], entry: OutlineEntry) -> types.DocumentSymbol:
    name = server.range_of(lines, entry.first, entry.start, entry.start + len(entry.name))
    end = server.range_of(lines, entry.last, 0, len(lines[entry.last].rstrip())).end
    return types.DocumentSymbol(
        entry.name,
        _SYMBOLS[entry.kind],
        types.Range(name.start, end),
        name,
        entry.detail or None,
        children=[_symbol(server, lines, child) for child in entry.children],
    )


def _prepare_renaming(server: TreeLanguageServer, params: types.PrepareRenameParams) -> types.Range | None:
    cursor = server.cursor(params.text_document, params.position)
    if cursor is None or not is_tree_file(cursor.path):
        return None
    _, context, lines, number, column = cursor
    for reference in references(context.tree.properties, lines, number):
        if reference.start <= column <= reference.end:
            with _refusals():
                check_renaming(context, reference.path)
            return server.range_of(lines, number, reference.start, reference.end)
    return None


def _rename(server: TreeLanguageServer, params: types.RenameParams) -> types.WorkspaceEdit | None:
    # Some editors do not report changes of files that are not open.
    cursor = server.cursor(params.text_document, params.position, on_disk=True)
    if cursor is None or not is_tree_file(cursor.path):
        return None
    context, node = cursor.context, cursor.node
    if node is None:
        raise JsonRpcInvalidParams("there is no name of a node at the cursor; put it on a node or on a path")
    tree = server.tree_of(cursor.path)
    if tree.unreadable is not None:
        raise JsonRpcInvalidParams(f"{tree.unreadable}; files that are not read may have links to the node")
    texts = server.lines_of_all(tree, context)
    changes: dict[str, list[types.TextEdit]] = {}
    with _refusals():
        check_renaming(context, node, params.new_name)
        for place in map(partial(server.location_of, texts=texts), renaming_places(context, node, texts)):
            changes.setdefault(place.uri, []).append(types.TextEdit(place.range, params.new_name))
    return types.WorkspaceEdit(changes=changes)


def _format(server: TreeLanguageServer, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
    """Return the edit that gives a tree file its canonical form; the options of the editor do not matter."""
    path = to_fs_path(params.text_document.uri)
    if path is None or not is_tree_file(path):
        return None
    text = server.workspace.get_text_document(params.text_document.uri).source
    problem = next(iter(parse(path, text).problems), None)
    if problem is not None:
        raise JsonRpcInvalidParams(f"a file with errors is not formatted; correct {problem}")
    canonical = canonical_text(text)
    lines = text.split("\n")
    whole = types.Range(types.Position(0, 0), server.range_of(lines, len(lines) - 1, 0, len(lines[-1])).end)
    return [] if canonical == text else [types.TextEdit(whole, canonical)]


@contextmanager
def _refusals() -> Iterator[None]:
    """Refuse a renaming with an error of the protocol, which editors show."""
    try:
        yield
    except TreeError as error:
        raise JsonRpcInvalidParams(str(error)) from error
