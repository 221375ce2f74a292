"""Prometheus finds the instances of services: from the service, and from a file."""

import json
import os

import httpx
import pytest
import yaml

from support.commands import invoke
from support.forks import ForkedProgram
from support.manual import MANUAL, commands
from support.prometheus import metrics_server, running_prometheus
from support.waiting import wait_until
from zkdeployment.base.act import Act
from zkdeployment.providers.instance import Provider
from zkdeployment.sandbox.zookeeper import free_port
from zkdeployment.service.users.user import NewUser, Role
from zkdeployment.service.users.user_store import open_users
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.servers import Servers
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Create, Delete

WEB, DB = "/shop/web", "/shop/db"
PATH = "/api/v1/discovery/prometheus"


@pytest.fixture
def shop(zookeeper, client):
    """Yield the session that registers instances of two services, one of them a service of the tree."""
    for path, properties in ((f"{WEB}/providers", {}), (f"{DB}/providers", {}), (f"{WEB}/deploy", {})):
        client.create(path, encode(properties), makepath=True)
    client.set(WEB, encode({"type": "web"}))
    with Session(zookeeper) as session:
        session.ensure("/hosts")
        session.commit(Create("/hosts/h1", encode({"name": "app1", "role": "web"}), ephemeral=True))
        yield session


def register(session, service, address, **properties):
    Provider(session, f"{service}/providers", address).register(properties)


