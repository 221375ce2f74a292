from dataclasses import replace

from support.builders import make_known_host
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.inventory import Inventory, Marker
from zkdeployment.fleet.views.services import unchanged_deployments

OLD = Marker(Deployment("/a", 0), "foo", "foo", sequence=3, properties="d")
HOST = make_known_host(1, Inventory(markers=(OLD,)), completed=5)


def with_marker(**fields):
    return replace(HOST, inventory=Inventory(markers=(replace(OLD, **fields),)))


def test_a_deployment_that_the_last_publication_did_not_run_is_named_with_its_last_run():
    (fact,) = unchanged_deployments(HOST)
    assert fact == "unchanged, not run again in publication 5: /a 0 (last run in publication 3)"


def test_other_deployments_and_hosts_that_report_less_are_not_judged():
    silent = [
        None,
        replace(HOST, inventory=None),
        replace(HOST, completed=None),
        with_marker(sequence=5),
        with_marker(sequence=None),
        with_marker(properties=None),
    ]
    assert [list(unchanged_deployments(known)) for known in silent] == [[]] * len(silent)
