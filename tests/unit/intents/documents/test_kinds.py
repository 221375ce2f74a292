"""Documents of deployment intent groups and clusters: their forms, and the faults that lint reports."""

from dataclasses import replace

import pytest

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.collection import PublishedDocuments
from zkdeployment.documents.edits import change_document, document_file_name, render_document
from zkdeployment.documents.reading import read_documents
from zkdeployment.intents.documents import (
    CLUSTER,
    GROUP,
    Approval,
    ClusterIntents,
    DeploymentIntentGroup,
    FleetStop,
    IntentState,
    UpdateRule,
    intent_of_document,
    parse_subject,
    subject_text,
)

SHOP = DeploymentIntentGroup(
    "p1", "store", "v1", "shop", "plain", {"front": ("/p1/shop/front",), "db": ("/p1/shop/db", "/p1/shop/cache")}
)
APPROVAL = Approval(f"sha256:{'0' * 64}", "alice@example.com", "the launch")
WEB = ClusterIntents("ams", "web-server", {"vlan12": ("/net/vlan12",)})

TEXT = """\
schema: zkdeployment/DeploymentIntentGroup/v1
metadata: {project: p1, composite-app: store, version: v1, name: shop}
data:
  composite-profile: plain
  apps: {front: [/p1/shop/front], db: [/p1/shop/db, /p1/shop/cache]}
  state: Created                 # Created, Approved, Instantiated, Terminated
---
schema: zkdeployment/Cluster/v1
metadata: {provider: ams, name: web-server}
data:
  network-intents: {vlan12: [/net/vlan12]}
  state: Created
"""


def read(text):
    return read_documents([SourceFile("i.yaml", text.encode())])


def test_both_documents_of_the_manual_are_read():
    found = read(TEXT)
    assert found.problems == ()
    assert found.of(GROUP) == {SHOP.subject: SHOP}
    assert found.of(CLUSTER) == {WEB.subject: WEB}
    assert [subject_text(subject) for _, subject in found.entries] == ["p1/store/v1/shop", "ams/web-server"]


@pytest.mark.parametrize(
    "intent",
    [
        SHOP,
        WEB,
        replace(WEB, state=IntentState.APPLIED),
        replace(SHOP, state=IntentState.INSTANTIATED, approval=APPROVAL, update=UpdateRule.APPROVE),
        replace(SHOP, fleet_stop=FleetStop.GROUP),
        replace(SHOP, state=IntentState.TERMINATED, approval=replace(APPROVAL, signature="-----BEGIN\nxyz\n")),
    ],
)
def test_a_written_document_is_read_as_the_same_intent(intent):
    found = read(render_document(intent.to_document()))
    assert found.problems == ()
    assert [entry.value for entry in found.entries.values()] == [intent]


def test_an_approval_changes_two_keys_and_keeps_the_comments():
    changes = {("data", "state"): "Approved", ("data", "approval"): APPROVAL.to_json()}
    text = change_document(TEXT, 0, changes)
    assert read(text).of(GROUP)[SHOP.subject] == replace(SHOP, state=IntentState.APPROVED, approval=APPROVAL)
    assert "# Created, Approved, Instantiated, Terminated" in text


