from __future__ import annotations

import socket
from functools import partial
from pathlib import Path

import pytest

from support.web.servers import silent_server, web_server
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.host import Identity
from zkdeployment.config import forms as sources
from zkdeployment.config import settings as configuration
from zkdeployment.config.settings import Settings, chosen_settings, chosen_settings_if_any, load
from zkdeployment.promotion.settings import PromoteSettings
from zkdeployment.publishing.settings import SyncSettings
from zkdeployment.rollouts.settings import CoordinateSettings
from zkdeployment.zookeeper.servers import AclEntry

SAMPLE = Path(__file__).parents[3] / "etc" / "zkdeployment.cfg"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "zkdeployment.cfg"


def loaded(file: Path, text: str, section: str = "zkdeployment") -> Settings:
    file.write_text(f"[{section}]\n{text}\n")
    return load(file)


def refused(file: Path, text: str, section: str = "zkdeployment") -> str:
    with pytest.raises(ConfigurationError) as error:
        loaded(file, text, section)
    assert error.value.exit_code == 2
    assert str(error.value).startswith(f"{file}:")
    return str(error.value).removeprefix(f"{file}:").strip()


def test_a_named_configuration_goes_before_that_of_the_system(file, tmp_path, monkeypatch):
    system = tmp_path / "system.cfg"
    monkeypatch.setattr(configuration, "SYSTEM_CONFIGURATION", system)
    assert chosen_settings_if_any(None) is None
    with pytest.raises(ConfigurationError, match=r"system\.cfg"):
        chosen_settings(None)
    system.write_text("[zkdeployment]\nzookeeper = system:2181\n")
    file.write_text("[zkdeployment]\nzookeeper = named:2181\n")
    for chosen in (chosen_settings, chosen_settings_if_any):
        assert [chosen(config).servers.connection for config in (None, file)] == ["system:2181", "named:2181"]
        with pytest.raises(ConfigurationError, match=r"absent\.cfg"):
            chosen(tmp_path / "absent.cfg")


def test_the_sample_loads():
    settings = load(SAMPLE)
    assert settings.run_directory == Path("/var/run/zkdeployment")
    assert settings.of(SyncSettings) == SyncSettings(
        url="git@git.example.com:ops/tree.git", tree_directory=Path("/var/lib/zkdeployment/syncer/tree")
    )


def test_the_sample_with_everything_uncommented_loads(file: Path):
    lines = SAMPLE.read_text().splitlines()
    keys = [line.removeprefix("# ") for line in lines if " = " in line or line.startswith("[")]
    for name in ("ca.pem", "agent.pem", "agent.key", "zookeeper.credentials"):
        (file.parent / name).write_text("agents:secret\n")
        (file.parent / name).chmod(0o600)
    text = "\n".join(keys).replace("host-id = file:///etc/machine-id", "host-id = a")
    file.write_text(text.replace("/etc/zkdeployment/", f"{file.parent}/"))
    settings = load(file)
    assert settings.access.acl == (AclEntry("auth", "", "cdrwa"),)
    assert settings.labels == {"site": "ams", "tier": "web"}
    assert settings.after == ("/usr/bin/logger", "a deployment is done")


def test_a_metrics_file_has_the_suffix_of_collected_files(file: Path):
    for section in ("zkdeployment", "sync", "coordinate"):
        message = refused(file, "metrics = /var/lib/metrics.txt", section)
        assert message == (
            "metrics: expected a path that ends in .prom (other files are not collected),"
            " found '/var/lib/metrics.txt'"
        )


@pytest.mark.parametrize(("syncer", "coordinator"), [("a", "c"), ("s", "a"), ("s", "s")])
def test_a_shared_metrics_file_is_an_error(file: Path, syncer: str, coordinator: str):
    text = (
        "metrics = /m/a.prom\n[sync]\nurl = x\ntree-directory = /t\nmetrics = /m/{}.prom\n"
        "[coordinate]\nmetrics = /m/{}.prom"
    )
    message = refused(file, text.format(syncer, coordinator))
    twice = "s" if syncer == coordinator else "a"
    assert message == (f"metrics: expected separate files for each daemon, found /m/{twice}.prom twice")
    settings = loaded(file, text.format("s", "c"))
    assert (settings.metrics, settings.require(SyncSettings).metrics) == (Path("/m/a.prom"), Path("/m/s.prom"))
    assert settings.require(CoordinateSettings).metrics == Path("/m/c.prom")


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "7e3", "1_0", "\u0661", str(2**53), "9" * 500])
def test_an_invalid_minimum_sequence_is_an_error(file: Path, value: str):
    message = refused(file, f"minimum-sequence = {value}")
    assert message == (
        f"minimum-sequence: expected the sequence of a publication, a positive number, found {value!r}"
    )


