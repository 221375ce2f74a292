"""Intents for tests: documents, and what publications record of them."""

from __future__ import annotations

from zkdeployment.base.deployment import Assignment
from zkdeployment.intents.documents import Approval, ClusterIntents, DeploymentIntentGroup, Intent, IntentState
from zkdeployment.intents.rules.content import IntentContent
from zkdeployment.intents.rules.instances import InstanceService, IntentInstance, IntentRecord

#: The apps of the group, and the paths of their services.
APPS = {"db": ("/p1/shop/db",), "front": ("/p1/shop/front",)}

GROUP = DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", APPS)
CLUSTER = ClusterIntents("ams", "web", {"vlan12": ("/net/vlan12",)})

CONTENT = IntentContent(GROUP.description, {"/p1/shop/db": {"version": "1"}, "/p1/shop/front": {"version": "1.3"}})
CHANGED = IntentContent(GROUP.description, {"/p1/shop/db": {"version": "2"}, "/p1/shop/front": {"version": "1.3"}})
APPROVAL = Approval(CONTENT.digest, "jane@example.com", "reviewed")

#: The tree of the group and the cluster, as a format with the version of the front.
TREE = """\
/p1
  /shop
    /front : shop-front
      version = '{}'
      /providers
      /deploy
        /web
          n = 2
    /db : shop-db
      version = '1'
      /deploy
        /db
/net
  /vlan12 : net-vlan
    version = '1'
    /deploy
      /web
"""

#: Each service with its target: two instances of the front on each web host, one database.
SERVICES = (
    InstanceService("db", "db", Assignment("/p1/shop/db", 1, "shop-db", "shop-db", version="1"), 1),
    InstanceService("front", "web", Assignment("/p1/shop/front", 2, "shop-front", "shop-front", version="1.3"), 2),
)


def begun(id_: int = 7, *, at: float = 1000.0) -> IntentInstance:
    """Return an instance of the group that is deployed."""
    return IntentInstance(id_, at, "jane@example.com", id_, APPS, SERVICES)


def recorded(intent: Intent, state: IntentState, *instances: IntentInstance) -> IntentRecord:
    """Return the record of an intent in a state."""
    return IntentRecord(intent, state, instances)
