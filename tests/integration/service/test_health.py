from support.proxy import Proxy
from support.service import running_service
from support.waiting import wait_until
from support.zookeeper import through


def test_the_service_is_healthy_while_zookeeper_answers(zookeeper: str, proxy: Proxy):
    with running_service(through(proxy, zookeeper)) as service:
        healthy = service.client.get("/healthz")
        proxy.cut()
        wait_until(lambda: service.client.get("/healthz").status_code == 503, "the service to notice")
        unhealthy = service.client.get("/healthz")
    assert (healthy.status_code, healthy.json()) == (200, {"zookeeper": "reachable"})
    assert unhealthy.headers["Retry-After"] == "5"
    assert "no connection to ZooKeeper" in unhealthy.json()["detail"]


def test_an_unknown_path_is_reported_as_json_below_the_api_and_as_a_page_elsewhere(zookeeper: str):
    with running_service(zookeeper) as service:
        program, person = service.client.get("/api/v1/nothing"), service.client.get("/nothing<script>")
    assert (program.status_code, program.json()) == (404, {"detail": "Not Found"})
    assert person.status_code == 404
    assert person.headers["Content-Type"].startswith("text/html")
    assert "<script>" not in person.text
