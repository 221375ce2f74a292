"""Instances of intents over publications, and their JSON form."""

import json
from dataclasses import replace

from zkdeployment.documents.intents.values import DeploymentIntentGroup
from zkdeployment.intents.instances import (
    KEPT_INSTANCES,
    InstanceChange,
    advance_instances,
    instances_body,
    services_from_json,
    services_to_json,
)
from zkdeployment.intents.life_cycle import IntentEffect
from zkdeployment.model.deployment import Assignment
from zkdeployment.planning.targets.governance import GovernedService

SHOP = DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", {"front": ("/front",)})
FRONT = GovernedService("front", "web", Assignment("/front", 2, "front", "front", version="1"))
ADMIN = GovernedService("front", "web", Assignment("/front/admin", 1, "admin", "admin", version="1"))


def publish(instances, sequence, *effects, services=(FRONT,)):
    change = InstanceChange(sequence, float(sequence), "alice")
    return advance_instances(instances, effects, change, SHOP, services, {"/front": {"version": "1"}})


def wanted(instance):
    return [(service.assignment.path, service.wanted, service.assignment.n) for service in instance.services]


def test_an_instance_begins_with_the_governed_services_and_ends_with_none_of_them_wanted():
    (begun,) = publish((), 7, IntentEffect.BEGIN_INSTANCE)
    assert (begun.id, begun.changed, begun.by, begun.terminated) == (7, 7, "alice", None)
    assert wanted(begun) == [("/front", 2, 2)]
    assert publish((begun,), 8) == (begun,)
    (ended,) = publish((begun,), 9, IntentEffect.END_INSTANCE)
    assert (ended.id, ended.changed, ended.terminated) == (7, 9, 9.0)
    assert wanted(ended) == [("/front", 0, 2)]


def test_an_update_remembers_what_is_not_wanted_any_more():
    begun = publish((), 7, IntentEffect.BEGIN_INSTANCE, services=[FRONT, ADMIN])
    smaller = replace(FRONT, assignment=replace(FRONT.assignment, n=1, version="2"))
    (updated,) = publish(begun, 8, IntentEffect.UPDATE_INSTANCE, services=[smaller])
    assert (updated.id, updated.changed) == (7, 8)
    assert wanted(updated) == [("/front", 1, 2), ("/front/admin", 0, 1)]
    assert updated.services[0].assignment.version == "2"


def test_the_last_twenty_instances_are_kept():
    instances = ()
    for sequence in range(1, 60, 2):
        instances = publish(instances, sequence, IntentEffect.BEGIN_INSTANCE)
        instances = publish(instances, sequence + 1, IntentEffect.END_INSTANCE)
    assert [instance.id for instance in instances] == [*range(21, 60, 2)]
    assert len(instances) == KEPT_INSTANCES


def test_the_list_of_instances_begins_with_the_newest():
    instances = publish((), 7, IntentEffect.BEGIN_INSTANCE)
    instances = publish(instances, 8, IntentEffect.END_INSTANCE)
    instances = publish(instances, 9, IntentEffect.BEGIN_INSTANCE)
    assert instances_body(instances) == {
        "instances": [
            {"id": 9, "instantiated": 9.0, "terminated": None, "by": "alice"},
            {"id": 7, "instantiated": 7.0, "terminated": 8.0, "by": "alice"},
        ]
    }


def test_services_of_an_instance_survive_their_json_form():
    (instance,) = publish((), 7, IntentEffect.BEGIN_INSTANCE, services=[FRONT, ADMIN])
    assert services_from_json(json.loads(json.dumps(services_to_json(instance.services)))) == instance.services


def test_an_end_without_an_instance_changes_nothing():
    assert publish((), 7, IntentEffect.END_INSTANCE) == ()
