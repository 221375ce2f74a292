"""Quarantines: their documents, and which wanted versions they match."""

import pytest

from zkdeployment.base.deployment import Assignment
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.edits import render_document
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.publishing.rules.quarantines import QUARANTINE, Quarantine, quarantined

BAD = Quarantine("hello", "1.1", "crashes at start", "alice@example.com", "2026-11-22T07:00:00Z")


def read(text):
    return read_documents([SourceFile("q.yaml", text.encode())])


def of(name, version):
    return Quarantine(name, version, "broken", "bob", "2026-01-01")


def wants(version=None, package="hello", application="hello", **patches):
    return Assignment("/demo/hello", 1, package, application, version=version, patches=patches)


def test_a_document_is_read_with_who_when_and_why():
    found = read(render_document(BAD.to_document()))
    assert found.problems == ()
    assert found.of(QUARANTINE) == {("hello", "1.1"): BAD}
    assert BAD.sentence == (
        "hello 1.1 is quarantined by alice@example.com since 2026-11-22T07:00:00Z: crashes at start"
    )


def test_versions_are_text_as_written():
    text = render_document(BAD.to_document()).replace('"1.1"', "1.10")
    assert list(read(text).of(QUARANTINE)) == [("hello", "1.10")]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("  reason: crashes at start\n", "", "2: data: 'reason' is a required property"),
        ("hello", "''", "metadata.name: expected the name of a package, or a repository, as text, found ''"),
        ("by:", "bye:", "data.bye: unknown key 'bye'; did you mean by?"),
        ('"2026-11-22T07:00:00Z"', "yesterday", "data.time: expected a time as in 2026-01-31T12:00:00Z"),
        ("hello", "https://me:secret@host/x", "metadata.name: the repository contains a password"),
        ("Quarantine/v1", "Quarantine/v2", "schema: expected one of: "),
        ("zkdeployment/", "zk-deployment/", "schema: expected one of: "),
        ("zkdeployment/Quarantine", "quarantine", "schema: expected one of: "),
        ("zkdeployment/Quarantine", "zkdeployment/Quarantin", "schema: expected one of: "),
        ("schema", "Schema", "expected the key schema, found 'Schema'"),
    ],
)
def test_a_faulty_document_is_an_error_with_its_place(before, after, expected):
    text = render_document(BAD.to_document()).replace(before, after)
    assert document_files([SourceFile("q.yaml", text.encode())])
    messages = [str(problem) for problem in read(text).problems]
    assert all(message.startswith("q.yaml:") for message in messages)
    assert any(expected.partition(": ")[2] in message for message in messages), messages


def test_two_documents_about_one_subject_are_an_error():
    text = render_document(BAD.to_document())
    (problem,) = read(f"{text}---\n{text}").problems
    assert str(problem) == (
        "q.yaml:12:9: metadata.name: there is another quarantine hello 1.1 in q.yaml, line 1; keep one of them"
    )


def test_files_of_other_programs_are_not_read():
    other = b"include: [a]\nscript: zkdeployment sync /etc/zkdeployment/zkdeployment.cfg\nx: !reference [a]\n"
    assert document_files([SourceFile(".gitlab-ci.yml", other)]) == []


@pytest.mark.parametrize(
    ("version", "wanted", "matches"),
    [
        ("1.1", "1.1", True),
        ("1.1", "1.1-3", True),
        ("1.1", "1.10", False),
        ("1.1-1", "1.1-1", True),
        ("1.1-1", "1.1-2", False),
        ("1.1-1", "1.1", False),
        ("1.1", "2:1.1-1", True),
        ("2:1.1", "1.1", True),
        ("2:1.1", "1:1.1", False),
        ("1.1", None, False),
    ],
)
def test_the_parts_that_a_quarantined_version_lacks_match_any(version, wanted, matches):
    assert of("hello", version).matches(wants(wanted)) is matches


def test_a_version_in_the_name_of_a_package_counts():
    assert of("hello", "1.4").matches(wants(package="hello-1.4"))
    assert not of("hello", "1.5").matches(wants(package="hello-1.4"))


def test_patches_count():
    assert of("hello-fix", "3").matches(wants("1.0", **{"hello-fix": "3-1"}))
    assert not of("hello-fix", "4").matches(wants("1.0", **{"hello-fix": "3-1"}))


@pytest.mark.parametrize(
    ("repository", "version", "wanted", "matches"),
    [
        ("https://host.example/hello.git", "v1", "git://https://host.example/hello.git#v1", True),
        ("git://https://host.example/hello.git", "v1", "git:https://host.example/hello.git#v1", True),
        ("host.example/hello", "v1", "git://host.example/hello#v1", True),
        ("https://host.example/hello.git", "v2", "git://https://host.example/hello.git#v1", False),
        ("https://host.example/other.git", "v1", "git://https://host.example/hello.git#v1", False),
        ("svn://host.example/hello", "12", "svn://host.example/hello#r12", True),
        ("hello", "git://host.example/hello#v1", "git://host.example/hello#v1", True),
        ("hello", "v1", "git://host.example/hello#v1", False),
    ],
)
def test_checkouts_count_by_repository_and_version(repository, version, wanted, matches):
    assert of(repository, version).matches(wants(wanted)) is matches


def test_each_service_is_reported_once():
    assignments = [wants("1.1"), wants("1.1"), wants("1.0")]
    assert list(quarantined(assignments, [BAD])) == [(assignments[0], BAD)]
    assert list(quarantined(assignments, [])) == []
