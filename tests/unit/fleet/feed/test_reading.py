"""Which publications are over, according to one reading of the fleet."""

import pytest

from support.builders import make_host
from zkdeployment.base.cluster import Cluster
from zkdeployment.fleet.feed.fleet_assembly import FleetReading
from zkdeployment.fleet.views.snapshot import FleetSnapshot


@pytest.mark.parametrize(
    ("version", "host", "present", "over"),
    [
        ("r2", "r1", 9, 7),  # hosts deploy publication 8; 9 changed only documents
        ("r2", "r2", 9, 9),
        (None, "r2", 9, 7),  # hosts that start again may fail
        ("r1", "r1", 0, 7),  # set by hand
    ],
)
def test_a_publication_is_over_when_all_hosts_have_it_or_deploy_a_later_one(version, host, present, over):
    fleet = FleetSnapshot(Cluster(version), "r2", hosts=(make_host(1, host),), since=8)
    reading = FleetReading(fleet, sequence=9)
    assert (reading.present_sequence, reading.last_over) == (present, over)
