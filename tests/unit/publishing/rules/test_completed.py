from zkdeployment.base.deployment import Assignment
from zkdeployment.publishing.rules.changes import common_targets, completed_targets


def assignment(path, n=1):
    return Assignment(path, n, "foo", "foo", version="1")


DB, WEB, NEW, BY_HAND = assignment("/db"), assignment("/web"), assignment("/new"), assignment("/by-hand")


def test_services_of_files_have_their_published_state_and_others_their_live_state():
    live = {"a1": (BY_HAND, NEW), "b1": (DB,), "b2": (BY_HAND,)}
    published = {"a1": (DB, WEB), "a2": (DB,)}
    assert completed_targets(live, published, {"/db", "/web", "/new"}) == {
        "a1": (DB, WEB, BY_HAND),
        "a2": (DB,),
        "b1": (),
        "b2": (BY_HAND,),
    }


def test_common_services_of_two_targets_have_the_smaller_number_of_instances():
    first = {"a1": (assignment("/db", 2), WEB), "a2": (DB,)}
    second = {"a1": (DB, NEW), "b1": (DB,)}
    assert common_targets(first, second) == common_targets(second, first) == {"a1": (DB,)}
