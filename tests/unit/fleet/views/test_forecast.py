"""Forecasts of the plans of hosts, from values."""

import json
from dataclasses import replace

import pytest

from support.builders import make_host, make_known_host, make_package
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.errors import NotFoundError
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, Marker
from zkdeployment.base.plan import ChangePackages, Deploy
from zkdeployment.fleet.views.forecast import Outlook, forecast
from zkdeployment.publishing.targets.compiler import compile_targets
from zkdeployment.strategies.documents import StrategyChange
from zkdeployment.strategies.order import order
from zkdeployment.strategies.strategy import ALL_HOSTS
from zkdeployment.tree.diff import diff
from zkdeployment.tree.links import resolved_properties
from zkdeployment.tree.values import Tree, properties_digest

NODES = {
    "/defaults": {"threads": 3},
    "/who": {},
    "/who/foo": {"type": "foo", "version": "1.0", "threads =>": "/defaults threads"},
    "/who/foo/deploy": {},
    "/who/foo/deploy/web": {},
    "/who/foo/etc": {},
}
LIVE = Tree(NODES)
FOO = make_package("foo", "1.0")
DEPLOYED = Inventory(
    packages={"foo": (FOO,)},
    scripts={"foo": "/opt/foo/bin/zookeeper-deploy"},
    markers=(Marker(Deployment("/who/foo", 0), "foo", "foo", version="1.0", files=("who:foo.0.deployed",)),),
    managed={"foo": "foo"},
)


def host(number, role="web", **fields):
    return make_host(number, role=role, **{"version": "r1", **fields})


def known(number, inventory=DEPLOYED, role="web", **fields):
    return make_known_host(number, inventory, role, **fields)


def look(nodes, hosts=None, known_hosts=None, **more):
    hosts = [host(1)] if hosts is None else hosts
    known_hosts = [known(1)] if known_hosts is None else known_hosts
    tree = Tree(nodes)
    targets, problems = compile_targets(tree)
    assert not problems
    return forecast(LIVE, diff(LIVE, tree), targets, hosts, known_hosts, **more)


def outlooks(seen):
    return {host.identity.id: host.outlook for host in seen.hosts}


def changed(path, **properties):
    return NODES | {path: {**NODES.get(path, {}), **properties}}


def test_a_live_tree_makes_hosts_repeat_their_deployments_which_is_not_a_change():
    seen = look(NODES, revision="r2")
    assert outlooks(seen) == {"h1": Outlook.REPEATS}
    assert [step.reason for step in seen.hosts[0].plan.steps] == ["run again for this revision"]
    assert not seen.changes
    assert seen.summary == "hosts: 1 run again what they have; nodes of the tree: no change"


def test_a_host_does_nothing_for_the_revision_it_has():
    assert outlooks(look(NODES, revision="r1")) == {"h1": Outlook.NOTHING}


def test_a_change_of_version_is_planned_as_the_agent_plans_it():
    seen = look(changed("/who/foo", version="2.0"))
    assert outlooks(seen) == {"h1": Outlook.CHANGES}
    assert seen.changes
    assert [type(step) for step in seen.hosts[0].plan.steps] == [ChangePackages, Deploy]
    assert seen.hosts[0].lines == (
        ("change packages (foo 2.0): foo 1.0 to 2.0", ""),
        (
            "deploy /who/foo 0 (foo 2.0): package changed from foo 1.0 to 2.0",
            "runs zookeeper-deploy /who/foo 0 under the lock of /who/foo",
        ),
    )


@pytest.mark.parametrize(
    ("path", "properties", "outlook"),
    [
        ("/who/foo", {"size": 1}, Outlook.CHANGES),
        ("/who/foo/etc", {"size": 1}, Outlook.CHANGES),
        ("/who/foo/new", {}, Outlook.CHANGES),
        ("/defaults", {"threads": 4}, Outlook.CHANGES),
        ("/defaults", {"colour": "red"}, Outlook.REPEATS),
        ("/who/foo/deploy/db", {}, Outlook.REPEATS),
        ("/other", {}, Outlook.REPEATS),
    ],
)
def test_a_service_whose_properties_change_changes_the_hosts_that_run_it(path, properties, outlook):
    seen = look(changed(path, **properties))
    assert outlooks(seen)["h1"] is outlook
    assert seen.changes, "the tree changes in any case"
    assert look(changed(path, **properties), selected=["h1"]).changes is (outlook is Outlook.CHANGES)


