"""Why a host is behind: the verb, the API and the page present one explanation, for random states of a fleet."""

from __future__ import annotations

import html
import json
import random
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from support.service import running_service
from support.waiting import wait_until
from support.zookeeper import write_node
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Marker
from zkdeployment.base.publication import LeftService
from zkdeployment.base.stop import FailureOutput, Stop
from zkdeployment.cli.verbs.why import command
from zkdeployment.publishing.store.cluster import write_output
from zkdeployment.publishing.store.hosts import write_inventory
from zkdeployment.publishing.targets.compiler import withheld_to_json
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode, pack
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    import httpx
    from kazoo.client import KazooClient

    from support.service import RunningService

DAY = 86400.0
H1 = Identity("h1", "h1.example.com", "web")
SERVICES = [("/shop/a", "web"), ("/shop/b", "web"), ("/shop/b", "h2"), ("/shop/c", "h1.example.com")]


def write(client: KazooClient, path: str, data: bytes) -> None:
    client.ensure_path(path)
    client.set(path, data)


def write_fleet(zookeeper: str, client: KazooClient, seed: int) -> None:
    """Write a random state of a fleet in which the host h1 has something to explain."""
    chance, now = random.Random(seed), time.time()
    revision = chance.choice(["r1", "r2", None, False])
    write(client, "/hosts", encode({"version": revision}))
    write(client, paths.TARGETS, encode({"version": "r2", "sequence": 7, "since": 7, "ordered": "r2"}))
    for host in ("h1", "h2"):
        if client.exists(f"/hosts/{host}"):
            client.delete(f"/hosts/{host}")
    error = chance.choice([None, "deploy /shop/a 0 failed: exit status 1"])
    host = {"name": H1.name, "role": H1.role, "version": chance.choice(["r1", "r2"]), "error": error}
    work = chance.choice([{}, {"deploying": "r2", "step": "deploy /shop/a 0", "steps": [1, 3]}])
    if chance.random() < 0.8:
        present = {name: value for name, value in (host | work).items() if value is not None}
        write_node(client, "/hosts/h1", present, ephemeral=True)
    markers = tuple(
        Marker(Deployment("/shop/a", n), "foo", "foo", sequence=chance.choice([3, 7]), properties="d")
        for n in range(chance.randint(0, 3))
    )
    withheld = [pair for pair in SERVICES if chance.random() < 0.5]
    left = [LeftService(path, None, ("ams", "web"), "r1") for path, _ in withheld if chance.random() < 0.5]
    write(client, paths.WITHHELD, pack(withheld_to_json(withheld)))
    write(client, paths.LEFT, pack({"services": [each.to_json() for each in left]}))
    stop = Stop("h1", H1.name, "r2", "deploy /shop/a 0", "exit status 1", now - 3 * DAY)
    write(client, f"{paths.STOPS}/h1", encode(stop.to_json()))
    if chance.random() < 0.3:
        client.delete(f"{paths.STOPS}/h1")
    with Session(zookeeper) as session:
        write_inventory(session, KnownHost(H1, Inventory(markers=markers), now - 3 * DAY, completed=7))
        write_output(session, FailureOutput("h1", "r2", "deploy /shop/a 0", now - 3 * DAY, "no <disk> left"))


def steady(value: Any) -> Any:
    """Return a JSON value without the seconds that pass between two questions."""
    return json.loads(re.sub(r"\d+ s\b", "some s", json.dumps(value)))


@pytest.fixture
def service(zookeeper: str, client: KazooClient):
    write_fleet(zookeeper, client, 0)
    with running_service(zookeeper) as running:
        wait_until(running.has_read, "the first reading")
        yield running


def shown_texts(page: str) -> str:
    return steady(re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page))))


def is_shown(fact: str, page: str) -> bool:
    """Return whether a page has a fact, or lists the withheld service of the fact in the section of those."""
    withheld = re.match(r"(/\S+) is not deployed to ", fact)
    return fact in page or (withheld is not None and f"{withheld[1]} is withheld" in page)


def test_the_verb_the_api_and_the_page_explain_a_host_alike(
    service: RunningService, zookeeper: str, client: KazooClient
):
    login, seen = service.add_user(Role.VIEWER), set()
    with service.browser(login) as browser:
        for seed in range(12):
            write_fleet(zookeeper, client, seed)
            asked = CliRunner().invoke(command, ["h1", "-o", "json", "-z", zookeeper], catch_exceptions=False)
            printed = steady(json.loads(asked.stdout))
            answer: list[httpx.Response] = []

            def answers_alike(expected: object = printed, answer: list[httpx.Response] = answer) -> bool:
                answer[:] = [browser.get("/api/v1/hosts/h1/why", auth=login)]
                return bool(steady(answer[0].json()) == expected)

            wait_until(answers_alike, f"the API explains as the verb: {printed}, seed {seed}")
            text = shown_texts(browser.get("/hosts/h1").text)
            output = [] if printed["output"] is None else [printed["output"]["output"]]
            missing = [
                part for part in (printed["answer"], *printed["facts"], *output) if not is_shown(part, text)
            ]
            assert missing == [], f"the page lacks a part of the explanation, seed {seed}"
            seen |= {printed["cause"], *(fact.split()[0] for fact in printed["facts"])}
    assert seen >= {"converged", "failed", "absent", "unchanged,", "/shop/a"}, "the states are diverse"
