"""The documents of fleets and of their promotion: their values, and each fault with its place."""

import json
from datetime import UTC, datetime

import pytest

from zkdeployment.base.source_files import Severity, SourceFile
from zkdeployment.documents.reading import read_documents
from zkdeployment.promotion.documents import FLEETS, PROMOTION, Fleet, Freeze, Promotion, promotion_in_force
from zkdeployment.publishing.rules.review import review
from zkdeployment.strategies.strategy import Group, MemberKind, Selector, Window

EU = {"name": "eu-1", "branch": "fleets/eu-1", "service": "https://deploy.eu-1.example.com"}
US = {"name": "us-1", "branch": "fleets/us-1", "service": "https://deploy.us-1.example.com"}

NO_ROLLBACK = (
    "a promotion cannot roll back by itself, because a promoter makes no commits; use on_failure: stop, and roll"
    " back with 'zkdeployment promote rollback'"
)
NO_VARIABLE = (
    "has no value in a promotion, which does not know hosts and instances; select by $hosts, the names of fleets,"
    " or by $revision"
)
UNMATCHED = (
    "selector 2 of group canary matches no known fleet (node_tags canary); correct the selector or the fleets'"
    " configuration"
)


def group(name="canary", **fields):
    return {"name": name, "critical": True, "depends_on": [], "selectors": [], **fields}


def fleets(*values):
    return {"schema": "zkdeployment/Fleets/v1", "data": {"fleets": list(values)}}


def promotion(*groups, **data):
    return {"schema": "zkdeployment/Promotion/v1", "data": {"groups": list(groups), **data}}


def strategy(**data):
    return {
        "schema": "shipyard/DeploymentStrategy/v1",
        "metadata": {"name": "deployment-strategy"},
        "data": {"groups": [group("all")], **data},
    }


def read(*documents):
    text = "\n---\n".join(map(json.dumps, documents))
    return read_documents([SourceFile("fleets.yaml", text.encode())])


def errors(*documents):
    return [(problem.path, problem.message) for problem in read(*documents).errors]


def advice(*documents):
    found = read(*documents)
    assert not found.errors
    warnings = review([*found.files]).problems
    assert all(problem.severity is Severity.WARNING for problem in warnings)
    return [(problem.path, problem.message) for problem in warnings]


def test_a_fleet_has_a_branch_a_service_tags_and_labels():
    value = EU | {"service": "https://eu.example.com:8443/deploy/", "tags": ["canary"], "labels": ["region: eu"]}
    (found,) = read(fleets(value)).of(FLEETS).values()
    assert found.fleets == (
        Fleet(
            "eu-1",
            "fleets/eu-1",
            "https://eu.example.com:8443/deploy",
            frozenset({"canary"}),
            (("region", "eu"),),
        ),
    )


def test_the_groups_of_a_promotion_are_a_strategy_over_fleets():
    groups = [group(selectors=[{"node_tags": ["canary"]}], bake_time="1h"), group("rest", depends_on=["canary"])]
    found, governed = promotion_in_force(read(fleets(EU | {"tags": ["canary"]}), promotion(*groups)))
    assert found.by_name.keys() == {"eu-1"}
    assert governed.strategy.member_kind is MemberKind.FLEET
    assert governed.strategy.group("canary").selectors == (Selector(tags=frozenset({"canary"})),)
    assert governed.strategy.group("rest") == Group("rest", critical=True, depends_on=("canary",))


def test_without_one_of_the_two_documents_nothing_is_promoted():
    assert promotion_in_force(read(fleets(EU))) is None
    assert promotion_in_force(read()) is None


def test_a_promotion_without_fleets_is_refused():
    assert errors(promotion(group())) == [
        ("data", "a promotion needs fleets; add a document with schema: zkdeployment/Fleets/v1")
    ]


def test_freezes_are_days_or_times_in_a_zone():
    freezes = [
        {"from": "2026-12-24", "to": "2026-12-26", "reason": "holidays"},
        {"from": "2026-06-01 08:00", "to": "2026-06-01T09:30:15", "zone": "Europe/Berlin", "reason": "audit"},
    ]
    (found,) = read(fleets(EU), promotion(group(), freezes=freezes)).of(PROMOTION).values()

    def at(*when):
        return datetime(*when, tzinfo=UTC).timestamp()

    assert found.freezes == (
        Freeze(at(2026, 12, 24), at(2026, 12, 27), "holidays"),
        Freeze(at(2026, 6, 1, 6), at(2026, 6, 1, 7, 30, 15), "audit"),
    )


