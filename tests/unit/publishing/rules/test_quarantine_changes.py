"""Changes of quarantines in files, and the versions that revisions introduced."""

from __future__ import annotations

import pytest

from zkdeployment.base.errors import RefusedError
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.publishing.acts.commits import FileChanges
from zkdeployment.publishing.acts.quarantine import (
    introduced_versions,
    with_quarantine,
    without_quarantine,
)
from zkdeployment.publishing.rules.quarantines import Quarantine

BAD = Quarantine("web", "1.3", "loses sessions", "Ann <ann@example.com>", "2026-01-31T12:00:00Z")
DOCUMENT = b"""\
schema: zkdeployment/Quarantine/v1
metadata:
  name: web
  version: '1.3'
data:
  reason: loses sessions
  by: Ann <ann@example.com>
  time: '2026-01-31T12:00:00Z'
"""


def tree(*services: str) -> tuple[SourceFile, ...]:
    """A tree with these services, each ``TYPE`` or ``TYPE VERSION``, with further properties on their lines."""
    lines = ["/shop"]
    for number, service in enumerate(services):
        package, _, rest = service.partition(" ")
        version, _, more = rest.partition(" ")
        lines.append(f"  /s{number} : {package}")
        lines += [f"    version = {version!r}"] if version else []
        lines += [f"    {more}"] if more else []
        lines += ["    /deploy", "      /h1"]
    return (SourceFile("a.zk", "\n".join([*lines, ""]).encode()),)


def test_a_quarantine_is_a_file_of_its_own_that_can_be_removed_again() -> None:
    files = tree("web 1.2")
    added = with_quarantine(files, BAD)
    assert added == {"quarantine-web-1.3.yaml": added["quarantine-web-1.3.yaml"]}
    content = added["quarantine-web-1.3.yaml"]
    assert content is not None
    with_it = (*files, SourceFile("quarantine-web-1.3.yaml", content))
    assert with_quarantine(with_it, BAD) == {}
    assert without_quarantine(with_it, "web", "1.3") == {"quarantine-web-1.3.yaml": None}


def test_the_other_documents_of_a_file_stay_when_a_quarantine_ends() -> None:
    other = DOCUMENT.replace(b"'1.3'", b"'1.4'")
    files = (*tree("web 1.2"), SourceFile("all.yaml", DOCUMENT + b"---\n# kept\n" + other))
    changed = without_quarantine(files, "web", "1.3")["all.yaml"]
    assert changed is not None
    assert b"'1.4'" in changed
    assert b"'1.3'" not in changed


def test_a_new_quarantine_leaves_the_documents_of_a_file_that_has_its_name() -> None:
    name, other = "quarantine-web-1.3.yaml", DOCUMENT.replace(b"'1.3'", b"'1.4'")
    files = (*tree("web 1.2"), SourceFile(name, other))
    added = with_quarantine(files, BAD)
    assert name not in added
    after = FileChanges(added, "").apply(files)
    assert {subject for _, subject in read_documents(document_files(after)).entries} == {
        ("web", "1.3"),
        ("web", "1.4"),
    }


@pytest.mark.parametrize("service", ["web 1.3", "web 1.3-2", "web-1.3", "app 1 patches = ['web 1.3']"])
def test_a_version_that_the_tree_wants_is_not_put_into_quarantine(service: str) -> None:
    with pytest.raises(RefusedError, match=r"cannot put web 1\.3 into quarantine.*\(/shop/s0\)"):
        with_quarantine(tree(service), BAD)


def test_a_quarantine_that_does_not_exist_cannot_end() -> None:
    with pytest.raises(RefusedError, match="there is no quarantine of web 9"):
        without_quarantine(tree("web 1.2"), "web", "9")


def test_versions_that_only_newer_revisions_want_were_introduced_by_them() -> None:
    past = tree("web 1.2", "db 7")
    newer = [
        tree("web 1.3", "db 7"),
        tree("web 1.4 patches = ['fix 1']", "db 7", "cache-2.0"),
        tree("git 9 ", "db 7", "tool git://git.example.com/tool#v3"),
    ]
    assert introduced_versions(past, newer) == (
        ("cache", "2.0"),
        ("fix", "1"),
        ("git", "9"),
        ("git://git.example.com/tool", "v3"),
        ("web", "1.3"),
        ("web", "1.4"),
    )


def test_a_version_that_the_past_wants_in_another_form_was_not_introduced() -> None:
    assert introduced_versions(tree("web 1.2-1"), [tree("web 1.2-1", "web-1.2")]) == ()


def test_revisions_with_errors_introduce_their_readable_parts() -> None:
    broken = (SourceFile("broken.zk", b"  ??? no tree"), *tree("web 1.3"))
    assert introduced_versions(tree("web 1.2"), [broken]) == (("web", "1.3"),)
