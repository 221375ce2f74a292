"""Common parts of the operations on groups and clusters: parameters of requests, and the making of responses."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from zkdeployment.documents.intents.values import IntentSubject, subject_text
from zkdeployment.intents.comparison import compare_content
from zkdeployment.intents.history import intent_history
from zkdeployment.intents.life_cycle import IntentAct
from zkdeployment.intents.status_body import status_body
from zkdeployment.intents.status_query import read_query, require_apps
from zkdeployment.model.commits import CommitOutcome
from zkdeployment.model.user import User
from zkdeployment.ports.server import ServerAdapters
from zkdeployment.printable import printable
from zkdeployment.web import intent_acts
from zkdeployment.web.intent_documents import check_same_state, published_document, requested_intent
from zkdeployment.web.models.acts import OptionalReason, ReasonedRequest
from zkdeployment.web.models.intents import ClusterDocument, CommitReference, GroupDocument
from zkdeployment.web.planner import planner_of

#: The number of names that identify a group, and of those that identify a cluster.
GROUP_NAMES = 4
CLUSTER_NAMES = 2

#: A name in an address.
SubjectName = Annotated[str, Path(max_length=500)]

#: The reason of an act whose request has another body, or none.
ReasonParameter = Annotated[OptionalReason, Query()]

#: Whether a new intent adopts the services that it governs.
AdoptParameter = Annotated[bool, Query(description="Whether the intent adopts its deployed services unchanged.")]

#: The response to an act that changes nothing.
UNCHANGED: dict[int | str, dict[str, Any]] = {
    200: {"model": CommitReference, "description": "There was nothing to change."}
}

#: The response with a difference, which is text if the request asks for it.
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
    records = adapters.feed.intents()
    shown = [record for record in records if len(record.intent.subject) == length]
    return JSONResponse(
        [
            published_document(record, intent_acts.counted_approvals(adapters, record))
            for record in shown
            if record.intent.subject[: len(above)] == above
        ]
    )


def show_document(adapters: ServerAdapters, subject: IntentSubject) -> Response:
    """Return the document of an intent."""
    record = intent_acts.find_record(adapters, subject)
    return JSONResponse(published_document(record, intent_acts.counted_approvals(adapters, record)))


def show_status(adapters: ServerAdapters, subject: IntentSubject, parameters: dict[str, list[str]]) -> Response:
    """Return the status of an intent."""
    record = intent_acts.find_record(adapters, subject)
    query = read_query(parameters)
    require_apps(query, record.intent)
    shown = [each for each in record.instances if query.instance in {None, each.id}][-1:]
    reports = intent_acts.read_reports(adapters, *shown)
    clusters = frozenset(
        known for known in adapters.feed.snapshot().reading.intents if len(known) == CLUSTER_NAMES
    )
    return JSONResponse(status_body(record, query, replace(reports, clusters=clusters)))


def show_difference(request: Request, adapters: ServerAdapters, subject: IntentSubject) -> Response:
    """Return what changed in the content of a group since its last approval, as JSON or as text."""
    compared = compare_content(planner_of(request).intent_overview(adapters, subject))
    if not request.headers.get("Accept", "").startswith("text/plain"):
        return JSONResponse(compared.to_json())
    return PlainTextResponse("".join(f"{printable(line)}\n" for line in compared.lines()))


def show_history(adapters: ServerAdapters, subject: IntentSubject) -> Response:
    """Return the instances of an intent with their events."""
    intents = adapters.operator.intents
    instances = intent_history(subject, intents.record(subject), intents.former(subject))
    body = {"subject": subject_text(subject), "instances": [instance.to_json() for instance in instances]}
    return JSONResponse(body)


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
    check_same_state(document, adapters.feed.intent(intent.subject))
    return refer_to(intent_acts.replace_document(adapters, user, intent, reason), response)


def change_state(
    adapters: ServerAdapters, user: User, subject: IntentSubject, act: IntentAct, request: ReasonedRequest | None
) -> CommitReference:
    """Perform an act whose request may have no body."""
    reason = "" if request is None else request.reason
    return refer_to(intent_acts.act_on_intent(adapters, user, subject, act, reason))


def refer_to(outcome: CommitOutcome, response: Response | None = None) -> CommitReference:
    """Return the body of the response to an act, which has the status 200 if there was nothing to change."""
    if response is not None and not outcome.made:
        response.status_code = 200
    return CommitReference(job=outcome.commit or "")
