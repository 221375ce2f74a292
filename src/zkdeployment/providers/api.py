"""``/api/v1/discovery/prometheus``: the registered instances of services, for the discovery of Prometheus."""

import hashlib
import json
import threading
from collections import OrderedDict
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from zkdeployment.base.errors import ConfigurationError, LinkError, UnreachableError
from zkdeployment.base.log import get_logger
from zkdeployment.fleet.feed.feed import ZooKeeperFeed
from zkdeployment.providers.discovery import Discovery, TargetGroup
from zkdeployment.providers.reader import ZooKeeperProviderReader
from zkdeployment.providers.settings import DiscoverySettings
from zkdeployment.service.access.identity import Reader
from zkdeployment.service.dependencies import Adapters
from zkdeployment.service.responses import ERRORS, body_of

#: The queries whose last answers are kept.
_REMEMBERED = 1000


class RememberedTargets:
    """The last targets of each query, for the time in which ZooKeeper is away. Any thread may call the methods."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[object, Discovery] = OrderedDict()

    def of_service(
        self, feed: ZooKeeperFeed, path: str, port: str | None, settings: DiscoverySettings
    ) -> Discovery:
        """Return the targets of a service; while ZooKeeper is unreachable, its last targets.

        Problems are logged when they change. Raises ``UnreachableError`` if the targets were never read.
        """
        query = ("discovery", path, port)
        with self._lock:
            last = self._known.get(query)
        try:
            found = feed.read(query, lambda _: _read(feed, path, port, settings))
        except UnreachableError:
            if last is None:
                raise
            return last
        if found.problems and (last is None or last.problems != found.problems):
            get_logger().warning("targets-omitted", problems=len(found.problems), reason=found.problems[0])
        with self._lock:
            self._known[query] = found
            self._known.move_to_end(query)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found


def _read(feed: ZooKeeperFeed, path: str, port: str | None, settings: DiscoverySettings) -> Discovery:
    """Read the targets of a service; a service that does not exist has none."""
    try:
        return feed.of_session(ZooKeeperProviderReader).discover(path, port, settings)
    except (ConfigurationError, LinkError) as error:
        return Discovery(problems=(f"{path} has no targets: {error}",))


router = APIRouter(
    prefix="/api/v1/discovery", tags=["fleet"], responses={code: ERRORS[code] for code in (422, 503)}
)

ServiceQuery = Annotated[str, Query(max_length=1000, pattern=r"^(/[^/]+)+$")]


@router.get(
    "/prometheus",
    response_model=list[body_of(TargetGroup)],  # type: ignore[misc]
    responses={304: {"description": "Nothing has changed."}},
)
def list_prometheus_targets(
    request: Request,
    _user: Reader,
    adapters: Adapters,
    service: Annotated[
        list[ServiceQuery],
        Query(min_length=1, max_length=100, description="The path of a service. Repeat it for more services."),
    ],
    port: Annotated[
        str | None,
        Query(
            max_length=100,
            description="The property of instances with the port of their metrics; by default the port of their"
            " address.",
        ),
    ] = None,
) -> Response:
    """Return the registered instances of services for the HTTP service discovery of Prometheus.

    A service that does not exist, or that has no instances, has no targets. An instance without a port is
    omitted. While ZooKeeper is away, the answer is the last one. With `If-None-Match`, an unchanged answer is not
    sent again.
    """
    targets: RememberedTargets = request.app.state.remembered_targets
    settings = DiscoverySettings() if adapters.settings is None else adapters.settings.require(DiscoverySettings)
    found = [targets.of_service(adapters.feed, path, port, settings) for path in dict.fromkeys(service)]
    body = json.dumps([group.to_json() for discovery in found for group in discovery.groups]).encode()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if request.headers.get("If-None-Match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


ROUTERS = (router,)


def service_state() -> dict[str, RememberedTargets]:
    """Return the targets that the service remembers for these operations."""
    return {"remembered_targets": RememberedTargets()}
