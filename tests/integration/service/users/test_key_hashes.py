"""Real argon2 hashes of keys."""

import time

import pytest

from zkdeployment.service.users.key_hashes import KeyHasher, VerifiedKeys

KEY = "0c4a3e5e-92a6-4c0e-8f1e-1f0d0a6d3a55"


@pytest.fixture(scope="module")
def hasher():
    return KeyHasher()


def test_a_hash_is_argon2id_and_matches_only_its_key(hasher):
    hashed = hasher.hash(KEY)
    assert hashed.startswith("$argon2id$")
    assert KEY not in hashed
    assert hashed != hasher.hash(KEY)
    assert hasher.matches(KEY, hashed)
    assert not hasher.matches(KEY.upper(), hashed)


@pytest.mark.parametrize("key", ["", "\ud800", "\0", "x" * 1_000_000, KEY + "x" * 1000])
def test_hostile_keys_match_nothing(hasher, key):
    assert not hasher.matches(key, hasher.hash(KEY))


@pytest.mark.parametrize("hashed", ["", "x", "$argon2id$v=19$m=1,t=1,p=1$AA$AA", "$2b$12$abcdefghijklmnopqrstuv"])
def test_damaged_hashes_match_nothing(hasher, hashed):
    assert not hasher.matches(KEY, hashed)


def test_a_missing_hash_takes_as_long_as_a_wrong_key(hasher):
    hashed = hasher.hash(KEY)

    def seconds(against):
        times = []
        for _ in range(7):
            started = time.process_time()
            assert not hasher.matches("wrong", against)
            times.append(time.process_time() - started)
        return min(times)

    assert 0.5 < seconds(None) / seconds(hashed) < 2


def test_verified_keys_are_remembered_for_their_user_and_hash_only():
    verified = VerifiedKeys()
    verified.remember("alice", KEY, "hash 1")
    assert "alice" in verified
    assert "bob" not in verified
    assert verified.matches("alice", KEY, "hash 1")
    assert not verified.matches("alice", KEY, "hash 2")
    assert not verified.matches("alice", "other", "hash 1")
    assert not verified.matches("bob", KEY, "hash 1")
    assert KEY not in str(vars(verified))


def test_few_verified_keys_are_remembered():
    verified = VerifiedKeys()
    for number in range(1500):
        verified.remember(f"u{number}", KEY, "hash")
    assert "u0" not in verified
    assert "u1499" in verified