def test_instances_are_targets_until_they_end(service, shop):
    viewer = service.add_user(Role.VIEWER)

    def ask(query, **headers):
        return service.client.get(f"{PATH}?{query}", auth=viewer, headers=headers)

    assert ask(f"service={WEB}").json() == []
    register(shop, WEB, "app1:8080", version="1.4", host="h1", metrics=9100)
    register(shop, WEB, "app2:8080", version="1.5", host="gone")
    register(shop, DB, "app3:5432")
    wait_until(lambda: len(ask(f"service={WEB}&service={DB}").json()) == 3, "three targets")
    first, second, third = ask(f"service={WEB}&service={DB}&service={WEB}").json()
    assert first == {
        "targets": ["app1:8080"],
        "labels": {
            "__meta_zkdeployment_service": WEB,
            "__meta_zkdeployment_instance": "app1:8080",
            "__meta_zkdeployment_revision": "1.4",
            "__meta_zkdeployment_host": "h1",
            "__meta_zkdeployment_role": "web",
        },
    }
    assert "__meta_zkdeployment_role" not in second["labels"]
    assert (third["targets"], third["labels"]["__meta_zkdeployment_service"]) == (["app3:5432"], DB)
    assert ask(f"service={WEB}/providers").json() == [first, second]
    ported = ask(f"service={WEB}&port=metrics")
    assert [group["targets"] for group in ported.json()] == [["app1:9100"]]
    assert ported.headers["Content-Type"] == "application/json"
    again = ask(f"service={WEB}&port=metrics", **{"If-None-Match": ported.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    shop.commit(Delete(f"{WEB}/providers/app1:8080"))
    wait_until(lambda: ask(f"service={WEB}&port=metrics").json() == [], "no target")
    assert ask(f"service={WEB}&port=metrics").headers["ETag"] != ported.headers["ETag"]


def test_the_configuration_chooses_properties_as_labels_for_the_service_and_for_files(shop, zookeeper, config):
    port = free_port()
    with config.open("a") as file:
        file.write("[discovery]\nlabels = zone=zone\nmetrics-path = path\nscheme = scheme\n")
        file.write(f"[server]\nlisten = 127.0.0.1:{port}\n")
    register(shop, WEB, "app1:8080", zone="a", path="/stats", scheme="https")
    done = invoke("providers", "--config", str(config), WEB, "--format", "prometheus")
    labels = {
        "__meta_zkdeployment_service": WEB,
        "__meta_zkdeployment_instance": "app1:8080",
        "__meta_zkdeployment_label_zone": "a",
        "__metrics_path__": "/stats",
        "__scheme__": "https",
    }
    written = json.loads(done.stdout)
    assert written == [{"targets": ["app1:8080"], "labels": labels}]
    with open_users(Servers(zookeeper), ()) as users:
        key = users.add(NewUser(name="prometheus", role=Role.VIEWER), Act("tests", "user", "", 0.0)).key
    service = ForkedProgram(["serve", str(config)])

    def answer():
        try:
            found = httpx.get(
                f"http://127.0.0.1:{port}{PATH}?service={WEB}", auth=("prometheus", key), timeout=None
            )
        except httpx.TransportError:
            return None
        return found.json() if found.status_code == 200 else None

    try:
        wait_until(lambda: answer() == written, "the answer of the service")
    finally:
        service.terminate()
        service.wait()


def test_services_that_do_not_exist_have_no_targets_and_invalid_paths_are_refused(service):
    viewer = service.add_user(Role.VIEWER)
    assert service.client.get(f"{PATH}?service=/shop/missing", auth=viewer).json() == []
    for query in ("", "service=", "service=shop", "service=/shop/", "service=/"):
        assert service.client.get(f"{PATH}?{query}", auth=viewer).status_code == 422
    assert service.client.get(f"{PATH}?service={WEB}").status_code == 401


def test_the_last_targets_are_the_answer_while_zookeeper_is_away(service, shop):
    viewer = service.add_user(Role.VIEWER)
    register(shop, WEB, "app1:8080")
    known = service.client.get(f"{PATH}?service={WEB}", auth=viewer)
    assert len(known.json()) == 1
    service.adapters.feed.close()
    assert service.client.get(f"{PATH}?service={WEB}", auth=viewer).json() == known.json()
    assert service.client.get(f"{PATH}?service={DB}", auth=viewer).status_code == 503


def test_prometheus_finds_instances_loses_them_and_survives_an_empty_list(service, shop, tmp_path, zookeeper):
    """The configuration and the command of the manual, with the places of this test."""
    name, key = service.add_user(Role.VIEWER, "prometheus")
    (tmp_path / "key").write_text(key)
    targets = tmp_path / "targets"
    targets.mkdir()
    shown = (MANUAL / "examples" / "discovery" / "prometheus.yml").read_text()
    for place, used in {
        "https://deploy.example.com": service.url,
        "/etc/prometheus/zkdeployment.key": str(tmp_path / "key"),
        "/etc/prometheus/targets": str(targets),
        "refresh_interval: 30s": "refresh_interval: 1s",
    }.items():
        assert place in shown
        shown = shown.replace(place, used)
    settings = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, **yaml.safe_load(shown)}
    (command,) = (
        found.text
        for found in commands("discovery")
        if "--watch" in found.text and "/targets/web.json" in found.text
    )
    argv = command.replace("/etc/prometheus/targets", str(targets)).split()[1:]
    writer = ForkedProgram([*argv, "-z", zookeeper], os.environ | {"ZKDEPLOYMENT_CONFIG": ""})
    try:
        with metrics_server() as port, running_prometheus(tmp_path, settings) as prometheus:
            address = f"127.0.0.1:{port}"
            labels = {"service": WEB, "instance": address, "host": "h1", "role": "web", "revision": "1.4"}
            wait_until((targets / "web.json").exists, "the file of an empty list")
            assert json.loads((targets / "web.json").read_text()) == []
            for has_more in (True, False):
                register(shop, WEB, address, version="1.4", host="h1")
                # A slow scrape makes a target unhealthy for a moment.
                for job in ("shop", "files"):
                    wait_until(
                        lambda job=job: prometheus.targets(job) == {address: {"job": job, **labels}},
                        f"a target of {job}",
                    )
                wait_until(lambda: jobs_with_samples(prometheus) == {"shop", "files"}, "the samples of both jobs")
                if not has_more:
                    break
                shop.commit(Delete(f"{WEB}/providers/{address}"))
                for job in ("shop", "files"):
                    wait_until(lambda job=job: prometheus.targets(job) == {}, f"no target of {job}")
    finally:
        writer.terminate()
        writer.wait()
    assert name == "prometheus"


def jobs_with_samples(prometheus):
    found = prometheus.get("query", query='answers{service="/shop/web"}')["result"]
    return {sample["metric"]["job"] for sample in found}


def test_one_bad_instance_and_a_service_without_a_list_do_not_end_the_verb(shop, client, zookeeper, tmp_path):
    file, errors = tmp_path / "api.json", tmp_path / "errors"
    client.create("/shop/api/deploy", makepath=True)
    client.set("/shop/api", encode({"type": "web"}))
    argv = ["providers", "-z", zookeeper, "/shop/api", "--format", "prometheus", "--file", str(file), "--watch"]
    with errors.open("w") as output:
        writer = ForkedProgram(argv, output=output)
    try:
        wait_until(lambda: "/shop/api is a service" in errors.read_text(), "the problem")
        client.create("/shop/api/providers")
        register(shop, "/shop/api", "app1:80", host="..")
        register(shop, "/shop/api", "app2:80", host="h1")
        wait_until(lambda: file.exists() and len(json.loads(file.read_text())) == 2, "both targets")
    finally:
        writer.terminate()
        writer.wait()


def test_the_verb_prints_targets_once_and_names_what_is_left_out(shop, zookeeper, tmp_path):
    register(shop, WEB, "app1:8080", metrics=9100, host="h1", version="1.4")
    register(shop, WEB, "app2:8080")
    done = invoke("providers", "-z", zookeeper, WEB, "--format", "prometheus", "--port", "metrics")
    assert [group["targets"] for group in json.loads(done.stdout)] == [["app1:9100"]]
    assert done.stderr == (
        "instance app2:8080 of /shop/web is no target: expected the property metrics with a port, found none\n"
    )
    file = tmp_path / "web.json"
    assert (
        invoke(
            "providers", "-z", zookeeper, f"{WEB}/providers", "--format", "prometheus", "--file", str(file)
        ).stdout
        == ""
    )
    assert [group["targets"] for group in json.loads(file.read_text())] == [["app1:8080"], ["app2:8080"]]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--port", "metrics"], "add --format prometheus"),
        (["--format", "prometheus", "-o", "json"], "expected --format without -o"),
        (["--format", "prometheus", "--watch"], "with --file if there is --watch"),
        (["--format", "prometheus", "--file", "targets.txt"], "expected a name that ends with .json"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, problem, zookeeper):
    done = invoke("providers", "-z", zookeeper, WEB, *options)
    assert done.returncode == 2
    assert problem in done.stderr


@pytest.mark.usefixtures("shop")
def test_a_file_that_cannot_be_written_is_an_error(zookeeper, tmp_path):
    file = tmp_path / "missing" / "web.json"
    done = invoke("providers", "-z", zookeeper, WEB, "--format", "prometheus", "--file", str(file))
    assert f"cannot write {file}: No such file or directory; make its directory writable" in done.stderr
    assert invoke("providers", "-z", zookeeper, "/shop/missing", "--format", "prometheus").returncode != 0
