import configparser

import pytest

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.host import Host, Identity
from zkdeployment.sandbox.layout import (
    Layout,
    SandboxDescription,
    SandboxService,
    agent_configuration,
    default_directory,
    log_tail,
    tools_configuration,
)

HOST = Host(Identity("id1", "one.example.com", "web"), tags=("ssd", "edge"), labels={"site": "ams"}, rack="r1")


def read(text):
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    return {section: dict(parser[section]) for section in parser.sections()}


def test_an_agents_configuration_contains_its_identity_and_paths(tmp_path):
    place = Layout(tmp_path).host("id1")
    text = agent_configuration(
        place,
        HOST,
        zookeeper="127.0.0.1:1",
        repositories=tmp_path / "definitions",
        reboot=["python", "reboot", "a b"],
    )
    assert read(text) == {
        "zkdeployment": {
            "host-id": "id1",
            "host-name": "one.example.com",
            "role": "web",
            "run-directory": str(tmp_path / "hosts/id1/run"),
            "zookeeper": "127.0.0.1:1",
            "root": str(tmp_path / "hosts/id1/root"),
            "tags": "ssd, edge",
            "labels": "site=ams",
            "rack": "r1",
            "lock-delay": "5",
            "packages": "dnf",
            "repositories": str(tmp_path / "definitions"),
            "reboots": "yes",
            "reboot-command": "python reboot 'a b'",
        }
    }


def test_a_host_without_role_and_facts_has_no_such_keys(tmp_path):
    host = Host(Identity("a", "a.sandbox"))
    place = Layout(tmp_path).host("a")
    text = agent_configuration(place, host, zookeeper="x:1", repositories=tmp_path, reboot=["reboot"])
    assert not read(text)["zkdeployment"].keys() & {"role", "tags", "labels", "rack"}


def test_the_tools_the_syncer_and_the_service_share_a_configuration(tmp_path):
    service = SandboxService(8420, "sandbox", "a-key")
    description = SandboxDescription((HOST,), {1: (1, 2, 3)}, syncer=True, service=service)
    document = read(tools_configuration(Layout(tmp_path), description, "/tree.git"))
    assert document["zkdeployment"]["zookeeper"] == "127.0.0.1:1"
    assert document["server"]["listen"] == "127.0.0.1:8420"
    assert document["sync"]["url"] == "/tree.git"
    assert document["sync"]["branch"] == "main"
    assert "contained-in" not in document["sync"]
    assert "promote" not in document


def test_the_home_of_several_fleets_has_a_promoter_and_its_syncer_publishes_only_commits_of_main(tmp_path):
    fleets = ("fleet1", "fleet2")
    description = SandboxDescription((HOST,), {}, syncer=True, follows="fleets/fleet1", fleets=fleets)
    document = read(tools_configuration(Layout(tmp_path), description, "/tree.git"))
    assert document["sync"]["branch"] == "fleets/fleet1"
    assert document["sync"]["contained-in"] == document["promote"]["branch"] == "main"
    assert document["promote"]["token-directory"] == str(tmp_path / "promoter" / "tokens")


def test_description_round_trips(tmp_path):
    file = tmp_path / "sandbox.json"
    description = SandboxDescription(
        (HOST, Host(Identity("b", "b.sandbox"))),
        {1: (1, 2, 3), 2: (4, 5, 6)},
        syncer=True,
        service=SandboxService(8420, "sandbox", "a-key"),
        follows="fleets/fleet1",
        home="/home/of/fleets",
        fleets=("fleet1", "fleet2"),
    )
    description.save(file)
    assert SandboxDescription.load(file) == description
    assert description.zookeeper == "127.0.0.1:1,127.0.0.1:4"
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"hosts": 1}'])
def test_the_error_for_a_damaged_description_names_the_command_to_remove_the_sandbox(tmp_path, content):
    file = tmp_path / "sandbox.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=f"is damaged.*sandbox down -d {tmp_path}"):
        SandboxDescription.load(file)


def test_an_unreadable_description_is_not_reported_as_damaged(tmp_path):
    with pytest.raises(ConfigurationError, match=f"cannot read {tmp_path}: Is a directory"):
        SandboxDescription.load(tmp_path)


def test_the_error_for_a_missing_sandbox_names_the_command_to_start_it(tmp_path):
    with pytest.raises(ConfigurationError, match=f"no sandbox in {tmp_path}.*sandbox up -d"):
        SandboxDescription.load(tmp_path / "sandbox.json")


def test_the_default_place_is_under_the_users_state_directory(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert str(default_directory()) == "/state/zkdeployment/sandbox"


def test_a_user_without_a_home_has_to_specify_the_directory(monkeypatch):
    def homeless(*_: object, **__: object) -> str:
        raise RuntimeError

    monkeypatch.setattr("platformdirs.user_state_dir", homeless)
    with pytest.raises(ConfigurationError, match="no home for a sandbox; specify its directory with -d DIR"):
        default_directory()


def test_the_tail_of_a_log_is_one_line(tmp_path):
    log = tmp_path / "log"
    assert log_tail(log) == "no output"
    log.write_text("one\ntwo\n\nthree\n", encoding="utf-8")
    assert log_tail(log, lines=2) == "two / three"
