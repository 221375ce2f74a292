"""The verbs about users of the service, on a real ZooKeeper."""

from __future__ import annotations

import json
import re
import time
import uuid

import pytest
import yaml
from kazoo.exceptions import NoAuthError

from support.commands import invoke
from support.pools.builders import POOLS, POOLS_DOCUMENT, add_ready_nodes, contextualizing
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.fleet.store.audit import read_acts
from zkdeployment.pools.acts.sessions import request_session
from zkdeployment.pools.opening import pool_adapters
from zkdeployment.pools.rules.snapshot import NodesSpec
from zkdeployment.service.users.key_hashes import KeyHasher
from zkdeployment.service.users.login_store import ZooKeeperLogins
from zkdeployment.service.users.user_store import ZooKeeperUsers
from zkdeployment.zookeeper.session import Session

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH6m0yGjKxWk0r5Q4yWqVx8QJqzv1n6xZl0m3q8h7b2d ci@example.com"
DAY = 86400


@pytest.fixture
def run(zookeeper):
    def call(*argv, status=0):
        done = invoke("user", *argv, "-z", zookeeper)
        assert done.returncode == status, done.stderr
        return done

    return call


@pytest.fixture
def logins(zookeeper):
    with Session(zookeeper) as session:
        hasher, clock = KeyHasher(), SystemClock()
        yield ZooKeeperLogins(session, (), ZooKeeperUsers(session, (), hasher, clock), hasher, clock)


def listed(run):
    answer = json.loads(run("list", "-o", "json").stdout)
    assert answer["schema"] == "zkdeployment/users/v1"
    return {user["name"]: user for user in answer["users"]}


def test_a_user_is_added_gets_another_key_and_is_retired(run, zookeeper, logins):
    assert "there is no user" in run("list").stderr
    added = run("add", "alice", "--role", "operator")
    first = added.stdout.strip()
    assert str(uuid.UUID(first)) == first
    assert "added alice (operator); the key above is shown only now" in added.stderr
    assert first not in added.stderr
    assert logins.verify("alice", first, "192.0.2.1").name == "alice"
    second = run("reset-key", "alice", "--reason", "the laptop was lost").stdout.strip()
    assert logins.verify("alice", second, "192.0.2.1").name == "alice"
    assert run("retire", "alice", "--reason", "left the team").stdout == "retired alice\n"
    assert [listed(run)["alice"][name] for name in ("id", "role", "active")] == [1, "operator", False]
    assert re.search(r"retired \d+ s ago", run("list").stdout)
    with Session(zookeeper) as session:
        acts = read_acts(session)
    assert [(act.what, act.reason) for act in acts] == [
        ("add user alice (operator)", ""),
        ("reset the key of user alice", "the laptop was lost"),
        ("retire user alice", "left the team"),
    ]
    assert all("@" in act.by for act in acts)
    assert "the user alice is retired permanently" in run("reset-key", "alice", status=3).stderr
    assert "there is a user alice already" in run("add", "alice", "--role", "admin", status=3).stderr
    assert "'b/c' is not a user name" in run("add", "b/c", "--role", "admin", status=3).stderr
    assert "there is no user 'bob'" in run("retire", "bob", "--reason", "x", status=3).stderr


def test_the_sessions_of_a_tenant_end_when_it_is_retired(run, zookeeper, tmp_path, monkeypatch):
    (tmp_path / "ci.pub").write_text(PUBLIC_KEY)
    run("add", "ci", "--role", "tenant", "--ssh-key", str(tmp_path / "ci.pub"))
    with Session(zookeeper) as session:
        users = ZooKeeperUsers(session, (), KeyHasher(), SystemClock())
        pools = pool_adapters(session)
        monkeypatch.setattr(pools.store, "configuration", lambda: POOLS)
        add_ready_nodes(pools.store, 1)
        with contextualizing(pools.store):
            begun = request_session(users.user("ci"), (NodesSpec("web", 1),), pools, by="ci")
        assert run("retire", "ci", "--reason", "the team is gone").stdout == "retired ci\n"
        ended = pools.store.session(begun.session.id)
        assert ended.retired_at is not None
        assert "@" in ended.retired_by


def test_a_tenant_gets_the_keys_of_several_files_and_lists_with_other_lines_are_refused(run, zookeeper, tmp_path):
    first, second, wrong = (tmp_path / name for name in ("ann.pub", "team.pub", "wrong.pub"))
    first.write_text(f"{PUBLIC_KEY}\n")
    second.write_text(f"{PUBLIC_KEY} b\n{PUBLIC_KEY} c\n")
    wrong.write_text(f'{PUBLIC_KEY}\ncommand="id" {PUBLIC_KEY}\n')
    run("add", "ci", "--role", "tenant", "--ssh-key", first, "--ssh-key", second)
    with Session(zookeeper) as session:
        user = ZooKeeperUsers(session, (), KeyHasher(), SystemClock()).user("ci")
    assert user.ssh_key.split("\n") == [PUBLIC_KEY, f"{PUBLIC_KEY} b", f"{PUBLIC_KEY} c"]
    refused = run("add", "x", "--role", "tenant", "--ssh-key", wrong, status=2)
    assert "wrong.pub: line 2: expected one line, TYPE KEY" in refused.stderr
    wrong.write_text("\n".join(f"{PUBLIC_KEY} {number}" for number in range(10)))
    refused = run("add", "x", "--role", "tenant", "--ssh-key", first, "--ssh-key", wrong, status=2)
    assert "--ssh-key: expected at most 10 keys, one in each line, found 11" in refused.stderr