def test_a_host_without_a_reported_inventory_is_unknown():
    hosts = [host(1), host(2), host(3), host(4, deploying="r1")]
    known_hosts = [known(1), known(2, None, unknown="too large"), known(4)]
    seen = look(NODES, hosts, known_hosts)
    assert outlooks(seen) == {
        "h1": Outlook.REPEATS,
        "h2": Outlook.UNKNOWN,
        "h3": Outlook.UNKNOWN,
        "h4": Outlook.UNKNOWN,
    }
    assert [host.reason for host in seen.hosts[1:]] == [
        "too large",
        "the host has not reported its inventory",
        "a deployment is running; repeat the command when it has finished",
    ]
    assert not seen.changes
    assert look(changed("/other"), hosts, known_hosts, selected=["h3"]).changes, "who knows"


def test_a_target_that_matches_no_host_is_unknown():
    seen = look(changed("/who/foo/deploy/web2"))
    assert seen.hosts[-1].identity == Identity("web2", "web2")
    assert seen.hosts[-1].reason == "no host with this id, name or role is known"
    assert outlooks(look(changed("/who/foo/deploy/web2", n=0))) == {"h1": Outlook.REPEATS}


def test_an_absent_host_has_a_plan_for_its_return():
    seen = look(changed("/who/foo", version="2.0"), hosts=[], known_hosts=[known(7)])
    assert (outlooks(seen), seen.hosts[0].absent) == ({"h7": Outlook.CHANGES}, True)


def test_a_host_that_would_refuse_the_tree_fails():
    nodes = changed("/who/foo/deploy/h1")
    seen = look(nodes)
    assert outlooks(seen) == {"h1": Outlook.FAILS}
    assert "only deploy/web counts" in seen.hosts[0].reason
    controllers = Inventory(controllers=frozenset({"ctl1", "ctl2"}))
    seen = look(NODES, known_hosts=[known(1, controllers)])
    assert "two role controllers are installed" in seen.hosts[0].reason
    assert seen.changes


def test_a_host_that_lost_the_script_to_undeploy_with_would_fail():
    seen = look(changed("/who/foo", version="2.0"), known_hosts=[known(1, Inventory(markers=DEPLOYED.markers))])
    assert outlooks(seen) == {"h1": Outlook.CHANGES}
    seen = look({}, known_hosts=[known(1, Inventory(markers=DEPLOYED.markers))])
    assert outlooks(seen) == {"h1": Outlook.FAILS}
    assert "cannot undeploy /who/foo 0 (foo): expected its deploy script" in seen.hosts[0].reason


def test_hosts_that_do_the_same_are_grouped_the_most_first():
    hosts = [host(number) for number in (1, 2, 3)]
    known_hosts = [known(1, Inventory()), known(2), known(3)]
    seen = look(changed("/who/foo", version="2.0"), hosts, known_hosts)
    assert [[host.identity.id for host in group] for group in seen.groups(Outlook.CHANGES)] == [
        ["h2", "h3"],
        ["h1"],
    ]


class TestAServiceThatRunsAgainOnlyWhenChanged:
    NODES = changed("/who/foo", rerun="changed")

    def look(self, nodes, *, runs_with=None, **more):
        had = Tree(self.NODES if runs_with is None else runs_with)
        digest = properties_digest(resolved_properties(had.properties, "/who/foo"))
        (marker,) = DEPLOYED.markers
        marker = replace(marker, properties=digest, packages=(FOO.nevra,), identity=host(1).identity)
        inventory = replace(DEPLOYED, markers=(marker,))
        targets, problems = compile_targets(Tree(nodes))
        assert not problems
        live = Tree(self.NODES)
        return forecast(live, diff(live, Tree(nodes)), targets, [host(1)], [known(1, inventory)], **more)

    def test_hosts_with_an_unchanged_deployment_have_nothing_to_do(self):
        seen = self.look(self.NODES | {"/other": {"x": 1}}, revision="r2")
        (forecasted,) = seen.hosts
        assert (forecasted.outlook, forecasted.plan.steps) == (Outlook.NOTHING, ())
        assert forecasted.unchanged == "unchanged, not run again: /who/foo 0"
        assert forecasted.to_json()["unchanged"] == ["/who/foo 0"]

    def test_changes_hosts_when_a_property_behind_its_link_changes(self):
        seen = self.look(self.NODES | {"/defaults": {"threads": 4}})
        assert outlooks(seen) == {"h1": Outlook.CHANGES}
        assert seen.hosts[0].lines[0][0] == "deploy /who/foo 0 (foo 1.0): properties changed"

    def test_is_run_by_a_host_that_missed_an_earlier_change(self):
        seen = self.look(self.NODES, runs_with=self.NODES | {"/defaults": {"threads": 2}})
        assert outlooks(seen) == {"h1": Outlook.CHANGES}