def test_all_keys_are_read(file: Path):
    file.write_text(
        "[zkdeployment]\n"
        "host-id = 0015C5F4D4F0            # comment\n"
        "host-name = app1.example.com\n"
        "role = web server\n"
        "run-directory = /run/x\n"
        "after = /usr/bin/logger 'all done'\n"
        "after-failure = /usr/bin/page me\n"
        "zookeeper = zk1:2181,zk2/fleet\n"
        "root = /scratch\n"
        "tags = control, ssd,, ssd\n"
        "labels = site=ams, tier = web\n"
        "rack = rack01\n"
        "mailto = ops@example.com, root\n"
        "smtp = mail:2525\n"
        "script-timeout = 1.5\n"
        "lock-delay = 0\n"
        "stop-timeout = 90\n"
        "packages = none\n"
        "publishers = /etc/publishers\n"
        "minimum-sequence = 1767225600\n"
        "repositories = /etc/yum.repos.d https://rpms.example.com/x extra\n"
        "[sync]\n"
        "url = https://user:secret@git.example.com/tree.git\n"
        "branch = release/1\n"
        "tree-directory = /var/lib/tree\n"
        "interval = 60\n"
        "history = 40\n"
        "allowed-signers = /etc/signers\n"
        "governed-paths = /p1  /net/vlan12\n"
        "repositories = /etc/hosts.repos.d https://rpms.example.com/x\n"
    )
    assert load(file) == Settings(
        source=file,
        zookeeper="zk1:2181,zk2/fleet",
        root=Path("/scratch"),
        host_id="0015C5F4D4F0",
        host_name="app1.example.com",
        role="web server",
        named=True,
        run_directory=Path("/run/x"),
        after=("/usr/bin/logger", "all done"),
        after_failure=("/usr/bin/page", "me"),
        tags=("control", "ssd"),
        labels={"site": "ams", "tier": "web"},
        rack="rack01",
        mailto="ops@example.com, root",
        smtp="mail:2525",
        script_timeout=1.5,
        lock_delay=0,
        stop_timeout=90,
        packages="none",
        publishers=Path("/etc/publishers"),
        minimum_sequence=1767225600,
        repositories=("/etc/yum.repos.d", "https://rpms.example.com/x", "extra"),
        sections={
            "sync": SyncSettings(
                url="https://user:secret@git.example.com/tree.git",
                branch="release/1",
                tree_directory=Path("/var/lib/tree"),
                interval=60,
                history=40,
                allowed_signers=Path("/etc/signers"),
                governed_paths=("/p1", "/net/vlan12"),
                repositories=("/etc/hosts.repos.d", "https://rpms.example.com/x"),
            ),
        },
    )


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("any", None),
        ("none", ()),
        ("https://git.example.com/team/ git@git.example.com: /srv/git", None),
    ],
)
def test_checkout_sources_are_prefixes(file: Path, text, sources):
    file.write_text(f"[zkdeployment]\ncheckout-sources = {text}\n")
    expected = tuple(text.split()) if " " in text else sources
    assert load(file).checkout_sources == expected


@pytest.mark.parametrize("text", ["git", "none /srv/git"])
def test_a_checkout_source_that_is_not_a_prefix_is_an_error(file: Path, text):
    file.write_text(f"[zkdeployment]\ncheckout-sources = {text}\n")
    with pytest.raises(ConfigurationError, match="checkout-sources: expected any, none or prefixes of URLs"):
        load(file)


def test_an_empty_file_gives_defaults_and_required_values_are_checked_on_use(file: Path):
    file.write_text("")
    settings = load(file)
    assert settings == Settings(source=file)
    for require, noun in (
        (settings.require_identity, "host-id not specified"),
        (settings.require_run_directory, "run-directory not specified"),
        (partial(settings.require, SyncSettings), "url and tree-directory not specified in [sync]"),
    ):
        with pytest.raises(ConfigurationError) as error:
            require()
        assert str(error.value) == f"{file}: {noun}"


