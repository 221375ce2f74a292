from dataclasses import replace

from zkdeployment.fleet.requests import describe_request
from zkdeployment.model.publication import PublicationRequest

REQUEST = PublicationRequest("1", "ann@adm1", "web 1.3", 0.0, age_limit=60.0, written=100.0)


def test_a_request_is_described_with_what_is_to_be_expected_of_it():
    asked = "to publish the branch's tip (web 1.3)"
    assert describe_request(REQUEST, 110.0) == (
        f"ann@adm1 asked 10 s ago {asked}; no syncer has answered yet, and after 50 s none will"
    )
    assert describe_request(REQUEST, 161.0) == (
        f"ann@adm1 asked 1 min ago {asked}; no syncer answered in time, and none will any more"
    )
    refused = replace(REQUEST, error="the tree does not parse", reason="")
    assert describe_request(refused, 161.0) == (
        "ann@adm1 asked 1 min ago to publish the branch's tip; the syncer did not: the tree does not parse"
    )
