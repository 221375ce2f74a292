"""Documents of intents in requests: the names of the address are filled in, and the form is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.exceptions import HTTPException

from zkdeployment.documents.intents.kinds import approval_value, intent_document, intent_of_document
from zkdeployment.documents.intents.values import ClusterIntents, IntentState, subject_text
from zkdeployment.errors import ConfigurationError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.documents.intents.values import Intent
    from zkdeployment.intents.approval_rules import ApprovalCount
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.web.models.intents import ClusterDocument, GroupDocument


def published_document(record: IntentRecord, counts: Sequence[ApprovalCount] = ()) -> dict[str, Any]:
    """Return the published document of an intent, with the state that the intent has.

    Where rules of approvals are configured, the document also has the ``counts`` of its approvals.
    """
    document = intent_document(record.intent)
    document["data"]["state"] = record.state.value
    if counts:
        document["approvals"] = [count.to_json() for count in counts]
    return document


def intent_summary(record: IntentRecord, counts: Sequence[ApprovalCount] = ()) -> dict[str, Any]:
    """Return an intent as the list of all intents has it."""
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

    ``names`` are those of the address. Raises ``ConfigurationError`` if the document has others; a document of an
    invalid form is answered by 422.
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