def test_only_hosts_asked_for_are_shown_by_id_or_name():
    hosts = [host(number) for number in (1, 2, 3)]
    known_hosts = [known(number) for number in (1, 2, 3)]
    nodes = changed("/who/foo/deploy/h8") | {"/who/foo/deploy/h9": {"n": 0}}
    seen = look(nodes, hosts, known_hosts, selected=["app2", "h3", "h8", "h9"])
    assert {identity: outlook is Outlook.UNKNOWN for identity, outlook in outlooks(seen).items()} == {
        "h2": False,
        "h3": False,
        "h8": True,
        "h9": True,
    }


@pytest.mark.parametrize("name", ["h99", "web", "/roles/web", ""])
def test_a_selected_host_that_does_not_exist_is_refused(name):
    with pytest.raises(NotFoundError, match=f"there is no host {name}: expected the id or the name of a host"):
        look(NODES, selected=["h1", name])


def test_a_forecast_as_json():
    seen = look(changed("/who/foo", version="2.0"), revision="r2")
    assert json.loads(json.dumps(seen.to_json())) == {
        "revision": "r2",
        "changes": True,
        "summary": "hosts: 1 change; nodes of the tree: 1 changed",
        "tree": {"create": [], "update": ["/who/foo"], "delete": []},
        "hosts": [
            {
                "id": "h1",
                "name": "app1",
                "role": "web",
                "outlook": "changes",
                "absent": False,
                "lease": None,
                "reason": None,
                "steps": [
                    {
                        "step": "change packages",
                        "install": {"foo": "2.0"},
                        "reinstall": [],
                        "remove": [],
                        "reason": "foo 1.0 to 2.0",
                    },
                    {
                        "step": "deploy",
                        "path": "/who/foo",
                        "number": 0,
                        "application": "foo",
                        "package": "foo",
                        "subtype": None,
                        "version": "2.0",
                        "script": "zookeeper-deploy",
                        "arguments": ["/who/foo", "0"],
                        "lock": "who,foo",
                        "reason": "package changed from foo 1.0 to 2.0",
                    },
                ],
                "unchanged": [],
            }
        ],
        "strategy": None,
        "documents": [],
        "order": None,
    }


def test_a_change_of_the_strategy_is_one_for_the_fleet_and_not_for_one_host():
    change = StrategyChange(None, ALL_HOSTS)
    seen = look(NODES, revision="r2").with_strategy(change, None)
    assert seen.changes
    assert seen.summary.endswith("; nodes of the tree: no change; strategy: added")
    assert seen.to_json()["strategy"]["after"] == "all-hosts"
    assert not look(NODES, revision="r2", selected=["h1"]).with_strategy(change, None).changes


def test_the_order_is_shown_of_the_hosts_that_were_asked_for():
    hosts = [host(1), host(2)]
    turns = order(ALL_HOSTS, hosts, [], {})
    (turn,) = (
        look(NODES, hosts, selected=["h2"]).with_strategy(StrategyChange(), turns).to_json()["order"]["groups"]
    )
    assert turn["hosts"] == ["h2"]


