from __future__ import annotations

import json
import os
import re
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from support.certificates import Authority
from support.commands import invoke
from support.keys import make_key
from zkdeployment.base.errors import ConfigurationError, NotFoundError
from zkdeployment.cli import options
from zkdeployment.cli.verbs import history, locks
from zkdeployment.config import settings as finding
from zkdeployment.config.settings import section_tables
from zkdeployment.programs.verbs import program
from zkdeployment.zookeeper.servers import Access, Servers

#: All shipped configuration files.
SAMPLES = sorted((Path(__file__).parents[3] / "etc").glob("*.cfg"))


@click.command()
@options.zookeeper_options
@options.output_option
def verb(connection: Servers, output: str) -> None:
    options.emit({"connection": str(connection), "café": [1, None]}, output)


@pytest.fixture(autouse=True)
def _system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "SYSTEM_CONFIGURATION", tmp_path / "system.cfg")
    for name in ("ZKDEPLOYMENT_CONFIG", "ZC_ZK_CONNECTION_STRING"):
        monkeypatch.delenv(name, raising=False)


def configuration(file: Path, connection: str) -> str:
    file.write_text(f"[zkdeployment]\nhost-id = http://127.0.0.1:1/\nzookeeper = {connection}\n")
    return str(file)


def connection(*arguments: str, **environment: str) -> str:
    result = CliRunner().invoke(verb, [*arguments, "-o", "json"], env=environment, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    address: str = json.loads(result.stdout)["connection"]
    return address


def test_zookeeper_is_found_in_the_documented_order(tmp_path: Path):
    everything = {
        "ZKDEPLOYMENT_CONFIG": configuration(tmp_path / "named.cfg", "named:1"),
        "ZC_ZK_CONNECTION_STRING": "inherited:1",
    }
    assert connection() == "zookeeper:2181"
    configuration(tmp_path / "system.cfg", "system:1")
    assert connection() == "system:1"
    assert connection(ZC_ZK_CONNECTION_STRING="inherited:1") == "inherited:1"
    assert connection(**everything) == "named:1"
    assert connection("--config", configuration(tmp_path / "option.cfg", "option:1"), **everything) == "option:1"
    assert connection("-z", "given:1", "--config", str(tmp_path / "missing"), **everything) == "given:1"


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The servers that the verbs of the groups locks and history opened, while the system's are system:1."""
    configuration(tmp_path / "system.cfg", "system:1")
    addresses: list[str] = []

    def open_operator(connection: Servers) -> None:
        addresses.append(str(connection))
        raise NotFoundError("there is no lock")

    for module in (history, locks):
        monkeypatch.setattr(module, "open_operator", open_operator)
    return addresses


@pytest.mark.parametrize(
    ("group", "verb", "expected"),
    [
        (["--config", "group.cfg"], [], "group:1"),
        (["--config", "group.cfg"], ["--config", "verb.cfg"], "verb:1"),
        (["-z", "given:1", "--config", "group.cfg"], [], "given:1"),
        (["-z", "given:1"], ["-z", "verb:2"], "verb:2"),
        ([], [], "environment:1"),
    ],
)
def test_a_verb_of_a_group_inherits_the_options_of_the_groups_command_line(
    group: list[str], verb: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened
):
    monkeypatch.chdir(tmp_path)
    for name in ("group", "verb", "environment"):
        configuration(tmp_path / f"{name}.cfg", f"{name}:1")
    monkeypatch.setenv("ZKDEPLOYMENT_CONFIG", "environment.cfg")
    for words in (["locks", *group, "release", "web", "--reason", "x", "--yes"], ["history", *group, "show", "7"]):
        assert invoke(*words, *verb).returncode == 3
    assert opened == [expected, expected]


def test_a_verb_of_a_group_inherits_the_output_format_of_the_groups_command_line():
    @click.group()
    @options.output_option
    def group(output: str) -> None:
        del output

    group.add_command(verb)
    given = ["-o", "yaml", "verb", "-z", "a:1"]
    assert CliRunner().invoke(group, given).stdout.startswith("connection: a:1\n")
    assert json.loads(CliRunner().invoke(group, [*given, "-o", "json"]).stdout)["connection"] == "a:1"


def test_authentication_is_configured_independently_of_the_source_of_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    secret = tmp_path / "credentials"
    secret.write_text("agents:secret\n")
    secret.chmod(0o600)
    named = tmp_path / "named.cfg"
    named.write_text(
        f"[zkdeployment]\nzookeeper = named:1\nzookeeper-credentials = {secret}\nzookeeper-plain-text = yes\n"
    )
    for zookeeper, connection in (("given:1", "given:1"), (None, "named:1")):
        servers = finding.find_servers(zookeeper, named)
        assert (str(servers), servers.access.secret) == (connection, "agents:secret")
        assert "agents:secret" not in repr(servers)
    assert finding.find_servers("given:1", None).access == Access()
    system = named.rename(tmp_path / "system.cfg")
    assert finding.find_servers("given:1", None).access.secret == "agents:secret"
    monkeypatch.setattr(os, "access", lambda path, _mode: path != system)
    assert finding.find_servers("given:1", None).access == Access()


@pytest.mark.parametrize(
    ("arguments", "environment", "problem"),
    [
        (["-z", "a:b"], {}, "--zookeeper: expected HOST:PORT"),
        (
            ["-z", ""],
            {"ZC_ZK_CONNECTION_STRING": "inherited:1"},
            "--zookeeper: expected HOST:PORT.*, found nothing",
        ),
        ([], {"ZC_ZK_CONNECTION_STRING": "a b"}, "ZC_ZK_CONNECTION_STRING: expected HOST:PORT"),
        (["--config", "/missing.cfg"], {}, "there is no configuration file /missing.cfg"),
    ],
)
def test_an_invalid_zookeeper_address_or_configuration_path_is_an_error(
    arguments: list[str], environment: dict[str, str], problem: str
):
    with pytest.raises(ConfigurationError, match=problem):
        CliRunner().invoke(verb, arguments, env=environment, catch_exceptions=False)


def test_the_error_for_the_default_address_names_the_options(monkeypatch):
    for module in (options, finding):
        monkeypatch.setattr(module, "DEFAULT_CONNECTION", "127.0.0.1:1")
    errors = {arguments: invoke("status", *arguments).stderr for arguments in ((), ("-z", "127.0.0.1:2"))}
    assert errors[()].endswith(
        "127.0.0.1:1: Connection refused; this is the default address: give another one with -z or --config\n"
    )
    assert errors["-z", "127.0.0.1:2"].endswith("127.0.0.1:2: Connection refused\n")


def test_output_is_plain_data():
    as_json = CliRunner().invoke(verb, ["-z", "a:1", "-o", "json"])
    as_yaml = CliRunner().invoke(verb, ["-z", "a:1", "-o", "yaml"])
    assert json.loads(as_json.stdout) == yaml.safe_load(as_yaml.stdout) == {"connection": "a:1", "café": [1, None]}


def test_config_check_prints_the_parsed_values(tmp_path: Path):
    file = tmp_path / "x.cfg"
    file.write_text(
        "[zkdeployment]\nhost-id = a\nhost-name = n\nafter = logger 'a b'\ntags = x, y\nlabels = a=1\n"
        "[sync]\nurl = https://me:secret@git.example.com/tree\ntree-directory = /t\n"
    )
    result = CliRunner().invoke(program, ["config", "check", str(file)], catch_exceptions=False)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    for line in (
        "host-id = a",
        "host-name = n",
        "role =",
        "after = logger 'a b'",
        "tags = x, y",
        "labels = a=1",
        "zookeeper = zookeeper:2181",
        "url = https://***@git.example.com/tree",
        "tree-directory = /t",
    ):
        assert line in lines


@pytest.mark.parametrize("commented", [True, False], ids=["as it is", "all of it"])
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_config_check_accepts_the_samples(sample: Path, commented: bool, tmp_path: Path):
    file = tmp_path / sample.name
    text = sample.read_text()
    text = text if commented else re.sub(r"^# (?=[a-z-]+ = )", "", text, flags=re.MULTILINE)
    Authority(tmp_path).issue("agent")
    for name in ("publish_key", "lease_key"):
        make_key(tmp_path / name)
    (tmp_path / "publishers").write_text('syncer namespaces="zkdeployment-publication" ssh-ed25519 AAAA\n')
    credentials = tmp_path / "zookeeper.credentials"
    credentials.touch(mode=0o600)
    credentials.write_text("agents:secret\n")
    text = text.replace("file:///etc/machine-id", "0015C5F4D4F0").replace("/etc/zkdeployment/", f"{tmp_path}/")
    file.write_text(text)
    result = CliRunner().invoke(program, ["config", "check", str(file), "-o", "json"], catch_exceptions=False)
    understood = json.loads(result.stdout)
    assert understood["zkdeployment"]["host-id"] == "0015C5F4D4F0"
    assert ("nagios" in understood) is not commented  # the bridge has no defaults for what it needs
    assert ("metrics main" in understood) is not commented
    assert ("promote" in understood) is not commented
    for section, table in section_tables().items():
        keys = table.rows()
        if section in {"nagios", "metrics", "promote"} and commented:
            continue
        found = understood["metrics main" if section == "metrics" else section]
        assert found.keys() == set(keys)
        if not commented:
            assert {key for key in keys if found[key] in (None, "", [], {})} <= {"role"}


@pytest.mark.parametrize(("mode", "warns"), [(0o644, True), (0o640, False)])
def test_config_check_warns_of_a_world_readable_password(tmp_path: Path, mode: int, warns: bool):
    file = tmp_path / "x.cfg"
    file.write_text("[sync]\nurl = https://me:secret@git.example.com/tree\ntree-directory = /t\n")
    file.chmod(mode)
    result = CliRunner().invoke(program, ["config", "check", str(file)], catch_exceptions=False)
    assert result.exit_code == 0
    warning = f"warning: url contains a secret, and {file} is accessible to all users; run chmod o-rwx {file}\n"
    assert result.stderr == (warning if warns else "")
    assert "me:secret" not in result.output


def warnings_of(result: Result) -> str:
    """Return the standard error of a check without the line that names the package manager of the machine."""
    return "".join(line for line in result.stderr.splitlines(True) if not line.startswith("packages are changed"))


def test_config_check_warns_of_a_minimum_sequence_without_publishers(tmp_path: Path):
    file = tmp_path / "x.cfg"
    file.write_text("[zkdeployment]\nhost-id = h1\nminimum-sequence = 7\n")
    result = CliRunner().invoke(program, ["config", "check", str(file)], catch_exceptions=False)
    assert warnings_of(result) == (
        "warning: minimum-sequence has no effect without publishers; set publishers, or remove it\n"
    )


def test_config_check_warns_of_publishers_whose_keys_may_sign_everything(tmp_path: Path):
    file, publishers = tmp_path / "x.cfg", tmp_path / "publishers"
    file.write_text(f"[zkdeployment]\npublishers = {publishers}\n")
    publishers.write_text('one ssh-ed25519 AAAA\ntwo namespaces="zkdeployment-lease" ssh-ed25519 AAAA\n')
    result = CliRunner().invoke(program, ["config", "check", str(file)], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stderr == (
        f"warning: the keys of one in {publishers} may sign publications for all hosts, also if they belong to"
        ' workers of host pools: expected namespaces="zkdeployment-publication" or namespaces="zkdeployment-lease"'
        " before each key; add it\n"
    )
    publishers.write_text('two namespaces="zkdeployment-lease" ssh-ed25519 AAAA\n')
    result = CliRunner().invoke(program, ["config", "check", str(file)], catch_exceptions=False)
    assert result.stderr == ""


def test_config_check_refuses_publishers_without_a_key_for_the_verified_statements(tmp_path: Path):
    file, publishers = tmp_path / "x.cfg", tmp_path / "publishers"
    worker = f"[zkdeployment]\npublishers = {publishers}\n[pools]\ninterval = 5m\n"
    host = worker.replace("[pools]", "host-id = h1\n[pools]")
    syncer = f"{worker}[sync]\nurl = /r\ntree-directory = /t\npublish-key = {make_key(tmp_path / 'key')}\n"
    typo, lease = (f'one namespaces="{name}" ssh-ed25519 AAAA\n' for name in ("other", "zkdeployment-lease"))
    for configuration, keys, expected, found in (
        (host, typo, 'namespaces="zkdeployment-publication"', "other"),
        (host, lease, 'namespaces="zkdeployment-publication"', "zkdeployment-lease"),
        (syncer, lease, 'namespaces="zkdeployment-publication"', "zkdeployment-lease"),
        (worker, typo, 'namespaces="zkdeployment-publication" or namespaces="zkdeployment-lease"', "other"),
    ):
        file.write_text(configuration)
        publishers.write_text(keys)
        with pytest.raises(ConfigurationError) as raised:
            CliRunner().invoke(program, ["config", "check", str(file)], catch_exceptions=False)
        assert str(raised.value) == (
            f"publishers: no key in {publishers} may make the signatures that are verified with it: expected"
            f' {expected} before a key, found namespaces="{found}"; correct the list'
        )


def test_config_check_warns_of_publishers_who_cannot_sign_and_of_leases_without_a_signer(tmp_path: Path):
    file, publishers = tmp_path / "x.cfg", tmp_path / "publishers"
    file.write_text(f"[zkdeployment]\nhost-id = h1\nrole = lease:idle\npublishers = {publishers}\n")
    publication = 'one namespaces="zkdeployment-publication" ssh-ed25519 AAAA\n'
    publishers.write_text(f'{publication}two namespaces="zkdeployment-leases" ssh-ed25519 AAAA\n')
    result = CliRunner().invoke(program, ["config", "check", str(file)], catch_exceptions=False)
    assert warnings_of(result) == (
        f"warning: the keys of two in {publishers} may sign neither publications nor leases: expected"
        ' namespaces="zkdeployment-publication" or namespaces="zkdeployment-lease" before each key; correct or'
        f" remove them\nwarning: no key in {publishers} may sign leases, so this host follows none: expected a"
        ' line NAME namespaces="zkdeployment-lease" KEYTYPE KEY for each worker of host pools; add it\n'
    )
    publishers.write_text(f'{publication}two namespaces="zkdeployment-lease" ssh-ed25519 AAAA\n')
    result = CliRunner().invoke(program, ["config", "check", str(file)], catch_exceptions=False)
    assert warnings_of(result) == ""


def test_config_check_prints_machine_readable_output(tmp_path: Path):
    file = tmp_path / "x.cfg"
    file.write_text("[zkdeployment]\ntags = x, y\n")
    result = CliRunner().invoke(program, ["config", "check", str(file), "-o", "json"], catch_exceptions=False)
    understood = json.loads(result.stdout)
    assert understood["zkdeployment"]["tags"] == ["x", "y"]
    assert understood["zkdeployment"]["host-id"] is None
    assert "sync" not in understood


def test_config_check_reports_errors(tmp_path: Path):
    file = tmp_path / "x.cfg"
    file.write_text("[zkdeployment]\nhost_id = a\n")
    with pytest.raises(ConfigurationError, match="did you mean host-id"):
        CliRunner().invoke(program, ["config", "check", str(file)], catch_exceptions=False)
