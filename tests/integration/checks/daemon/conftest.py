from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.checks.fleet import CheckedFleet
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.publishing import Publishing


@pytest.fixture
def fleet(publishing: Publishing, zookeeper: str) -> Iterator[CheckedFleet]:
    with Session(zookeeper, session_timeout=6) as session:
        yield CheckedFleet(publishing, session)
