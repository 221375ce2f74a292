"""Which users see which events."""

import pytest

from support.builders import make_user
from zkdeployment.fleet.events.event import RESET_EVENT, EventKind, FleetEvent, connection_event
from zkdeployment.service.api.events import audience_of
from zkdeployment.service.users.user import Role

OWN = FleetEvent(EventKind.SESSION, "9", {"tenant": 4})
FOREIGN = FleetEvent(EventKind.SESSION, "10", {"tenant": 5})
NODE, HOST = FleetEvent(EventKind.NODE, "1"), FleetEvent(EventKind.HOST, "h1")
EVENTS = (OWN, FOREIGN, NODE, HOST, FleetEvent(EventKind.POOL, "metal"), FleetEvent(EventKind.STOP, "none"))


def user(role, number=4):
    return make_user("x", role, id=number)


@pytest.mark.parametrize(
    ("role", "seen"),
    [
        (Role.ADMIN, EVENTS),
        (Role.OPERATOR, EVENTS[2:]),
        (Role.VIEWER, EVENTS[2:]),
        (Role.TENANT, (OWN, NODE, EVENTS[4])),
        (Role.MONITORING, ()),
    ],
)
def test_tenants_see_their_own_sessions_and_only_admins_those_of_others(role, seen):
    audience = audience_of(user(role))
    assert tuple(event for event in EVENTS if audience.sees(event)) == seen


def test_every_user_sees_the_events_of_the_stream_itself():
    for role in Role:
        assert audience_of(user(role)).sees(RESET_EVENT)
        assert audience_of(user(role)).sees(connection_event(connected=True, read_at=1.0))


def test_tenants_without_own_sessions_in_a_batch_are_one_audience():
    one, other = audience_of(user(Role.TENANT, 4)), audience_of(user(Role.TENANT, 6))
    assert one.of_events((FOREIGN, NODE)) == other.of_events((FOREIGN, NODE))
    assert one.of_events((OWN, NODE)) == one
    assert not any(each.of_events((FOREIGN,)).sees(FOREIGN) for each in (one, other))