def test_missing_limits_of_a_tenant_are_those_of_the_published_pools(run, publishing):
    added = json.loads(run("add", "ci", "--role", "tenant", "-o", "json").stdout)["user"]
    assert added["effective_node_quota"] == listed(run)["ci"]["effective_node_quota"] == 10
    publishing.push("/a\n", pools_yaml=POOLS_DOCUMENT)
    publishing.sync()
    changed = json.loads(run("reset-key", "ci", "-o", "json").stdout)["user"]
    assert changed["effective_node_quota"] == listed(run)["ci"]["effective_node_quota"] == 2


def test_a_tenant_has_limits_and_its_ssh_key_is_masked(run, tmp_path):
    file = tmp_path / "ci.pub"
    file.write_text(f"{PUBLIC_KEY}\n")
    options = ("--ssh-key", file, "--quota", 3, "--session-lifetime", "1h30m", "--expires", "90d", "-o", "json")
    answer = json.loads(run("add", "ci", "--role", "tenant", *options).stdout)
    assert answer["schema"] == "zkdeployment/user-key/v1"
    assert str(uuid.UUID(answer["key"])) == answer["key"]
    user = answer["user"]
    assert user["key_expires_at"] == pytest.approx(time.time() + 90 * DAY, abs=60)
    limits = ("node_quota", "effective_node_quota", "session_lifetime", "effective_session_lifetime")
    assert [user[name] for name in limits] == [3, 3, 5400, 5400]
    assert (user["session_lifetime_max"], user["effective_session_lifetime_max"]) == (None, 12 * 3600)
    assert user["ssh_key"] == "***"
    for output in ("table", "json", "yaml"):
        assert "AAAAC3" not in run("list", "-o", output).stdout
    assert yaml.safe_load(run("list", "-o", "yaml").stdout)["users"] == [user]
    assert "expires in 89 d" in run("list").stdout


def test_an_operator_is_limited_to_paths(run):
    limit = ("--path", "/shop", "--path", "/web/front", "--path", "/shop")
    added = run("add", "bob", "--role", "operator", *limit)
    assert "added bob (operator, only /shop, /web/front); the key" in added.stderr
    run("add", "alice", "--role", "operator")
    run("reset-key", "bob", "--reason", "lost")
    assert {name: user["paths"] for name, user in listed(run).items()} == {
        "bob": ["/shop", "/web/front"],
        "alice": [],
    }
    assert "/shop, /web/front" in run("list").stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--role", "root"], "'root' is not one of"),
        (["--role", "viewer", "--path", "/shop"], "--path: only operators can be limited to paths"),
        (["--role", "operator", "--path", "shop"], "--path: 'shop' is not the path of a node: expected /shop"),
        (["--role", "tenant", "--expires", "soon"], "expected a duration such as 90d"),
        (["--role", "tenant", "--expires", "2001-01-01"], "expected a time in the future"),
        (["--role", "tenant", "--session-lifetime", "0h"], "expected a duration such as 90d or 1h30m, at most"),
        (["--role", "tenant", "--session-lifetime", "999999999w"], "at most 100 years, found '999999999w'"),
        (["--role", "tenant", "--ssh-key", "/nowhere/key.pub"], "cannot read /nowhere/key.pub"),
    ],
)
def test_wrong_options_are_usage_errors(run, options, message):
    assert message in run("add", "ci", *options, status=2).stderr


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", "found nothing"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n", "found a private key; never give that away"),
        (f'command="/bin/sh" {PUBLIC_KEY}', "found other text"),
        (f"{PUBLIC_KEY}\n\n{PUBLIC_KEY}", "line 2: expected one line"),
    ],
)
def test_a_file_with_anything_but_public_keys_is_refused(run, tmp_path, content, found):
    file = tmp_path / "key"
    file.write_text(content)
    assert found in run("add", "ci", "--role", "tenant", "--ssh-key", file, status=2).stderr
    assert listed(run) == {}


def test_the_users_are_open_only_to_the_credentials_of_the_service(tmp_path, zookeeper, client):
    (tmp_path / "credentials").write_text("service:secret")
    (tmp_path / "credentials").chmod(0o600)
    config = tmp_path / "zkdeployment.cfg"
    config.write_text(
        f"[zkdeployment]\nzookeeper = {zookeeper}\nzookeeper-credentials = {tmp_path}/credentials\n"
        "zookeeper-plain-text = yes\nzookeeper-acl = creator:cdrwa\n  world:anyone:r\n"
    )
    assert invoke("user", "add", "alice", "--role", "admin", "--config", config).returncode == 0
    assert "alice" in invoke("user", "list", "--config", config).stdout
    with pytest.raises(NoAuthError):
        client.get("/zkdeployment/users/alice")
    refused = invoke("user", "list", "-z", zookeeper)
    assert refused.returncode == 3
    assert "ZooKeeper does not allow to read /zkdeployment/users" in refused.stderr
