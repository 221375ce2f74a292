"""Parameters, documents and answers that the operations on groups and on clusters share."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException

from zkdeployment.base.errors import ConfigurationError, RefusedError
from zkdeployment.base.text import printable
from zkdeployment.intents import requests
from zkdeployment.intents.documents.kinds import approval_value, intent_document, intent_of_document
from zkdeployment.intents.documents.values import ClusterIntents, Intent, IntentState, IntentSubject, subject_text
from zkdeployment.intents.feed import record_of, records_of, summaries_of
from zkdeployment.intents.models import ClusterDocument, GroupDocument
from zkdeployment.intents.rules.approval_rules import ApprovalCount
from zkdeployment.intents.rules.instances import IntentRecord, intent_history
from zkdeployment.intents.rules.overview import compare_content
from zkdeployment.intents.rules.status import read_query, require_apps, status_body
from zkdeployment.intents.store.reader import ZooKeeperIntents
from zkdeployment.intents.user_acts import AdoptServices
from zkdeployment.service.act import Actor
from zkdeployment.service.acts import CommitReference
from zkdeployment.service.api.commits import refer_to
from zkdeployment.service.dependencies import ServerAdapters
from zkdeployment.service.planner import planner_of
from zkdeployment.service.users.user import User


def published_document(record: IntentRecord, counts: Sequence[ApprovalCount] = ()) -> dict[str, Any]:
    """Return the published document of an intent, with the state that the intent has.

    If rules of approvals are configured, the document also has the ``counts`` of its approvals.
    """
    document = intent_document(record.intent)
    document["data"]["state"] = record.state.value
    if counts:
        document["approvals"] = [count.to_json() for count in counts]
    return document


def intent_summary(record: IntentRecord, counts: Sequence[ApprovalCount] = ()) -> dict[str, Any]:
    """Return an intent in the form of the list of all intents."""
    intent, snapshot = record.intent, record.snapshot
    return {
        "subject": subject_text(intent.subject),
        "state": record.state.value,
        "content": snapshot.content.digest,
        "is_approved": snapshot.is_approved,
        "approval": None if intent.approval is None else approval_value(intent.approval),
        "approvals": [count.to_json() for count in counts],
        "instance": record.instances[-1].id if record.instances else None,
        "address": _address(intent),
        "document": published_document(record),
    }


def _address(intent: Intent) -> str:
    names = [quote(name, safe="") for name in intent.subject]
    if isinstance(intent, ClusterIntents):
        return f"/v2/cluster-providers/{names[0]}/clusters/{names[1]}"
    project, composite_app, version, name = names
    above = f"/v2/projects/{project}/composite-apps/{composite_app}/{version}"
    return f"{above}/deployment-intent-groups/{name}"


def requested_intent(body: GroupDocument | ClusterDocument, names: Mapping[str, str]) -> Intent:
    """Return the intent of a request, Created and without an approval.

    ``names`` are the names in the address. Raises ``ConfigurationError`` if the names in the document differ. The
    answer to a document of an invalid form is 422.
    """
    document = body.model_dump(by_alias=True, exclude_none=True, exclude={"approvals"})
    for name, value in names.items():
        found = document["metadata"].setdefault(name, value)
        if found != value:
            raise ConfigurationError(f"metadata.{name} is {found}: expected {value}, as in the address")
    if "name" not in document["metadata"]:
        raise HTTPException(422, "metadata.name is missing: expected the name of the new intent")
    document["data"]["state"] = IntentState.CREATED.value
    document["data"].pop("approval", None)
    try:
        return intent_of_document(document)
    except ValueError as error:
        raise HTTPException(422, str(error)) from error


def check_new_state(body: GroupDocument | ClusterDocument) -> None:
    """Answer 422 to a new document that is not Created: acts change the state."""
    if body.data.state not in {None, IntentState.CREATED.value} or _approval(body) is not None:
        raise HTTPException(
            422, "data: expected the state Created and no approval in a new document; approve it afterwards"
        )


def check_same_state(body: GroupDocument | ClusterDocument, record: IntentRecord | None) -> None:
    """Raise ``RefusedError`` if a document has another state, or another approval, than the published one."""
    if record is None:
        check_new_state(body)
        return
    intent, state, approval = record.intent, body.data.state, _approval(body)
    known = None if intent.approval is None else approval_value(intent.approval)
    if state not in {None, intent.state.value, record.state.value} or approval not in (None, known):
        raise RefusedError(
            f"{subject_text(intent.subject)} is {record.state.value}: the state and the approval are changed by"
            " acts; leave them out of the document"
        )


def _approval(body: GroupDocument | ClusterDocument) -> dict[str, Any] | None:
    approval = getattr(body.data, "approval", None)
    value: dict[str, Any] | None = None if approval is None else approval.model_dump(exclude_none=True)
    return value


#: The number of names that identify a group, and of those that identify a cluster.
GROUP_NAMES = 4
CLUSTER_NAMES = 2

#: A name in an address.
SubjectName = Annotated[str, Path(max_length=500)]

#: Whether a new intent adopts the services that it governs.
AdoptParameter = Annotated[bool, Query(description="Whether the intent adopts its deployed services unchanged.")]

#: The response with a difference, which is text if the request accepts text.
TEXT_OR_JSON: dict[int | str, dict[str, Any]] = {
    200: {"description": "The difference.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


def _status_parameters(
    output: Annotated[list[str] | None, Query(description="summary, all (the default), detail or rsync.")] = None,
    app: Annotated[list[str] | None, Query(description="Only the resources of these apps.")] = None,
    cluster: Annotated[
        list[str] | None, Query(description="Only those on these clusters: NAME, or PROVIDER+NAME with %2B.")
    ] = None,
    resource: Annotated[
        list[str] | None,
        Query(description="Only these: names, paths of services or above, or patterns with *."),
    ] = None,
    instance: Annotated[
        list[str] | None, Query(description="The id of an instance; without a value, a list of all instances.")
    ] = None,
) -> dict[str, list[str]]:
    values = {"output": output, "app": app, "cluster": cluster, "resource": resource, "instance": instance}
    return {name: value for name, value in values.items() if value is not None}


#: The filters of a status; a malformed value is answered by 400, so they are checked by ``read_query``.
StatusParameters = Annotated[dict[str, list[str]], Depends(_status_parameters)]


def list_documents(adapters: ServerAdapters, above: IntentSubject, length: int) -> Response:
    """Return the documents of intents whose subjects have ``length`` names and begin with ``above``."""
    records = records_of(adapters.feed)
    shown = [record for record in records if len(record.intent.subject) == length]
    return JSONResponse(
        [
            published_document(record, requests.counted_approvals(adapters, record))
            for record in shown
            if record.intent.subject[: len(above)] == above
        ]
    )


def show_document(adapters: ServerAdapters, subject: IntentSubject) -> Response:
    """Return the document of an intent."""
    record = requests.find_record(adapters, subject)
    return JSONResponse(published_document(record, requests.counted_approvals(adapters, record)))


def show_status(adapters: ServerAdapters, subject: IntentSubject, parameters: dict[str, list[str]]) -> Response:
    """Return the status of an intent."""
    record = requests.find_record(adapters, subject)
    query = read_query(parameters)
    require_apps(query, record.intent)
    shown = [each for each in record.instances if query.instance in {None, each.id}][-1:]
    reports = requests.read_reports(adapters, *shown)
    clusters = frozenset(known for known in summaries_of(adapters.feed) if len(known) == CLUSTER_NAMES)
    return JSONResponse(status_body(record, query, replace(reports, clusters=clusters)))


def show_difference(request: Request, adapters: ServerAdapters, subject: IntentSubject) -> Response:
    """Return the changes of the content of a group since its last approval, as JSON or as text."""
    compared = compare_content(requests.intent_overview(planner_of(request), adapters, subject))
    if not request.headers.get("Accept", "").startswith("text/plain"):
        return JSONResponse(compared.to_json())
    return PlainTextResponse("".join(f"{printable(line)}\n" for line in compared.lines()))


def show_history(adapters: ServerAdapters, subject: IntentSubject) -> Response:
    """Return the instances of an intent with their events."""
    intents = adapters.operator.of(ZooKeeperIntents)
    instances = intent_history(subject, intents.record(subject), intents.former(subject))
    body = {"subject": subject_text(subject), "instances": [instance.to_json() for instance in instances]}
    return JSONResponse(body)


def add_intent(
    adapters: ServerAdapters, user: User, intent: Intent, reason: str, *, adopt: bool
) -> CommitReference:
    """Add the document of an intent, which is Created, or adopts deployed services unchanged."""
    if not adopt:
        return refer_to(requests.create(adapters, user, intent, reason))
    act = AdoptServices(subject=intent.subject, new=intent, reason=reason)
    return refer_to(act.perform(adapters, Actor.of_user(adapters, user)))


def replace_document(
    adapters: ServerAdapters,
    user: User,
    document: GroupDocument | ClusterDocument,
    names: dict[str, str],
    reason: str,
    response: Response,
) -> CommitReference:
    """Change the document of the intent that ``names`` identify."""
    intent = requested_intent(document, names)
    check_same_state(document, record_of(adapters.feed, intent.subject))
    return refer_to(requests.replace_document(adapters, user, intent, reason), response)
