"""YAML on standard output."""

import yaml

from support.intents import GROUP, begun, recorded
from zkdeployment.base.host import Identity
from zkdeployment.cli.options import yaml_text
from zkdeployment.intents.documents import IntentState
from zkdeployment.intents.rules.reality import FleetReports, ReportedHost, ReportedHosts
from zkdeployment.intents.rules.resources import read_query, status_body


def test_a_value_that_several_places_share_is_written_at_each_place():
    shared = {"labels": {"app": "front"}, "none": {}, "paths": ["/a"]}
    value = {"b": shared, "a": [shared, shared["paths"]]}
    text = yaml_text(value)
    assert text.startswith("b:\n  labels:\n    app: front\n  none: {}\n")
    assert not {"&", "*"} & set(text)
    assert yaml.safe_load(text) == value


def test_resources_of_a_service_have_their_labels_and_facts_each():
    hosts = [ReportedHost(Identity(f"w{n}", f"w{n}.example.com", "web"), facts={"rack": "r1"}) for n in range(2)]
    reports = FleetReports(ReportedHosts(hosts), (), frozenset())
    query = read_query({"output": ["detail"]})
    body = status_body(recorded(GROUP, IntentState.INSTANTIATED, begun()), query, reports)
    assert "&id" in yaml.safe_dump(body)
    text = yaml_text(body)
    assert "&id" not in text
    assert text.count("rack: r1") == 4
    assert yaml.safe_load(text) == body
