from zkdeployment.agent.rules.availability import Demand, new_demands
from zkdeployment.base.deployment import Assignment


def assignment(package: str, version: str | None = None, n: int = 1, **patches: str) -> Assignment:
    return Assignment(f"/a/{package}", n, package, package, version=version, patches=patches)


def test_packages_and_patches_that_a_target_did_not_want_before_are_new():
    before = {"h1": (assignment("shop", "1.0", fix="1"),), "h2": (assignment("shop", "1.1"),)}
    after = {
        "h1": (assignment("shop", "1.1", fix="1", hot="3"),),
        "h2": before["h2"],
        "h3": (assignment("shop-1.4"),),
    }
    assert new_demands(after, before) == {
        "h1": {Demand("/a/shop", "shop", "1.1"), Demand("/a/shop", "hot", "3")},
        "h3": {Demand("/a/shop-1.4", "shop-1.4")},
    }


def test_a_version_that_another_service_of_the_target_wants_is_not_new():
    before = {"h1": (assignment("shop", "1.0"),)}
    moved = Assignment("/b/shop", 1, "shop", "shop", version="1.0")
    assert new_demands({"h1": (moved,)}, before) == {}


def test_checkouts_and_services_without_instances_want_no_package_but_a_checkout_may_have_patches():
    checkout = "git:https://git.example.com/shop.git@main"
    after = {
        "h1": (assignment("shop", checkout, fix="1"),),
        "h2": (assignment("shop", "9", n=0, fix="9"),),
    }
    assert new_demands(after, {}) == {"h1": {Demand("/a/shop", "fix", "1")}}
