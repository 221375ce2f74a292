"""The services that left governance, as a page lists them, and the intent that a form describes."""

import pytest

from support.builders import make_user
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.publication import LeftService
from zkdeployment.intents.documents import ClusterIntents, DeploymentIntentGroup
from zkdeployment.intents.user_acts import AdoptServices, ReleaseServices, requested_adoption
from zkdeployment.intents.views.matrix import left_services_view
from zkdeployment.service.users.user import Role

SHOP = ("p1", "store", "v1", "shop")
LEFT = (
    LeftService("/p1/shop/front", None, SHOP, "a" * 40),
    LeftService("/net/vlan12", "web", ("ams", "web"), "b" * 40, "sha256:0"),
)
LIMITED = make_user("ben", Role.OPERATOR, paths=("/net",))


def test_the_page_lists_left_services_with_a_form_for_those_who_may_release_them():
    rows = left_services_view(LEFT, LIMITED).rows
    assert [(row.path, row.target, row.former, row.state, row.release) for row in rows] == [
        (
            "/net/vlan12",
            "web",
            "ams/web",
            "stays as deployed",
            "/acts/intent-release?path=%2Fnet%2Fvlan12&back=%2Fintents",
        ),
        ("/p1/shop/front", "all targets", "p1/store/v1/shop", "not deployed", ""),
    ]
    assert [row.release for row in left_services_view(LEFT, None).rows] == ["", ""]
    many = [LeftService(f"/p1/s{n}", None, SHOP, "a") for n in range(203)]
    assert (len(left_services_view(many, None).rows), left_services_view(many, None).more) == (200, 3)


def test_a_release_shows_where_the_service_was_governed():
    form = ReleaseServices(paths=["/net/vlan12"]).form(LEFT[1:])
    assert (form.fields, form.kind) == ((("path", "/net/vlan12"),), "danger")
    assert form.consequences[0].startswith(
        "It left the governance of ams/web with bbbbbbbbbbbb for web, and stays"
    )


def test_a_form_describes_a_new_intent_or_names_one_of_the_branch():
    values = {"apps": " front=/p1/shop/front,/p1/shop/x db=/p1/shop/db ", "profile": "large"}
    apps = {"front": ("/p1/shop/front", "/p1/shop/x"), "db": ("/p1/shop/db",)}
    group = DeploymentIntentGroup(*SHOP, "large", apps)
    assert requested_adoption(SHOP, values) == group
    assert requested_adoption(SHOP, {"apps": " "}) is None
    cluster = requested_adoption(("ams", "web"), {"apps": "vlan12=/net/vlan12"})
    assert cluster == ClusterIntents("ams", "web", {"vlan12": ("/net/vlan12",)})
    form = AdoptServices(subject=SHOP, new=group, description=values).form(group)
    assert form.fields == (("subject", "p1/store/v1/shop"), *values.items())
    assert "Applied" in AdoptServices(subject=("ams", "web")).form(cluster).consequences[0]


@pytest.mark.parametrize("apps", ["front", "front=p1", "-x=/p1", "=/p1", "front=/p1,"])
def test_an_invalid_description_is_refused_with_the_expected_form(apps):
    with pytest.raises(ConfigurationError, match=r"apps: .*expected APP=PATH"):
        requested_adoption(SHOP, {"apps": apps})
