"""Whether a host needs a grant for what its mandate permits."""

from dataclasses import replace

import pytest

from zkdeployment.agent.rules.grants import needs_grant
from zkdeployment.base.cluster import Cluster, Mandate
from zkdeployment.base.publication import Published

ONE, TWO = "1" * 40, "2" * 40
RUNNING, STOPPED = Cluster(ONE), Cluster(None)
PUBLISHED = Published(ONE, sequence=7, since=6, strategy="deployment-strategy", ordered=ONE)
AGAIN = replace(PUBLISHED, sequence=8, since=8)
ONLY_DOCUMENTS = replace(PUBLISHED, sequence=8)
DEPLOYMENT = Mandate(ONE)


@pytest.mark.parametrize(
    ("mandate", "cluster", "published", "facts", "expected"),
    [
        (DEPLOYMENT, RUNNING, PUBLISHED, {}, True),
        (DEPLOYMENT, RUNNING, replace(PUBLISHED, strategy=None), {}, False),
        (DEPLOYMENT, RUNNING, replace(PUBLISHED, ordered=TWO), {}, False),  # the version was set by hand
        (DEPLOYMENT, None, PUBLISHED, {}, False),
        (Mandate(ONE, is_retry=True), STOPPED, PUBLISHED, {}, False),
        (Mandate(ONE, is_drain=True), RUNNING, PUBLISHED, {}, False),
        (DEPLOYMENT, RUNNING, PUBLISHED, {"follows_lease": True}, False),
        (DEPLOYMENT, RUNNING, PUBLISHED, {"lacking_since": 5}, True),
        (DEPLOYMENT, RUNNING, PUBLISHED, {"lacking_since": 6}, False),
        (DEPLOYMENT, RUNNING, ONLY_DOCUMENTS, {"lacking_since": 7}, False),
        (DEPLOYMENT, RUNNING, AGAIN, {"lacking_since": 7}, True),
        (DEPLOYMENT, RUNNING, replace(PUBLISHED, sequence=0, since=0), {"lacking_since": 6}, True),
    ],
)
def test_a_host_needs_a_grant_of_the_last_publication_for_a_governed_version(
    mandate, cluster, published, facts, expected
):
    facts = {"follows_lease": False, "lacking_since": 0} | facts
    assert needs_grant(mandate, cluster, published, **facts) is expected
