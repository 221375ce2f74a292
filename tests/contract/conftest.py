"""Fixtures of the contract suites."""

import pytest

from support.rpm_hosts import FakeHost, RpmHost


@pytest.fixture(params=["fake", "dnf"])
def host(request, tmp_path):
    """A host without packages, once of dictionaries and once with rpm and dnf."""
    if request.param == "fake":
        return FakeHost()
    return RpmHost(tmp_path, request.getfixturevalue("rpm_repository"))
