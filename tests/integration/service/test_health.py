from kazoo.client import KazooClient

from support.proxy import Proxy
from support.service import running_service
from support.waiting import wait_until
from support.web.forms import submit
from support.zookeeper import through, write_node
from zkdeployment.service.users.user import Role


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


def test_a_page_that_could_not_be_shown_is_tried_again_and_an_act_is_not(
    zookeeper: str, client: KazooClient, proxy: Proxy
):
    write_node(client, "/hosts", {"version": "r1"})
    with (
        running_service(through(proxy, zookeeper)) as service,
        service.browser(service.add_user(Role.OPERATOR, "ann")) as browser,
    ):
        wait_until(lambda: "Stop the fleet</button>" in browser.get("/acts/stop").text, "the form")
        form = browser.get("/acts/stop")
        proxy.cut()
        wait_until(lambda: service.client.get("/healthz").status_code == 503, "the service to notice")
        act, page = submit(browser, form, "Stop the fleet"), browser.get("/history/1")
    assert (act.status_code, page.status_code) == (503, 503)
    assert "Your act is not tried again." in act.text
    assert 'http-equiv="refresh"' not in act.text
    assert "This page tries again every five seconds." in page.text