def test_windows_apply_to_the_whole_promotion():
    windows = [{"from": "09:00", "to": "17:00", "days": ["mon"], "zone": "Europe/Berlin"}]
    (found,) = read(fleets(EU), promotion(group(), windows=windows)).of(PROMOTION).values()
    assert found == Promotion(found.strategy, (), (Window(frozenset({0}), 540, 1020, "Europe/Berlin"),))


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (
            [EU, EU | {"branch": "fleets/eu-2"}],
            [
                ("data.fleets[0].name", "there are 2 fleets with the name eu-1; expected one"),
                ("data.fleets[1].name", "there are 2 fleets with the name eu-1; expected one"),
            ],
        ),
        (
            [EU, EU | {"name": "eu-2"}],
            [
                ("data.fleets[0].branch", "there are 2 fleets with the branch fleets/eu-1; expected one"),
                ("data.fleets[1].branch", "there are 2 fleets with the branch fleets/eu-1; expected one"),
            ],
        ),
        (
            [EU, US | {"branch": "fleets/eu-1/us"}],
            [
                (
                    "data.fleets[1].branch",
                    "git cannot have the branch fleets/eu-1/us beside fleets/eu-1; rename one of them",
                )
            ],
        ),
        (
            [EU | {"service": "https://me:secret@deploy.example.com"}],
            [("data.fleets[0].service", "the URL contains a password; write it without one")],
        ),
        (
            [EU | {"service": "https://deploy.example.com:99999"}],
            [
                (
                    "data.fleets[0].service",
                    "expected a URL with a host and a valid port, found 'https://deploy.example.com:99999'",
                )
            ],
        ),
        (
            [EU | {"service": "https://deploy.example.com:0"}],
            [
                (
                    "data.fleets[0].service",
                    "expected a URL with a host and a valid port, found 'https://deploy.example.com:0'",
                )
            ],
        ),
    ],
)
def test_faults_of_fleets_have_their_places(values, found):
    assert errors(fleets(*values)) == found


@pytest.mark.parametrize(
    "branch",
    [
        *("-x", "/x", "x/", "a..b", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[b", "a\\b", "a@{b", "a.lock"),
        *("a.lock/b", ".a", "a/.b"),
    ],
)
def test_names_that_git_refuses_for_a_branch_are_refused(branch):
    assert errors(fleets(EU | {"branch": branch})) == [
        ("data.fleets[0].branch", f"expected the name of a branch, as in fleets/eu-1, found {branch!r}")
    ]


@pytest.mark.parametrize("service", ["deploy.example.com", "ftp://x", "https://x/?a=b", "https:///x"])
def test_services_have_to_be_urls_of_http(service):
    ((place, message),) = errors(fleets(EU | {"service": service}))
    assert (place, "expected the URL of the fleet's service" in message) == ("data.fleets[0].service", True)


def test_a_promotion_cannot_roll_back_by_itself():
    assert errors(fleets(EU), promotion(group(), on_failure="rollback")) == [("data.on_failure", NO_ROLLBACK)]


def test_a_promotion_has_no_checks_of_hosts():
    assert errors(fleets(EU), promotion(group(healthy_checks=True, bake_time="1h"))) == [
        (
            "data.groups[0].healthy_checks",
            "a promoter does not know the checks of a fleet; use healthy_checks in the fleet's own strategy",
        )
    ]


@pytest.mark.parametrize("variable", ["instances", "service", "others"])
def test_metrics_of_a_promotion_have_no_variables_of_hosts(variable):
    metric = {"name": "errors", "query": f'max(up{{x=~"${variable}"}})', "pass": "<= 1"}
    assert errors(fleets(EU), promotion(group(bake_time="1h", analysis=[metric]))) == [
        ("data.groups[0].analysis[0].query", f"${variable} {NO_VARIABLE}")
    ]


def test_metrics_of_a_promotion_select_fleets_by_the_variable_hosts():
    metric = {"name": "errors", "query": 'max(up{fleet=~"$hosts"})', "pass": "<= 1"}
    assert errors(fleets(EU), promotion(group(bake_time="1h", analysis=[metric]))) == []


@pytest.mark.parametrize(
    ("freeze", "message"),
    [
        ({"from": "2026-02-30", "to": "2026-03-01"}, "expected existing days and times"),
        ({"from": "2026-02-01", "to": "2026-03-01", "zone": "Mars/Olympus"}, "expected existing days and times"),
        ({"from": "2026-03-02", "to": "9999-12-31"}, "expected existing days and times"),
        ({"from": "2026-03-02", "to": "2026-03-01"}, "the freeze ends before it begins"),
    ],
)
def test_impossible_freezes_are_refused(freeze, message):
    ((place, found),) = errors(fleets(EU), promotion(group(), freezes=[freeze | {"reason": "x"}]))
    assert (place, found.startswith(message)) == ("data.freezes[0]", True)


def test_windows_of_a_promotion_are_checked():
    windows = [{"from": "09:00", "to": "09:00"}]
    ((place, _),) = errors(fleets(EU), promotion(group(), windows=windows))
    assert place == "data.windows[0]"


def test_selectors_that_match_no_fleet_get_a_warning():
    selectors = [{"node_names": ["eu-1"]}, {"node_tags": ["canary"]}]
    assert advice(fleets(EU, US), promotion(group(selectors=selectors, require_hosts=1))) == [
        ("data.groups", UNMATCHED)
    ]


def test_a_strategy_that_rolls_back_by_itself_gets_a_warning_beside_fleets():
    ((place, message),) = advice(fleets(EU), promotion(group()), strategy(on_failure="rollback"))
    assert place == "data.on_failure"
    assert message.startswith(
        "strategy deployment-strategy rolls back by itself with a commit on the fleet's branch"
    )
    assert advice(fleets(EU), promotion(group()), strategy()) == []
    assert advice(strategy(on_failure="rollback")) == []
