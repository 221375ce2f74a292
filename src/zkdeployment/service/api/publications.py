"""``GET /api/v1/history``, ``rollout``, ``plan`` and ``tree``: what was, is and would be published."""

import time
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from zkdeployment.base.errors import NotFoundError
from zkdeployment.base.json_values import with_schema
from zkdeployment.base.names import RESERVED, NameKind, is_name
from zkdeployment.fleet.views.history import publication_body
from zkdeployment.service.access.rights import Reader
from zkdeployment.service.dependencies import Adapters, ConnectedAdapters
from zkdeployment.service.error_responses import ERRORS
from zkdeployment.service.models.publications import HistoryBody, PlanBody, PublicationBody, RolloutBody
from zkdeployment.service.planner import planner_of
from zkdeployment.strategies.views import rollout_status

router = APIRouter(prefix="/api/v1", tags=["publications"], responses={503: ERRORS[503]})

_MISSING: dict[int | str, dict[str, object]] = {404: ERRORS[404]}

#: The most publications that the history keeps.
_MOST = 500

#: No sequence has more digits: it follows the time.
_LARGEST = 2**53


@router.get("/history", response_model=HistoryBody)
def read_history(user: Reader, adapters: Adapters, last: Annotated[int, Query(ge=1, le=_MOST)] = 20) -> Response:
    """Return the last publications, the newest first."""
    del user
    records = adapters.feed.history(last)
    return JSONResponse(with_schema("history", {"publications": [record.summary() for record in records]}))


@router.get("/history/{sequence}", response_model=PublicationBody, responses=_MISSING)
def read_publication(
    sequence: Annotated[int, Path(ge=0, lt=_LARGEST)], user: Reader, adapters: Adapters
) -> Response:
    """Return one publication: the result on each host, its rollouts, and the acts of operators."""
    del user
    feed = adapters.feed
    records = feed.publication(sequence)
    record = next((record for record in records if record.sequence == sequence), None)
    if record is None:
        raise NotFoundError(f"the history has no publication with the sequence {sequence}")
    rollouts = feed.rollouts(sequence)
    body = publication_body(record, records, feed.acts(), rollouts, now=time.time())
    return JSONResponse(with_schema("publication", body))


@router.get("/rollout", response_model=RolloutBody, responses=_MISSING)
def read_rollout(user: Reader, adapters: Adapters) -> Response:
    """Return the rollout of the published revision."""
    del user
    fleet = adapters.feed.snapshot().fleet
    if fleet.rollout is None:
        reason = (
            "no strategy is published" if fleet.strategy is None else f"that by {fleet.strategy} has not begun"
        )
        raise NotFoundError(f"there is no rollout: {reason}")
    status = rollout_status(
        fleet.rollout,
        led=fleet.coordinator is not None,
        now=time.time(),
        governed=fleet.governed,
        known=fleet.facts,
    )
    return JSONResponse(with_schema("rollout", status.to_json()))


@router.get("/plan", response_model=PlanBody, responses={404: ERRORS[404], 409: ERRORS[409]})
def read_plan(
    request: Request,
    user: Reader,
    adapters: ConnectedAdapters,
    revision: Annotated[
        str | None, Query(max_length=250, description="A branch or a whole commit id; else the branch's tip.")
    ] = None,
) -> Response:
    """Return what every host would do if a revision of the repository were published.

    A tree with errors is answered by 422 with all problems. Only a few plans are made at a time: after 503 the
    client tries again.
    """
    del user
    return JSONResponse(with_schema("plan", planner_of(request).plan(adapters, revision).to_json()))


@router.get("/tree", responses=_MISSING)
def read_whole_tree(user: Reader, adapters: Adapters) -> dict[str, dict[str, Any]]:
    """Return the whole live tree: path to properties, with links unresolved."""
    del user
    return _subtree(adapters, "")


@router.get("/tree/{path:path}", responses=_MISSING)
def read_tree(path: str, user: Reader, adapters: Adapters) -> dict[str, dict[str, Any]]:
    """Return a node of the live tree and all nodes below it: path to properties, with links unresolved."""
    del user
    return _subtree(adapters, path)


def _subtree(adapters: Adapters, path: str) -> dict[str, dict[str, Any]]:
    names = [name for name in path.split("/") if name]
    above = "/".join(["", *names])
    is_tree = all(is_name(NameKind.NODE, name) for name in names) and names[:1] != [
        *RESERVED.intersection(names[:1])
    ]
    nodes = adapters.feed.subtree(above) if is_tree or not names else None
    if nodes is None:
        raise NotFoundError(f"the tree has no node {above}")
    return {name: dict(nodes[name]) for name in sorted(nodes)}
