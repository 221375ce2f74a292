"""Withheld services, with the intents that they wait for."""

from support.intents import CLUSTER, GROUP
from zkdeployment.base.host import Identity
from zkdeployment.base.publication import LeftService
from zkdeployment.intents.rules.instances import IntentRecord
from zkdeployment.service.views.services import (
    WithheldSnapshot,
    withheld_of_host,
    withheld_of_service,
    withheld_services_view,
)

FRONT, DB, VLAN = ("/p1/shop/front/web", "web"), ("/p1/shop/db", "db"), ("/net/vlan12", "web")
RECORDS = tuple(IntentRecord(intent, intent.state) for intent in (GROUP, CLUSTER))


def shown(view):
    return [(each.path, each.target, each.subject, each.act) for each in view.services]


def test_withheld_services_are_listed_with_their_intents():
    view = withheld_services_view(WithheldSnapshot({FRONT, DB, VLAN, ("/other", "web")}, RECORDS))
    assert shown(view) == [
        ("/net/vlan12", "web", "ams/web", "applied"),
        ("/p1/shop/db", "db", "p1/store/v1/shop", "instantiated"),
        ("/p1/shop/front/web", "web", "p1/store/v1/shop", "instantiated"),
    ]
    assert (view.services[1].href, view.services[1].intent) == (
        "/services/p1/shop/db",
        "/intents/p1/store/v1/shop",
    )
    assert shown(withheld_services_view(WithheldSnapshot({FRONT, DB}, RECORDS), "DB"))[0][0] == "/p1/shop/db"
    assert shown(withheld_of_service(WithheldSnapshot({FRONT, DB}, RECORDS), "/p1/shop/front")) == []
    assert len(shown(withheld_of_service(WithheldSnapshot({FRONT, DB}, RECORDS), "/p1/shop/db"))) == 1


def test_a_host_misses_what_is_withheld_from_its_targets():
    reading = WithheldSnapshot({FRONT, DB, VLAN, ("/p1/shop/db", "h1")}, RECORDS)
    assert [path for path, *_ in shown(withheld_of_host(reading, Identity("h1", "h1", "web")))] == [
        "/net/vlan12",
        "/p1/shop/front/web",
    ]
    assert shown(withheld_of_host(reading, Identity("h1", "h1.example.com"))) == [
        ("/p1/shop/db", "h1", "p1/store/v1/shop", "instantiated")
    ]


def test_a_long_list_is_cut():
    view = withheld_services_view(
        WithheldSnapshot({(f"/p1/shop/front/{n:03}", "web") for n in range(60)}, RECORDS)
    )
    assert (len(view.services), view.more) == (50, 10)


def test_a_service_that_left_its_intent_is_listed_with_the_act_that_releases_it():
    left = (LeftService("/other", None, ("p1", "store", "v1", "old"), "r1"),)
    (service,) = withheld_of_service(WithheldSnapshot({("/other", "web")}, RECORDS, left), "/other").services
    assert (service.subject, service.intent) == ("p1/store/v1/old", None)
    assert service.act == "zkdeployment intent release /other"