def test_required_values_are_returned(file: Path):
    settings = loaded(file, "host-id = a\nhost-name = a\nrun-directory = /run/x")
    assert settings.require_identity() == Identity("a", "a")
    assert settings.require_run_directory() == Path("/run/x")
    assert loaded(file, "url = x\ntree-directory = /t", "sync").require(SyncSettings).url == "x"


def test_the_default_host_name_is_the_machines_name(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(socket, "getfqdn", lambda: "app7.example.com")
    assert loaded(file, "host-id = a").require_identity().name == "app7.example.com"
    assert not loaded(file, "host-id = a").named
    assert loaded(file, "host-id = a\nhost-name = app7").named


def test_an_unusable_machine_name_is_an_error(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(socket, "getfqdn", lambda: "my machine")
    assert refused(file, "host-id = a").startswith(
        "host-name: not specified, and the machine's own name is not usable"
    )


def test_a_host_id_with_a_colon_is_text(file: Path):
    assert loaded(file, "host-id = 00:15:c5:f4:d4:f0\nhost-name = a").require_identity().id == "00:15:c5:f4:d4:f0"
    assert loaded(file, "host-id = http:a\nhost-name = a").require_identity().id == "http:a"


def test_values_of_files_are_stripped(file: Path, tmp_path: Path):
    (tmp_path / "host id").write_text("\n  app1 \n")
    (tmp_path / "role").write_text("db\n")
    settings = loaded(file, f"host-id = file://{tmp_path}/host%20id\nrole = file://{tmp_path}/role\nhost-name = n")
    assert settings.require_identity() == Identity("app1", "n", "db")


@pytest.mark.parametrize("content", [None, b"", b" \n"])
def test_a_missing_or_empty_file_counts_as_not_specified(file: Path, tmp_path: Path, content: bytes | None):
    if content is not None:
        (tmp_path / "value").write_bytes(content)
    assert (
        loaded(file, f"host-id = a\nhost-name = n\nrole = file://{tmp_path}/value").require_identity().role is None
    )
    settings = loaded(file, f"host-id = file://{tmp_path}/value")
    with pytest.raises(ConfigurationError, match="host-id not specified"):
        settings.require_identity()


def test_a_role_with_a_prefix_makes_a_host_that_can_be_leased(file, tmp_path):
    settings = loaded(file, "host-id = a\nhost-name = n\nrole = lease:spare")
    assert (settings.require_identity().role, settings.leasable) == ("spare", True)
    (tmp_path / "value").write_text("lease:idle\n")
    assert loaded(file, f"host-id = a\nhost-name = n\nrole = file://{tmp_path}/value").leasable
    assert not loaded(file, "host-id = a\nhost-name = n\nrole = spare").leasable
    problem = (
        "role: after lease:, expected the role of the host while it is not leased: '' is not a role (expected"
    )
    assert refused(file, "role = lease:").startswith(problem)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"x" * 2000, "expected at most 1024 bytes at file://"),
        (b"<html>", "'<html>' is not a host id"),
        (b"../etc", "'../etc' is not a host id"),
    ],
)
def test_an_external_file_with_other_content_is_an_error(file: Path, tmp_path: Path, content: bytes, problem: str):
    (tmp_path / "value").write_bytes(content)
    assert problem in refused(file, f"host-id = file://{tmp_path}/value")


def test_an_unreadable_file_is_an_error(file: Path, tmp_path: Path):
    assert refused(file, f"role = file://{tmp_path}") == f"role: cannot read {tmp_path}: Is a directory"


def test_values_are_read_from_addresses(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with web_server({"/id": (200, b" app1\n"), "/broken": (500, b"oh"), "/e": (200, b"")}) as url:
        assert loaded(file, f"host-id = {url}/id\nhost-name = n").require_identity().id == "app1"
        assert loaded(file, f"host-id = a\nhost-name = n\nrole = {url}/none").require_identity().role is None
        for nothing in ("none", "e"):
            with pytest.raises(ConfigurationError, match="host-id not specified"):
                loaded(file, f"host-id = {url}/{nothing}").require_identity()
        assert refused(file, f"host-id = {url}/broken") == (
            f"host-id: expected status 200 or 404 from {url}/broken, found 500"
        )


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"<!DOCTYPE html>\n<html><body>Sign in</body></html>\n", "is not a host id"),
        (b"x" * 300, "is not a host id"),
        (b"x" * 5000, "it answered with more than 1024 bytes"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"two words", "'two words' is not a host id"),
        (b"--installroot=/", "'--installroot=/' is not a host id"),
    ],
)
def test_a_response_that_is_not_a_host_id_is_an_error_of_one_line(file: Path, answer: bytes, problem: str):
    with web_server({"/id": (200, answer)}) as url:
        message = refused(file, f"host-id = {url}/id")
    assert message.startswith("host-id: ")
    assert problem in message
    assert "\n" not in message


