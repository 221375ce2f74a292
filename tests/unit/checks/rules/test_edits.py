"""Changes of check configurations in the files of a revision."""

import pytest

from zkdeployment.base.errors import NotFoundError, RefusedError, TreeError
from zkdeployment.base.source_files import SourceFile
from zkdeployment.checks.user_acts import (
    check_content,
    new_check_documents,
    with_changed_check,
    with_new_checks,
    without_check,
)

TEXT = """\
# Who is called: the web team.
schema: zkdeployment/CheckConfiguration/v1
metadata: {name: front-http}
data:
  object: /p1/shop  # everything below
  monitoring: nagios1
  check: {command: check_http}
"""
SYSTEM = "schema: zkdeployment/MonitoringSystem/v1\nmetadata: {name: nagios1}\n"
DATA = {"object": "/p1/shop", "monitoring": "nagios1", "check": {"command": "check_http"}}


def file(text, name="checks.yaml"):
    return SourceFile(name, text.encode())


def contents(text):
    documents = new_check_documents(file(text))
    return {(kind, name): entry.content for (kind, (name,)), entry in documents.entries.items()}


def test_each_new_document_gets_a_file_of_its_own():
    assert with_new_checks([], contents(f"{TEXT}---\n{SYSTEM}")) == {
        "check-front-http.yaml": b"schema: zkdeployment/CheckConfiguration/v1\nmetadata:\n  name: front-http\n"
        b"data:\n"
        b"  object: /p1/shop\n  monitoring: nagios1\n  check:\n    command: check_http\n",
        "monitoring-nagios1.yaml": b"schema: zkdeployment/MonitoringSystem/v1\nmetadata:\n  name: nagios1\n",
    }


def test_a_document_that_exists_unchanged_changes_nothing():
    assert with_new_checks([file(TEXT)], contents(TEXT)) == {}


def test_another_document_of_the_same_name_is_refused():
    with pytest.raises(RefusedError, match=r"^there is a check front-http already: checks\."):
        with_new_checks([file(TEXT)], contents(TEXT.replace("check_http", "check_tcp")))


def test_documents_of_other_kinds_are_not_created():
    strategy = "schema: shipyard/DeploymentConfiguration/v1\nmetadata: {name: x}\ndata: {}\n"
    with pytest.raises(TreeError, match=r"^checks\.yaml:1:9: schema: expected one of: zkdeployment/CheckConf"):
        new_check_documents(file(strategy))
    with pytest.raises(TreeError, match="holds no check configuration"):
        new_check_documents(file("a: b\n"))


def test_all_faults_of_a_file_are_reported():
    with pytest.raises(TreeError) as caught:
        new_check_documents(file(TEXT.replace("/p1/shop", "p1").replace("check_http", "a b")))
    assert [line.partition(": ")[0] for line in str(caught.value).splitlines()] == [
        "checks.yaml:7:20",
        "checks.yaml:5:11",
    ]


def test_a_change_keeps_comments_and_all_other_keys():
    content = check_content("front-http", DATA | {"interval": 30, "object": "/p1"})
    changed = with_changed_check([file(TEXT)], "front-http", content)
    assert changed == {
        "checks.yaml": TEXT.replace("/p1/shop", "/p1").encode() + b"  interval: 30\n",
    }


def test_a_key_that_is_no_longer_given_is_removed():
    text = TEXT + "  interval: 30\n"
    assert with_changed_check([file(text)], "front-http", check_content("front-http", DATA)) == {
        "checks.yaml": TEXT.encode()
    }


def test_equal_values_change_nothing():
    assert with_changed_check([file(TEXT)], "front-http", check_content("front-http", DATA)) == {}


def test_a_removed_configuration_leaves_the_other_documents():
    rest = without_check([file(f"{SYSTEM}---\n{TEXT}")], "front-http")
    assert rest == {"checks.yaml": SYSTEM.encode()}
    assert without_check([file(TEXT)], "front-http") == {"checks.yaml": None}


def test_an_unknown_configuration_is_not_found():
    with pytest.raises(NotFoundError, match="there is no check back-http at the tip of the branch"):
        without_check([file(TEXT)], "back-http")


def test_the_content_of_a_request_is_checked():
    with pytest.raises(
        TreeError, match=r"^data\.interval: expected a whole number of seconds, at least 1, found 0$"
    ):
        check_content("front-http", DATA | {"interval": 0})
    with pytest.raises(TreeError, match=r"metadata\.name: summary is a word of 'zkdeployment checks'"):
        check_content("summary", DATA)
    with pytest.raises(TreeError, match="data: "):
        check_content("front-http", ["a"])