def test_a_service_that_other_hosts_gain_is_undeployed_last():
    nodes = {path: value for path, value in NODES.items() if path != "/who/foo/deploy/web"}
    nodes |= {"/who/foo/deploy/h2": {}, "/who/bar": {"type": "bar", "version": "1"}, "/who/bar/deploy": {}}
    nodes["/who/bar/deploy/web"] = {}
    for lasting, first in (((), True), (["/who/foo"], False)):
        (seen,) = look(nodes, lasting=lasting, selected=["h1"]).hosts
        steps = [step["step"] for step in seen.to_json()["steps"]]
        assert (steps[0] == "undeploy") is first
        assert (steps.index("undeploy") < steps.index("deploy")) is first
        assert steps[-1] == "remove software"


def test_hosts_whose_operating_system_changes_are_counted_and_named():
    def nodes(**properties):
        return changed("/os", type="system", **{"release": "1", **properties}) | {
            "/os/deploy": {},
            "/os/deploy/web": {},
        }

    before, _ = compile_targets(Tree(nodes()))
    same = look(nodes(), revision="r2", targets_before=before)
    assert outlooks(same) == {"h1": Outlook.REPEATS}
    assert "system" not in same.hosts[0].to_json()
    assert look(nodes(reboot="always"), targets_before=before).hosts[0].system is None
    assert look(nodes(update="none", reboot="never"), targets_before=before).hosts[0].system is None
    for change in ({"release": "2"}, {"generation": 2}, {"update": "security"}, {"exclude": ["bar"]}):
        seen = look(nodes(**change), targets_before=before)
        assert outlooks(seen) == {"h1": Outlook.CHANGES}
        assert seen.hosts[0].lines[0] == (
            f"update the operating system to release {change.get('release', '1')} of /os",
            "updates packages and reboots if needed under the lock of /os",
        )
        assert seen.hosts[0].to_json()["system"]["path"] == "/os"
        assert "hosts: 1 change, 1 of them updates the system;" in seen.summary
    assert look(nodes(), targets_before={}).hosts[0].system is not None
    assert look(NODES, targets_before=before).hosts[0].system is None


def test_a_package_that_an_update_covers_does_not_get_its_former_version_back():
    packages = {**DEPLOYED.packages, "fix": (make_package("fix", "2"),)}
    have = replace(DEPLOYED, packages=packages, originals={"fix": "0:1-1"})
    deployed = {"/os/deploy": {}, "/os/deploy/web": {}}
    for exclude, put_back in ([], []), (["fix"], [("fix",)]):
        nodes = changed("/os", type="system", release="2", exclude=exclude) | deployed
        (seen,) = look(nodes, known_hosts=[known(1, have)], targets_before={}).hosts
        changes = [step for step in seen.plan.steps if isinstance(step, ChangePackages)]
        assert [step.put_back for step in changes] == put_back


@pytest.mark.parametrize(
    ("had", "wanted", "line"),
    [
        (
            {"update": "none"},
            {"update": "none", "generation": 2, "reboot": "always"},
            "reboots under the lock of /os",
        ),
        ({"reboot": "never"}, {"reboot": "if needed"}, "reboots if needed under the lock of /os"),
        ({"reboot": "never"}, {"reboot": "never", "release": "2"}, "updates packages under the lock of /os"),
        ({"reboot": "never", "update": "none"}, {"update": "none"}, None),
    ],
)
def test_hosts_that_only_reboot_are_named_as_such(had, wanted, line):
    def nodes(properties):
        return changed("/os", type="system", **{"release": "1", **properties}) | {
            "/os/deploy": {},
            "/os/deploy/web": {},
        }

    before, _ = compile_targets(Tree(nodes(had)))
    seen = look(nodes(wanted), revision="r2", targets_before=before)
    (host,) = seen.hosts
    if line is None:
        assert (host.outlook, host.system) == (Outlook.REPEATS, None)
        return
    assert (host.outlook, host.lines[0][1]) == (Outlook.CHANGES, line)
    assert ("1 of them only reboots" in seen.summary) is line.startswith("reboots")
    assert (host.lines[0][0] == "reboot for /os") is line.startswith("reboots")


def test_the_target_of_a_system_node_without_a_known_host_is_unknown():
    tree = {"/os": {"type": "system", "release": "1"}, "/os/deploy": {}, "/os/deploy/db9": {}}
    seen = look(NODES | tree, selected=["db9"])
    assert outlooks(seen) == {"db9": Outlook.UNKNOWN}
