"""``/v2/cluster-providers/…/clusters``: network intents of clusters, acts on them, and their status."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from zkdeployment.intents import requests
from zkdeployment.intents.api.answers import (
    CLUSTER_NAMES,
    AdoptParameter,
    StatusParameters,
    SubjectName,
    add_intent,
    check_new_state,
    list_documents,
    replace_document,
    requested_intent,
    show_document,
    show_history,
    show_status,
)
from zkdeployment.intents.documents.values import IntentSubject
from zkdeployment.intents.models import (
    HISTORY,
    INSTANCES,
    ClusterDocument,
    IntentStatusBody,
)
from zkdeployment.intents.user_acts import AdoptServices, ApplyIntent, TerminateIntent
from zkdeployment.service.access.rights import Operator, Reader
from zkdeployment.service.act_routes import add_operation, address_field
from zkdeployment.service.acts import UNCHANGED, CommitReference
from zkdeployment.service.api.commits import ReasonParameter, refer_to
from zkdeployment.service.dependencies import Adapters, ConnectedAdapters
from zkdeployment.service.error_responses import ERRORS

router = APIRouter(prefix="/v2/cluster-providers/{provider}/clusters", tags=["intents"], responses=ERRORS)


def _cluster(provider: SubjectName, name: SubjectName) -> IntentSubject:
    return provider, name


@router.get("", response_model=list[ClusterDocument])
def list_clusters(adapters: Adapters, _user: Reader, provider: SubjectName) -> Response:
    """Return the published documents of all clusters of a provider."""
    return list_documents(adapters, (provider,), CLUSTER_NAMES)


@router.post("", status_code=202)
def create_cluster(
    adapters: ConnectedAdapters,
    user: Operator,
    provider: SubjectName,
    document: ClusterDocument,
    reason: ReasonParameter = "",
    adopt: AdoptParameter = False,  # noqa: FBT002  a parameter of the address
) -> CommitReference:
    """Add a cluster, whose name is in its metadata; it is Created, or adopts deployed services unchanged."""
    check_new_state(document)
    intent = requested_intent(document, {"provider": provider})
    return add_intent(adapters, user, intent, reason, adopt=adopt)


@router.get("/{name}", response_model=ClusterDocument)
def read_cluster(
    adapters: Adapters, _user: Reader, cluster: Annotated[IntentSubject, Depends(_cluster)]
) -> Response:
    """Return the published document of a cluster."""
    return show_document(adapters, cluster)


@router.put("/{name}", status_code=202, responses=UNCHANGED)
def replace_cluster(
    adapters: ConnectedAdapters,
    user: Operator,
    cluster: Annotated[IntentSubject, Depends(_cluster)],
    document: ClusterDocument,
    response: Response,
    reason: ReasonParameter = "",
) -> CommitReference:
    """Change the network intents of a cluster that is not applied."""
    names = dict(zip(("provider", "name"), cluster, strict=True))
    return replace_document(adapters, user, document, names, reason, response)


@router.delete("/{name}", status_code=202)
def remove_cluster(
    adapters: ConnectedAdapters,
    user: Operator,
    cluster: Annotated[IntentSubject, Depends(_cluster)],
    reason: ReasonParameter = "",
) -> CommitReference:
    """Remove a cluster of which nothing is deployed."""
    return refer_to(requests.remove(adapters, user, cluster, reason))


_SUBJECT = address_field("subject", Annotated[IntentSubject, Depends(_cluster)])

add_operation(
    router,
    "/{name}/adopt",
    AdoptServices,
    _SUBJECT,
    name="adopt_cluster",
    description="Put deployed services under a cluster whose document the branch has, without a change on hosts.",
)
add_operation(router, "/{name}/apply", ApplyIntent, _SUBJECT)
add_operation(
    router,
    "/{name}/terminate",
    TerminateIntent,
    _SUBJECT,
    name="terminate_cluster",
    description="Undeploy the network intents of an applied cluster.",
)


@router.get("/{name}/history", response_model=HISTORY)
def read_cluster_history(
    adapters: ConnectedAdapters, _user: Reader, cluster: Annotated[IntentSubject, Depends(_cluster)]
) -> Response:
    """Return who began and ended each instance, also after the removal of the cluster."""
    return show_history(adapters, cluster)


@router.get("/{name}/status", response_model=IntentStatusBody | INSTANCES)
def read_cluster_status(
    adapters: Adapters,
    _user: Reader,
    cluster: Annotated[IntentSubject, Depends(_cluster)],
    parameters: StatusParameters,
) -> Response:
    """Return the status of a cluster, whose apps are its network intents; the filters are those of groups."""
    return show_status(adapters, cluster, parameters)
