"""Fixtures of the contract suites."""

import pytest

from support.hosts.rpm_hosts import FakeHost, RpmHost
from support.repository import Repository, Subversion
from zkdeployment.agent.packages.command import find_program

#: With dnf 4, a dnf that waits for the order makes a transaction; as a fallback, another one replays it.
_REPLAYED = [pytest.param("dnf-replay", marks=pytest.mark.nightly)] if find_program().generation == 4 else []
HOSTS = ["fake", "dnf", *_REPLAYED]


@pytest.fixture(params=HOSTS)
def host(request, tmp_path):
    """A host without packages: a fake host, and hosts with rpm and dnf, one for each way of a transaction."""
    if request.param == "fake":
        return FakeHost()
    return RpmHost(tmp_path, request.getfixturevalue("rpm_repository"), waits=request.param == "dnf")


@pytest.fixture(params=["git", "svn"])
def repository(request, tmp_path):
    """A repository for trees, once for each version control system."""
    return {"git": Repository, "svn": Subversion}[request.param](tmp_path / "repository")
