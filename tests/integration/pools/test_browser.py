"""The page of pools in a real Chromium: tenants lease nodes, admins look after them, live and without scripts."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from screenshots.pools import DOCUMENT
from support.fleets.written import WrittenFleet
from support.pools.builders import add_ready_nodes, add_tenant, contextualizing, make_node
from support.service import running_service
from support.waiting import wait_until
from support.web.browser import faults_of_pages, logged_in
from support.zookeeper import connected
from zkdeployment.base.errors import UnreachableError
from zkdeployment.pools.feed import pools_of
from zkdeployment.pools.opening import pool_adapters_of
from zkdeployment.pools.rules.node import NodeState, fail
from zkdeployment.pools.rules.snapshot import LeasedNode, NodesSpec, PoolChange, TenantSession
from zkdeployment.service.users.user import Role

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from playwright.sync_api import Browser, Page

    from support.service import RunningService
    from zkdeployment.pools.store.store import ZooKeeperPools

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@dataclass
class PoolStage:
    """Pools, a service that shows them, and a browser."""

    browser: Browser
    service: RunningService
    tenant: tuple[str, str]
    admin: tuple[str, str]

    @property
    def store(self) -> ZooKeeperPools:
        return pool_adapters_of(self.service.adapters).store

    def page(
        self, login: tuple[str, str], path: str = "/pools", **options: object
    ) -> AbstractContextManager[Page]:
        """Yield the page at ``path`` for a user who has logged in."""
        return logged_in(self.browser, self.service, login, path, **options)

    def add_failed_node(self, name: str, reason: str) -> int:
        (number,) = self.store.take_ids(1)
        node = make_node(number, NodeState.DEPROVISIONING, pool="metal-x86")
        failed = fail(replace(node, hostname=name, reusable=True), reason, self.service.adapters.clock.now())
        self.store.commit(PoolChange(nodes=(failed,)), self.store.read())
        return number


@pytest.fixture(scope="module")
def stage(browser, zookeeper_server):
    zookeeper = f"{zookeeper_server.address}/pools-{uuid.uuid4().hex[:12]}"
    with connected(zookeeper_server.address) as client:
        client.create(zookeeper.removeprefix(zookeeper_server.address))
    with WrittenFleet(zookeeper) as fleet, running_service(zookeeper) as service:
        fleet.lend(DOCUMENT, PoolChange())
        users = service.adapters.users
        keys = {role: add_tenant(users, role.value, role).key for role in (Role.TENANT, Role.ADMIN)}
        wait_until(lambda: has_pools(service), "the service has read the pools")
        yield PoolStage(browser, service, ("tenant", keys[Role.TENANT]), ("admin", keys[Role.ADMIN]))


def has_pools(service: RunningService) -> bool:
    try:
        return bool(pools_of(service.adapters.feed).configuration.pools)
    except UnreachableError:
        return False


def test_a_tenant_leases_extends_and_retires_nodes_and_the_page_follows(stage):
    first, _ = add_ready_nodes(stage.store, 2, "metal-x86")
    with stage.page(stage.tenant, "/") as page:
        expect(page.locator("h1")).to_have_text("You have no nodes")
        page.evaluate("window.loadedOnce = true")
        (third,) = add_ready_nodes(stage.store, 1, "metal-x86")
        expect(page.locator("#list")).to_contain_text(f"node{third}.example.com")
        assert page.evaluate("window.loadedOnce") is True

        page.get_by_role("link", name="Request nodes").click()
        page.get_by_label("Nodes of metal-x86").fill("9")
        page.get_by_role("button", name="Request").click()
        expect(page.get_by_role("alert")).to_contain_text("quota exceeded")
        page.get_by_label("Nodes of metal-x86").fill("1")
        page.get_by_role("button", name="Request").click()
        expect(page.locator("#notice")).to_contain_text("is being prepared")
        expect(page.locator("#sessions")).to_contain_text("gets the key")
        page.evaluate("window.loadedOnce = true")
        with contextualizing(stage.store):
            expect(page.locator("#notice")).to_contain_text("has begun")
        expect(page.locator("#sessions code")).to_have_text(f"ssh root@192.0.2.{first}")
        expect(page.locator("h1")).to_have_text("You have 1 node in 1 session")
        assert page.evaluate("window.loadedOnce") is True

        page.get_by_role("link", name="Extend session").click()
        page.get_by_label("Hours to add").fill("3")
        page.get_by_role("button", name="Extend the session").click()
        expect(page.locator("#sessions time[data-until]")).to_contain_text("in 8 h 5")
        page.get_by_role("link", name="Retire session").click()
        page.get_by_role("button", name="Retire the session").click()
        expect(page.locator("#sessions")).to_contain_text("You have no session.")
        expect(page.locator("#past")).to_contain_text("retired by tenant")


@pytest.mark.nightly
def test_an_admin_manages_nodes_without_javascript(stage):
    number = stage.add_failed_node("broken.example.com", "no route to host")
    wait_until(lambda: number in pools_of(stage.service.adapters.feed).snapshot.nodes, "the node")
    with stage.page(stage.admin, java_script_enabled=False) as page:
        expect(page.locator("#failed")).to_contain_text("no route to host")
        page.get_by_role("link", name="Forgive").first.click()
        page.get_by_label("Reason").fill("the switch is replaced")
        page.get_by_role("button", name="Forgive the node").click()
        expect(page.locator("#failed")).to_be_hidden()
        page.get_by_role("link", name="Add a node").click()
        page.get_by_label("Host name").fill("new.example.com")
        page.get_by_label("Values").fill("architecture")
        page.get_by_role("button", name="Add the node").click()
        expect(page.get_by_role("alert")).to_contain_text("expected KEY=VALUE")
        page.get_by_label("Values").fill("architecture=x86_64")
        page.get_by_label("IP address").fill("192.0.2.99")
        page.get_by_role("button", name="Add the node").click()
        expect(page.locator("#list tbody tr")).to_contain_text("new.example.com")
        page.get_by_role("link", name="Retire node").click()
        page.get_by_role("button", name="Retire the node").click()
        page.get_by_label("Reason").fill("it is not ours")
        page.get_by_role("button", name="Retire the node").click()
        expect(page.get_by_text("new.example.com")).to_have_count(0)
        page.get_by_role("link", name="Fill now").first.click()
        page.get_by_role("button", name="Fill the pool").click()
        expect(page.locator("#pools")).to_be_visible()
    acts = [(act.by, act.what, act.reason) for act in stage.service.adapters.operator.fleet.acts()]
    assert ("admin", f"forgive node {number}", "the switch is replaced") in acts
    assert ("admin", "add node new.example.com", "") in acts
    assert ("admin", "fill pool fleet-web", "") in acts


def test_the_page_and_its_forms_are_accessible_and_show_hostile_texts_as_text(stage, axe_source):
    number = stage.add_failed_node(HOSTILE, HOSTILE)
    add_ready_nodes(stage.store, 1, "virtual-c9s")
    wait_until(lambda: number in pools_of(stage.service.adapters.feed).snapshot.nodes, "the node")
    paths = ("/pools", f"/pools/acts/forgive?node={number}", "/pools/acts/request", "/pools/acts/add-node")
    messages = []
    with stage.page(stage.admin, reduced_motion="reduce", viewport={"width": 390, "height": 844}) as page:
        page.on("console", lambda message: messages.append(message.text))
        page.on("dialog", lambda dialog: (messages.append("a dialog"), dialog.dismiss()))
        faults = faults_of_pages(page, axe_source, paths)
        page.goto("/pools")
        expect(page.locator("#failed")).to_contain_text("<img src=x onerror=alert(1)>\\u202e")
    assert (faults, messages) == ([], [])


def hold_nodes(stage: PoolStage, tenant: int, pool: str, count: int, hours: tuple[float, float | None]) -> None:
    """Record a session that held nodes, from and until some hours ago; ``None``: it still does."""
    (number,), now = stage.store.take_ids(1), stage.service.adapters.clock.now()
    begin = now - hours[0] * 3600
    session = TenantSession(
        id=number,
        tenant=tenant,
        specs=(NodesSpec(pool, count),),
        nodes=(),
        created_at=begin,
        expires_at=now + 3600,
        leased=tuple(LeasedNode(each, pool) for each in range(count)),
        requested_at=begin - 30 * count,
        begun_at=begin + 60,
    )
    stage.store.commit(PoolChange(sessions=(session,)), stage.store.read())
    if hours[1] is not None:
        read = stage.store.read()
        ended = replace(read.sessions[number], retired_at=now - hours[1] * 3600)
        stage.store.commit(PoolChange(sessions=(ended,)), read)


@pytest.mark.nightly
def test_the_plots_of_usage_are_accessible_and_have_the_numbers_of_the_table(stage, axe_source):
    users = {user.name: user.id for user in stage.service.adapters.users.users()}
    hold_nodes(stage, users["tenant"], "metal-x86", 2, (30.0, 10.0))
    hold_nodes(stage, users["admin"], "metal-x86", 1, (20.0, None))
    hold_nodes(stage, users["admin"], HOSTILE, 3, (5.0, 4.0))
    messages = []
    for colours in ("light", "dark"):
        with stage.page(
            stage.admin,
            reduced_motion="reduce",
            color_scheme=colours,
            java_script_enabled=True,
            viewport={"width": 390, "height": 844},
        ) as page:
            page.on("console", lambda message: messages.append(message.text))
            page.on("dialog", lambda dialog: (messages.append("a dialog"), dialog.dismiss()))
            assert faults_of_pages(page, axe_source, ("/pools/usage", "/pools/usage?range=day&pool=arm")) == []
            page.goto("/pools")
            page.get_by_role("link", name="Usage").click()
            page.get_by_role("link", name="7 days").click()
            held = page.get_by_role("img", name="Nodes held over time")
            expect(held).to_have_accessible_description(re.compile("average number of nodes by tenant"))
            expect(page.locator("#waits-heading + svg")).to_contain_text("<img src=x onerror=alert(1)>")
            row = page.locator("tbody tr").filter(has=page.get_by_role("link", name="tenant", exact=True))
            expect(row).to_contain_text("metal-x86")
            expect(row).to_contain_text("40")
            expect(row).to_contain_text("2 min")
            page.get_by_text("The numbers of the plot").click()
            expect(page.locator("details tbody tr")).to_have_count(held.locator("g").count())
            page.get_by_role("link", name="tenant", exact=True).click()
            expect(page.locator("h1")).to_have_text("40 node-hours in 7 days")
    assert messages == []
    with stage.service.browser(stage.tenant) as tenant:
        own = tenant.get("/pools/usage")
        assert "40 node-hours" in own.text
        assert "admin" not in own.text
        assert tenant.get("/pools/usage?tenant=admin").status_code == 403
    with stage.service.browser(stage.service.add_user(Role.VIEWER)) as viewer:
        assert viewer.get("/pools/usage").status_code == 403


@pytest.mark.nightly
def test_the_page_offers_each_role_the_acts_of_its_rights(stage):
    service = stage.service
    with service.browser(service.add_user(Role.OPERATOR)) as operator, service.browser(stage.tenant) as tenant:
        assert operator.get("/pools").status_code == 200
        assert "Sessions" not in operator.get("/pools").text
        assert operator.get("/pools/acts/request").status_code == 403
        assert tenant.get("/services").status_code == 403
        assert tenant.get("/pools/acts/fill?pool=metal-x86").status_code == 403
        assert tenant.get("/pools/acts/retire-session?session=99999").status_code == 404
        assert tenant.get("/pools/acts/extend?session=nonsense").status_code == 404
    with service.browser(stage.admin) as admin:
        assert admin.get("/pools/acts/burn?node=1").status_code == 404
        bare = admin.post("/pools/acts/fill", data={"pool": "metal-x86"})
    assert bare.status_code == 403
