import pytest

from support.service import running_service


@pytest.fixture
def service(zookeeper: str):
    """Return a service with an empty ZooKeeper."""
    with running_service(zookeeper) as running:
        yield running