def test_redirections_are_not_followed(file: Path):
    with web_server({"/moved": (302, b"/id"), "/id": (200, b"app1")}) as url:
        assert refused(file, f"host-id = {url}/moved") == (
            f"host-id: cannot read {url}/moved: it redirects to another place on {url}, which is not followed"
        )


def test_a_silent_server_is_abandoned(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sources, "_SECONDS", 0.2)
    with silent_server() as port:
        address = f"http://127.0.0.1:{port}/id"
        message = refused(file, f"host-id = {address}")
    assert message == f"host-id: cannot read {address}: it did not answer within 0.2 s"


@pytest.mark.parametrize(("status", "is_awaited"), [(500, True), (503, True), (403, False), (302, False)])
def test_the_answer_of_a_server_that_does_not_work_is_awaited(file: Path, status: int, is_awaited: bool):
    with web_server({"/id": (status, b"/other")}) as url, pytest.raises(ConfigurationError) as error:
        loaded(file, f"host-id = {url}/id")
    assert isinstance(error.value, sources.UnansweredError) is is_awaited


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/id", "http://", "http://[::1/x"])
def test_a_missing_response_is_an_error_that_names_the_address(file: Path, address: str):
    assert refused(file, f"host-id = {address}").startswith(f"host-id: cannot read {address}: ")


def test_a_password_in_an_address_is_not_shown(file: Path):
    assert "secret" not in refused(file, "host-id = http://me:secret@127.0.0.1:1/id")


def test_external_values_are_not_read_without_a_host(file: Path):
    file.write_text("[zkdeployment]\nhost-id = http://127.0.0.1:1/id\nrole = file:///etc\n")
    assert load(file, host=False).identity is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("after = /bin/echo 'a b' \"c d\"", ("/bin/echo", "a b", "c d")),
        ("after = /bin/echo\n   one\n   two", ("/bin/echo", "one", "two")),
        ("after = /bin/sh -c 'one\n     two'", ("/bin/sh", "-c", "one\ntwo")),
        ("after = $HOME/x *", ("$HOME/x", "*")),
        ("after =", ()),
        ("", ()),
    ],
)
def test_after_is_split_like_a_shell_line(file: Path, text: str, message: tuple[str, ...]):
    assert loaded(file, text).after == message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("host-id = a b", "host-id: 'a b' is not a host id"),
        ("host-id = a\nhost-name = a/b", "host-name: 'a/b' is not a host name"),
        ("role = a/b", "role: 'a/b' is not a role"),
        ("run-directory = run", "run-directory: expected an absolute path (/…), found 'run'"),
        ("root = ../x", "root: expected an absolute path (/…), found '../x'"),
        ("after = echo 'x", "after: expected a command in shell syntax: No closing quotation"),
        ("after = sh -c 'echo # x'", "a # after a blank begins a comment"),
        ("after = echo \\", "after: expected a command in shell syntax: No escaped character"),
        ("zookeeper = a:b", "zookeeper: expected HOST:PORT"),
        ("zookeeper = a..b:2181", "zookeeper: expected HOST:PORT"),
        ("labels = site", "labels: expected NAME=VALUE, separated by commas, found 'site'"),
        ("labels = =x", "labels: expected NAME=VALUE"),
        ("labels = a=1, a=2", "labels: expected one value of a, found '1' and '2'"),
        ("mailto = two words", "mailto: expected a mail address, found 'two words'"),
        ("smtp = a:b:c", "smtp: expected HOST:PORT, found 'a:b:c'"),
        ("smtp = mail:70000", "smtp: expected a port from 1 to 65535 in 'mail:70000', found 70000"),
        ("smtp = mail..example.com", "smtp: expected HOST:PORT, found 'mail..example.com'"),
        ("script-timeout = soon", "script-timeout: expected a number of seconds, found 'soon'"),
        ("script-timeout = -1", "script-timeout: expected a number of seconds, found '-1'"),
        ("lock-delay = soon", "lock-delay: expected a number of seconds, found 'soon'"),
        ("stop-timeout = -1", "stop-timeout: expected a number of seconds, found '-1'"),
        ("script-timeout = nan", "script-timeout: expected a number of seconds, found 'nan'"),
        ("stop-timeout = 1e300", "stop-timeout: expected a number of seconds, at most 31536000, found '1e300'"),
        ("lock-delay = 1_0", "lock-delay: expected a number of seconds, found '1_0'"),
        ("packages = apt", "packages: expected dnf or none, found 'apt'"),
        ("hostid = x", "unknown key hostid in [zkdeployment]; did you mean host-id?"),
    ],
)
def test_an_invalid_value_is_an_error(file: Path, text: str, problem: str):
    assert problem in refused(file, text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("history = 0", "history: expected a number from 1 to 99999, found '0'"),
        ("interval = 0", "interval: expected a positive number of seconds, found '0'"),
        ("tree-directory = tree", "tree-directory: expected an absolute path"),
        ("allowed-signers = signers", "allowed-signers: expected an absolute path"),
        (
            "governed-paths = /p1 p2",
            "governed-paths: expected paths of nodes, separated by blanks, as in /p1 /net",
        ),
        ("governed-paths = /p1/", "found '/p1/'"),
        ("approval-rules = /rules", "approval-rules: expected approvers beside it, found none"),
        ("branch = -x", "branch: expected the name of a branch, found '-x'"),
        ("branch = a..b", "branch: expected the name of a branch, found 'a..b'"),
        ("branch = a:b", "branch: expected the name of a branch, found 'a:b'"),
        ("branch = a/.b", "branch: expected the name of a branch, found 'a/.b'"),
        ("brnach = x", "unknown key brnach in [sync]; did you mean branch?"),
    ],
)
def test_an_invalid_sync_value_is_an_error(file: Path, text: str, problem: str):
    assert problem in refused(file, text, "sync")


