"""Logins of many clients at the same time: from one address, and from an address where others guess keys."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_network
from typing import TYPE_CHECKING

import pytest

from support.service import running_service
from zkdeployment.service.settings import ServerSettings
from zkdeployment.service.users.key_hashes import KeyHasher, VerifiedKeys
from zkdeployment.service.users.user import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.service import RunningService

#: The agents of a build system that begin to work at the same time.
AGENTS = 60

PROXIES = ServerSettings(proxies=(ip_network("127.0.0.0/8"),))


@pytest.fixture
def service(zookeeper: str) -> Iterator[RunningService]:
    with running_service(zookeeper, settings=PROXIES) as running:
        yield running


class Comparison:
    """Comparisons of keys that begin only when ``count`` requests have come."""

    def __init__(self, count: int, patch: pytest.MonkeyPatch) -> None:
        self.begins = threading.Event()
        self._left = count
        known, compare = VerifiedKeys.__contains__, KeyHasher.matches

        def arrive(keys: VerifiedKeys, name: str) -> bool:
            self._left -= 1
            if self._left == 0:
                self.begins.set()
            return known(keys, name)

        def wait(hasher: KeyHasher, key: str, hashed: str | None) -> bool:
            assert self.begins.wait(60)
            return compare(hasher, key, hashed)

        patch.setattr(VerifiedKeys, "__contains__", arrive)
        patch.setattr(KeyHasher, "matches", wait)


def status(service: RunningService, login: tuple[str, str], address: str) -> int:
    headers = {"X-Forwarded-For": address}
    return service.client.get("/api/v1/tenants", auth=login, headers=headers).status_code


def statuses(service: RunningService, logins: list[tuple[str, str]], address: str) -> list[int]:
    """Return the statuses of requests that are sent at the same time."""
    with ThreadPoolExecutor(len(logins)) as threads:
        return list(threads.map(lambda login: status(service, login, address), logins))


@pytest.mark.parametrize("users", [1, AGENTS])
def test_right_keys_of_one_address_are_all_accepted(
    service: RunningService, users: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = [service.add_user(Role.TENANT, f"agent{number}") for number in range(users)]
    Comparison(AGENTS, monkeypatch)
    logins = [added[number % users] for number in range(AGENTS)]
    assert statuses(service, logins, "192.0.2.1") == [200] * AGENTS


def test_right_keys_are_all_accepted_from_an_address_where_others_guess(service: RunningService) -> None:
    added = [service.add_user(Role.TENANT, f"agent{number}") for number in range(AGENTS)]
    guesses = [("agent0", f"guess {number}") for number in range(25)]
    assert set(statuses(service, guesses, "192.0.2.1")) == {401, 429}
    assert statuses(service, added, "192.0.2.1") == [200] * AGENTS


def test_guesses_from_one_address_leave_the_other_addresses_alone(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    login, compare, goes_on = service.add_user(Role.TENANT), KeyHasher.matches, threading.Event()
    guessed = threading.Event()

    def slow(hasher: KeyHasher, key: str, hashed: str | None) -> bool:
        if key == "guess":
            guessed.set()
            assert goes_on.wait(60)
        return compare(hasher, key, hashed)

    monkeypatch.setattr(KeyHasher, "matches", slow)
    guess = threading.Thread(target=statuses, args=(service, [("tenant", "guess")] * 80, "192.0.2.1"))
    guess.start()
    assert guessed.wait(60)
    try:
        assert [status(service, login, f"198.51.100.{number}") for number in range(8)] == [200] * 8
    finally:
        goes_on.set()
        guess.join()
