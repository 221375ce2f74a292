from pathlib import Path

import pytest
from kazoo.client import KazooClient

from support.agents import Fleet
from support.publishing import Publishing


@pytest.fixture
def fleet(tmp_path: Path, zookeeper: str, client: KazooClient) -> Fleet:
    return Fleet(tmp_path, zookeeper, client)


@pytest.fixture
def publishing(tmp_path: Path, zookeeper: str, client: KazooClient) -> Publishing:
    return Publishing(tmp_path, zookeeper, client)
