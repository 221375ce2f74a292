from dataclasses import replace

from zkdeployment.fleet.requests import describe_request
from zkdeployment.model.publication import PublicationRequest

REQUEST = PublicationRequest("1", "ann@adm1", "web 1.3", 0.0, age_limit=60.0, written=100.0)


def test_a_request_is_described_with_its_state():
    action = "to publish the branch's tip (web 1.3)"
    assert describe_request(REQUEST, 110.0) == (
        f"ann@adm1 requested 10 s ago {action}; no syncer has answered yet, and the request expires in 50 s"
    )
    assert describe_request(REQUEST, 161.0) == (
        f"ann@adm1 requested 1 min ago {action}; no syncer answered in time, and the request has expired"
    )
    refused = replace(REQUEST, error="the tree does not parse", reason="")
    assert describe_request(refused, 161.0) == (
        "ann@adm1 requested 1 min ago to publish the branch's tip; the syncer refused: the tree does not parse"
    )
