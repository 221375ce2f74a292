"""Sentences about services that are not deployed because of the state of their intents."""

from zkdeployment.base.host import Identity
from zkdeployment.fleet.views.services import withheld_below, withheld_from_host, withheld_sentences
from zkdeployment.intents.documents import ClusterIntents, DeploymentIntentGroup, IntentState
from zkdeployment.intents.rules.instances import IntentRecord

SHOP = DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", {"front": ("/p1/front",)})
NET = ClusterIntents("ams", "web", {"vlan12": ("/net/vlan12",)})
RECORDS = (IntentRecord(SHOP, IntentState.CREATED), IntentRecord(NET, IntentState.TERMINATED))
WITHHELD = {("/p1/front/a", "web"), ("/p1/front", "app1"), ("/net/vlan12", "web"), ("/old", "web")}


def test_each_withheld_service_is_named_with_the_state_of_its_intent():
    assert [*withheld_sentences(sorted(WITHHELD), RECORDS)] == [
        "/net/vlan12 is not deployed to web: ams/web is Terminated",
        "/old is not deployed to web",
        "/p1/front is not deployed to app1: p1/store/v1/shop is Created",
        "/p1/front/a is not deployed to web: p1/store/v1/shop is Created",
    ]


def test_a_host_has_the_services_of_its_role_or_of_its_names():
    with_role = withheld_from_host(Identity("1", "app1", "web"), WITHHELD, RECORDS)
    assert [sentence.split()[0] for sentence in with_role] == ["/net/vlan12", "/old", "/p1/front/a"]
    without = withheld_from_host(Identity("1", "app1"), WITHHELD, RECORDS)
    assert [sentence.split()[0] for sentence in without] == ["/p1/front"]


def test_a_host_without_withheld_services_has_no_sentence():
    assert withheld_from_host(Identity("2", "app2"), WITHHELD, RECORDS) == ()


def test_at_most_twenty_services_are_named():
    many = {(f"/s{number}", "app1") for number in range(25)}
    sentences = withheld_from_host(Identity("1", "app1"), many, ())
    assert (len(sentences), sentences[-1]) == (21, "and 5 more services are not deployed")


def test_the_services_at_and_below_a_path_are_found():
    assert withheld_below(WITHHELD, "/p1/front") == [("/p1/front", "app1"), ("/p1/front/a", "web")]
    assert withheld_below(WITHHELD, "/p1/fro") == []
    assert len(withheld_below(WITHHELD, "")) == len(WITHHELD)
