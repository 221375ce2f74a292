from zkdeployment.fleet.events.event import connection_event


def test_the_connection_event_has_the_age_of_the_data():
    assert connection_event(connected=False, read_at=9.5).to_json() == {
        "id": "zookeeper",
        "connected": False,
        "read_at": 9.5,
    }