def test_all_problems_are_in_one_error(file: Path):
    problem = refused(file, "hostid = x\nroot = x\nscript-timeout = x\n[sync]\nbranch = a b")
    assert [line.strip().partition(":")[0].partition(";")[0] for line in problem.splitlines()] == [
        "unknown key hostid in [zkdeployment]",
        "root",
        "script-timeout",
        "branch",
    ]


def test_values_of_the_command_line_override_the_file(file: Path):
    file.write_text("[sync]\nurl = a\nbranch = b\ntree-directory = /c\n")
    settings = load(file, host=False, sync={"url": "x", "tree-directory": "/z"})
    assert settings.require(SyncSettings) == SyncSettings(url="x", branch="b", tree_directory=Path("/z"))


def test_a_missing_file_is_an_error(file: Path):
    with pytest.raises(ConfigurationError, match=f"there is no configuration file {file}"):
        load(file)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[zkdeployment]\nrack = \xff\n", "line 2 is not UTF-8 text"),
        (b"#" * 2_000_000, "is not a configuration: expected at most"),
    ],
)
def test_a_file_with_other_content_is_an_error(file: Path, content: bytes, problem: str):
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=problem):
        load(file)


def test_a_directory_is_an_error(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"cannot read the configuration .*: Is a directory"):
        load(tmp_path)


def test_a_branch_cannot_be_contained_in_itself(file: Path):
    text = "[sync]\nurl = x\ntree-directory = /t\nbranch = main\ncontained-in = {}"
    assert (
        refused(file, text.format("main")) == "contained-in: expected another branch than branch, found the same"
    )
    assert loaded(file, text.format("trunk")).require(SyncSettings).contained_in == "trunk"


def test_the_section_of_the_promoter_names_its_missing_keys(file: Path):
    message = refused(file, "[promote]\nurl = git@git.example.com:ops/tree.git")
    assert "directory: not specified in [promote]" in message
    assert "token-directory: not specified in [promote]" in message
    settings = loaded(file, "[promote]\nurl = x\ndirectory = /d\ntoken-directory = /t").require(PromoteSettings)
    assert (settings.branch, settings.interval, settings.operator_token_directory) == ("main", 10.0, None)
    with pytest.raises(ConfigurationError, match=r"the section \[promote\] not specified"):
        loaded(file, "").require(PromoteSettings)
