"""The intents of the photographed fleets: a shop that is deployed, mail that changed, a database that waits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.intents.documents import Approval, ClusterIntents, DeploymentIntentGroup, Intent, IntentState
from zkdeployment.intents.rules.content import IntentContent
from zkdeployment.intents.rules.instances import InstanceService, IntentInstance, IntentRecord
from zkdeployment.publishing.targets.compiler import compile_targets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.tree.values import Tree

_SHOP = DeploymentIntentGroup(
    "retail",
    "store",
    "v1",
    "shop",
    "plain",
    {"cart": ("/shop/cart",), "search": ("/shop/search",), "web": ("/shop/web",)},
)
_CUSTOMERS = DeploymentIntentGroup(
    "retail", "store", "v1", "customers", "large", {"database": ("/data/customers",)}
)
_MAIL = DeploymentIntentGroup("office", "mail", "v2", "relay", "plain", {"relay": ("/mail/relay",)})
_VLAN = ClusterIntents("ams", "mail", {"vlan12": ("/net/vlan12",)})


def intent_records(tree: Tree, sequence: int, former: int, now: float) -> list[IntentRecord]:
    """Return the records of a fleet whose last publications have the sequences ``sequence`` and ``former``."""
    content, changed = _content(_MAIL, "3.7"), _content(_MAIL, "3.8")
    approval = Approval(content.digest, "jane@example.com", "load test passed")
    begun = IntentInstance(sequence, now - 4000, "jane@example.com", sequence, _SHOP.apps, _services(_SHOP, tree))
    ended = IntentInstance(former, now - 90_000, "sam@example.com", former, _SHOP.apps, (), now - 5000, final=())
    active = replace(_SHOP, state=IntentState.INSTANTIATED, approval=replace(approval, reason="reviewed"))
    approved = replace(_CUSTOMERS, state=IntentState.APPROVED, approval=replace(approval, by="sam@example.com"))
    mail = replace(_MAIL, state=IntentState.APPROVED, approval=approval)
    return [
        IntentRecord(active, IntentState.INSTANTIATED, (ended, begun), content),
        IntentRecord(approved, IntentState.APPROVED, (), content),
        IntentRecord(mail, IntentState.CREATED, (), changed, content),
        IntentRecord(_VLAN, IntentState.CREATED),
    ]


def _services(intent: Intent, tree: Tree) -> tuple[InstanceService, ...]:
    targets, _ = compile_targets(tree)
    return tuple(
        InstanceService(app, target, assignment, assignment.n, _properties(tree, assignment.path))
        for app, paths in intent.apps.items()
        for target, assignments in sorted(targets.items())
        for assignment in assignments
        if assignment.path in paths
    )


def _properties(tree: Tree, path: str) -> Mapping[str, object]:
    return dict(tree.nodes[path])


def _content(intent: Intent, version: str) -> IntentContent:
    return IntentContent(intent.description, {"/mail/relay": {"version": version}})
