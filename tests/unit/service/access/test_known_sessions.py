from support.builders import make_user
from zkdeployment.service.access.identity import KnownSessions
from zkdeployment.service.users.user import Role

ANN = make_user("ann", Role.VIEWER)


def test_a_session_is_known_for_an_hour_after_it_was_confirmed():
    sessions = KnownSessions()
    sessions.remember("token", ANN, 100.0)
    assert sessions.find("token", 3699.0) == ANN
    assert sessions.find("token", 3701.0) is None
    assert sessions.find("another", 100.0) is None


def test_an_ended_session_is_forgotten():
    sessions = KnownSessions()
    sessions.remember("token", ANN, 100.0)
    sessions.remember("token", None, 101.0)
    assert sessions.find("token", 101.0) is None


def test_only_the_latest_thousand_sessions_are_kept():
    sessions = KnownSessions()
    for number in range(1001):
        sessions.remember(str(number), ANN, 0.0)
    assert sessions.find("0", 0.0) is None
    assert sessions.find("1000", 0.0) == ANN