def test_files_are_named_by_kind_and_full_subject():
    assert document_file_name(GROUP.name, SHOP.subject) == "intent-p1-store-v1-shop.yaml"
    assert document_file_name(CLUSTER.name, WEB.subject) == "cluster-ams-web-server.yaml"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("state: Created   ", "state: Applied   ", "6:10: data.state: expected one of: Created, Approved, Inst"),
        ("state: Created   ", "state: Approved   ", "Approved needs the key approval; expected Created"),
        ("state: Created\n", "state: Approved\n", "data.state: expected one of: Created, Applied, Terminated"),
        ("project: p1", "project: p/1", "metadata.project: expected a name of at most 128 letters"),
        (
            "apps: {front: [/p1/shop/front]",
            "apps: {front: [p1]",
            "data.apps.front[0]: expected the path of a node",
        ),
        ("apps: {front: [/p1/shop/front]", "apps: {front: []", "data.apps.front: expected a list of at least one"),
        ("/p1/shop/cache", "/p1/shop/front/x", "/p1/shop/front/x and /p1/shop/front of front overlap"),
        ("/p1/shop/cache", "/p1", "/p1 and /p1/shop/front of front overlap"),
        ("apps:", "app:", "data.app: unknown key 'app'; did you mean apps?"),
        (
            "state: Created   ",
            "state: Created\n  update: never   #",
            "data.update: expected one of: terminate, appr",
        ),
        ("name: shop", "nam: shop", "metadata.nam: unknown key 'nam'; did you mean name?"),
        ("provider: ams, ", "", "'provider' is a required property"),
        ("DeploymentIntentGroup/v1", "DeploymentIntentGroup/v2", "schema: expected one of: "),
    ],
)
def test_a_faulty_document_is_an_error_with_its_place(before, after, expected):
    assert before in TEXT
    messages = [str(problem) for problem in read(TEXT.replace(before, after, 1)).problems]
    assert all(message.startswith("i.yaml:") for message in messages)
    assert any(expected in message for message in messages), messages


@pytest.mark.parametrize("name", ['"shop\\n"', "h3/x", "-x", "x" * 400, "'.'", "'a b'", "'a\\tb'", "é"])
@pytest.mark.parametrize("place", ["project: p1", "name: shop", "provider: ams", "name: web-server", "{front: ["])
def test_an_invalid_name_of_a_document_is_refused_everywhere(name, place):
    key, _, old = place.rpartition(": ")
    if place == "{front: [":
        changed = TEXT.replace("{front: ", f"{{{name}: ", 1)
    else:
        changed = TEXT.replace(place, f"{key}: {name}", 1)
    messages = [str(problem) for problem in read(changed).problems]
    assert any("expected a name of at most" in text or "expected a target of at" in text for text in messages), old


def test_a_published_document_with_an_invalid_name_is_omitted():
    document = replace(WEB, name="h 3").to_document()
    with pytest.raises(ValueError, match="of at most"):
        intent_of_document(document)
    assert not PublishedDocuments({("cluster", ("ams", "h 3")): document}).of(CLUSTER)


def test_two_documents_of_one_subject_are_an_error():
    messages = [str(problem) for problem in read(f"{TEXT}---\n{TEXT}").problems]
    assert any("there is another intent p1 store v1 shop in i.yaml, line 1" in message for message in messages)


def test_a_subject_has_the_four_names_of_a_group_or_the_two_of_a_cluster():
    assert [parse_subject(subject_text(intent.subject)) for intent in (SHOP, WEB)] == [SHOP.subject, WEB.subject]


@pytest.mark.parametrize("text", ["", "ams", "ams/web/db", "p1/store/v1/shop/front", "ams/", "/web"])
def test_other_texts_are_not_subjects(text):
    with pytest.raises(ConfigurationError, match="expected PROJECT/APP/VERSION/NAME"):
        parse_subject(text)


@pytest.mark.parametrize(
    "text",
    ["p1/store/v1/shop\n", "p1/store/v1/-x", "ams/web\n", "ams/é", f"p1/store/v1/{'x' * 400}", "../store/v1/x"],
)
def test_a_subject_with_an_invalid_name_is_refused_as_in_documents(text):
    with pytest.raises(ConfigurationError, match=r"SUBJECT: .* is not a (name|target) \(expected at most"):
        parse_subject(text)


@pytest.mark.parametrize("key", ["apps", "network-intents"])
def test_a_document_without_paths_is_an_error(key):
    old = {
        "apps": "{front: [/p1/shop/front], db: [/p1/shop/db, /p1/shop/cache]}",
        "network-intents": "{vlan12: [/net/vlan12]}",
    }[key]
    (problem,) = read(TEXT.replace(old, "{}")).problems
    assert problem.path == f"data.{key}"
    assert problem.message == "expected at least one name with a path, found none: nothing would be governed"
