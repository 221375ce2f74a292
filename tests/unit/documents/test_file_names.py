"""The names of the files of documents."""

from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.base.source_files import may_hold_documents
from zkdeployment.documents.edits import document_file_name


def test_a_file_is_named_by_kind_and_full_subject():
    assert document_file_name("intent", ("p1", "store", "v1", "shop")) == "intent-p1-store-v1-shop.yaml"
    assert document_file_name("cluster", ("ams", "web-server")) == "cluster-ams-web-server.yaml"
    assert document_file_name("quarantine", ("hello", "1.1-2")) == "quarantine-hello-1.1-2.yaml"
    assert document_file_name("configuration", ()) == "configuration.yaml"


def test_subjects_with_other_characters_have_safe_and_different_names():
    first = document_file_name("quarantine", ("git://host/a b", "v1"))
    assert first.startswith("quarantine-git_host_a_b-v1-")
    assert first != document_file_name("quarantine", ("git://host/a/b", "v1"))


@given(st.lists(st.text(max_size=200), max_size=4).map(tuple))
def test_any_subject_gives_a_name_that_is_a_plain_file_of_documents(subject):
    name = document_file_name("check", subject)
    assert name.isascii()
    assert name.isprintable()
    assert "/" not in name
    assert name.startswith("check")
    assert len(name) < 160
    assert may_hold_documents(name, 1)
