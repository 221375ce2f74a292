"""The event stream of a real service on a real ZooKeeper."""

import pytest
from kazoo.client import KazooClient

from support.event_stream import EventClient
from support.proxy import Proxy
from support.service import RunningService, running_service
from support.waiting import wait_until
from support.zookeeper import through, write_node
from zkdeployment.base.act import Act
from zkdeployment.service.streams import event_stream
from zkdeployment.service.users.user import Role

ACT = Act("tests", "user", "a test", 0.0)


@pytest.fixture
def fleet_nodes(client: KazooClient) -> KazooClient:
    write_node(client, "/hosts", {"version": "r1"})
    write_node(client, "/hosts/h1", {"name": "h1.example", "version": "r1"})
    write_node(client, "/zkdeployment/targets", {"version": "r1", "sequence": 7, "ordered": "r1"})
    return client


def read_once(service: RunningService) -> None:
    """Wait until the service has read the fleet."""
    wait_until(lambda: _is_read(service), "the first reading")


def _is_read(service: RunningService) -> bool:
    return service.adapters.feed.recent_events().last > 0


def test_changes_are_sent_as_events_with_ids(zookeeper: str, fleet_nodes: KazooClient):
    with running_service(zookeeper) as service:
        read_once(service)
        with EventClient(service.url, service.add_user(Role.VIEWER)) as stream:
            hello = stream.wait_for("feed")
            write_node(fleet_nodes, "/hosts/h1", {"name": "h1.example", "version": "r0", "error": "a\nb <script>"})
            host = stream.wait_for("host", id="h1")
            write_node(fleet_nodes, "/hosts", {"version": None})
            stream.wait_for("stop", id="stopped")
            stream.wait_for("publication", cluster="stopped")
    assert stream.status == 200
    assert stream.headers["Content-Type"].startswith("text/event-stream")
    assert stream.headers["Cache-Control"] == "no-store"
    assert hello.data["connected"] is True
    assert (host.data["state"], host.data["error"]) == ("failed", "a\nb <script>")
    assert int(stream.last_id or 0) > 0


def test_only_the_wanted_kinds_are_sent(zookeeper: str, fleet_nodes: KazooClient):
    with running_service(zookeeper) as service:
        read_once(service)
        with EventClient(service.url, service.add_user(Role.VIEWER), query="?kinds=stop&kinds=rollout") as stream:
            stream.wait_for("feed")
            write_node(fleet_nodes, "/hosts/h1", {"version": "r0"})
            write_node(fleet_nodes, "/hosts", {"version": False})
            stream.wait_for("stop", id="held")
    assert {event.kind for event in stream.events} == {"feed", "stop"}


def test_a_client_resumes_at_a_second_service_without_losing_an_event(zookeeper: str, fleet_nodes: KazooClient):
    with running_service(zookeeper) as first, running_service(zookeeper) as second:
        read_once(first)
        read_once(second)
        login = first.add_user(Role.VIEWER)
        with EventClient(first.url, login) as stream:
            stream.wait_for("feed")
            write_node(fleet_nodes, "/hosts/h1", {"version": "r2"})
            stream.wait_for("host", id="h1")
        write_node(fleet_nodes, "/hosts/h2", {"version": "r2"})
        write_node(fleet_nodes, "/hosts/h3", {"version": "r2"})
        with EventClient(second.url, login, resume=stream.last_id) as resumed:
            resumed.wait_for("host", id="h2")
            resumed.wait_for("host", id="h3")
        assert "reset" not in {event.kind for event in resumed.events}
        for unknown in ("1", "-5", "nonsense", "9" * 30):
            with EventClient(second.url, login, query=f"?after={unknown}") as late:
                late.wait_for("feed")
                if unknown != "9" * 30:  # an id ahead of this service may still be reached
                    late.wait_for("reset")


def test_an_id_of_another_ensemble_is_reset_at_the_first_heartbeat(
    zookeeper: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(event_stream, "HEARTBEAT", 0.5)
    with running_service(zookeeper) as service:
        read_once(service)
        with EventClient(service.url, service.add_user(Role.VIEWER), resume="9" * 18) as stream:
            stream.wait_for("reset")
            wait_until(lambda: stream.comments, "a heartbeat")
    assert int(stream.last_id or 0) < 10**17


def test_a_lost_connection_to_zookeeper_and_its_recovery_are_events(
    zookeeper: str, fleet_nodes: KazooClient, proxy: Proxy
):
    with running_service(through(proxy, zookeeper)) as service:
        read_once(service)
        with EventClient(service.url, service.add_user(Role.VIEWER)) as stream:
            stream.wait_for("feed", connected=True)
            proxy.cut()
            away = stream.wait_for("feed", connected=False)
            write_node(fleet_nodes, "/hosts/h1", {"version": "r9"})
            proxy.heal()
            stream.wait_for("host", id="h1")
            back = stream.wait_for("feed", after=away, connected=True)
    assert away.data["read_at"] < back.data["read_at"]


def test_streams_end_when_the_user_leaves_and_when_the_service_ends(zookeeper: str):
    with running_service(zookeeper) as service:
        read_once(service)
        users = service.adapters.users
        retired, other, stays = (service.add_user(Role.VIEWER, name) for name in ("retired", "other", "stays"))
        login = service.add_user(Role.VIEWER, "person")
        with (
            EventClient(service.url, retired) as first,
            EventClient(service.url, other) as second,
            EventClient(service.url, stays) as third,
            service.browser(login) as browser,
            EventClient(service.url, login, client=browser) as person,
        ):
            for stream in (first, second, third, person):
                stream.wait_for("feed")
            users.retire("retired", ACT)
            users.reset_key("other", ACT)
            users.reset_key("person", ACT)
            for stream in (first, second, person):
                assert stream.ended.wait()
            assert not third.ended.is_set()
            service.adapters.feed.close()
            assert third.ended.wait()


def test_tenants_get_events_of_pools_and_of_their_own_sessions_only(zookeeper: str, fleet_nodes: KazooClient):
    def put_session(number: int, tenant: int) -> None:
        times = {"created_at": 1.0, "expires_at": 2.0}
        session = {"id": number, "tenant": tenant, "specs": [], "nodes": [], "leased": [], **times}
        write_node(fleet_nodes, f"/zkdeployment/pools/sessions/{number}", session)

    with running_service(zookeeper) as service:
        read_once(service)
        login = service.add_user(Role.TENANT)
        tenant = service.adapters.users.user(login[0])
        assert tenant is not None
        with EventClient(service.url, login) as stream:
            stream.wait_for("feed")
            write_node(fleet_nodes, "/hosts/h1", {"version": "r2"})
            put_session(8, tenant.id + 1)
            put_session(9, tenant.id)
            session = stream.wait_for("session", id="9")
        monitoring = service.client.get("/api/v1/events", auth=service.add_user(Role.MONITORING))
        stranger = service.client.get("/api/v1/events")
    assert (session.data["step"], session.data["name"]) == ("begun", "tenant")
    assert {(event.kind, event.data.get("id")) for event in stream.events} <= {
        ("session", "9"),
        ("feed", "zookeeper"),
    }
    assert (monitoring.status_code, stranger.status_code) == (403, 401)
