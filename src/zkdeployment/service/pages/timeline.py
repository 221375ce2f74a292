"""``/history/SEQUENCE/timeline``: where the time of a publication went, as a page and as a picture to keep."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from starlette.exceptions import HTTPException

from zkdeployment.fleet.traces.spans import Trace, is_publication_over, publication_trace
from zkdeployment.fleet.views.history import acts_during
from zkdeployment.service.access.identity import Reader
from zkdeployment.service.dependencies import Adapters, ServerAdapters
from zkdeployment.service.pages.live_page import Known, last_known, render, show_page
from zkdeployment.service.views.frame import publication_page
from zkdeployment.service.views.timeline import TimelineSection, timeline_view

router = APIRouter(include_in_schema=False)

Sequence = Annotated[int, Path(ge=0, lt=2**53)]
Seconds = Annotated[float | None, Query(ge=0, le=10**8, allow_inf_nan=False)]
Group = Annotated[str, Query(max_length=1000)]


def read_section(begin: Seconds = None, end: Seconds = None, group: Group = "") -> TimelineSection:
    """Return the section that the query names: ``begin`` and ``end`` are seconds after the publication."""
    return TimelineSection(begin, end, group)


Section = Annotated[TimelineSection, Depends(read_section)]


@router.get("/history/{sequence}/timeline")
def show_timeline(
    request: Request, adapters: Adapters, user: Reader, sequence: Sequence, section: Section
) -> Response:
    """Return the page with the timeline of a publication."""
    view = timeline_view(_trace(request, adapters, sequence), section, adapters.clock.now())
    return show_page(
        request,
        adapters,
        user,
        "timeline.html",
        events="publication host",
        view=view,
        publication=publication_page(sequence),
    )


@router.get("/history/{sequence}/timeline.svg")
def save_timeline(
    request: Request, adapters: Adapters, user: Reader, sequence: Sequence, section: Section
) -> Response:
    """Return the same picture as a file."""
    del user
    view = timeline_view(_trace(request, adapters, sequence), section, adapters.clock.now())
    text = render("timeline_picture.svg", view=view, standalone=True)
    headers = {"Content-Disposition": f'attachment; filename="timeline-{sequence}.svg"'}
    return Response(text, media_type="image/svg+xml", headers=headers)


def _trace(request: Request, adapters: ServerAdapters, sequence: int) -> Trace:
    """Return the spans of a publication, or the last known ones while ZooKeeper is away."""
    return last_known(request).read_of(Known.TRACE, sequence, lambda: _read_trace(adapters, sequence))


def _read_trace(adapters: ServerAdapters, sequence: int) -> Trace:
    """Read the spans of a publication; raises ``HTTPException`` if the history does not have it."""
    feed = adapters.feed
    records = feed.publication(sequence)
    record = next((record for record in records if record.sequence == sequence), None)
    if record is None:
        raise HTTPException(404, f"the history has no publication {sequence}")
    reading, rollouts = feed.snapshot().reading, feed.rollouts(sequence)
    is_over = is_publication_over(sequence, rollouts, reading.last_over)
    steps, acts = adapters.recorder.steps(sequence), acts_during(records, record, feed.acts())
    names = {identity.id: identity.name for identity in reading.fleet.identities}
    return publication_trace(record, rollouts, steps, acts, is_over=is_over, names=names)
