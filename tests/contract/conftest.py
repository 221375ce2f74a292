"""Fixtures of the contract suites."""

import pytest

from support.hosts.rpm_hosts import FakeHost, RpmHost
from support.repository import Repository, Subversion


@pytest.fixture(params=["fake", "dnf"])
def host(request, tmp_path):
    """A host without packages: a fake host, and a host with rpm and dnf."""
    if request.param == "fake":
        return FakeHost()
    return RpmHost(tmp_path, request.getfixturevalue("rpm_repository"))


@pytest.fixture(params=["git", "svn"])
def repository(request, tmp_path):
    """A repository for trees, once for each version control system."""
    return {"git": Repository, "svn": Subversion}[request.param](tmp_path / "repository")
