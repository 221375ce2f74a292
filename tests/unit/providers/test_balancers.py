"""Files of load balancers: their servers, templates, the form of Envoy, the check and the reload."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.manual import MANUAL
from zkdeployment.base.errors import ConfigurationError, HostFilesError, ProgramError
from zkdeployment.providers.balancers import CheckedFile, command, envoy_endpoints, servers_of, template_renderer
from zkdeployment.providers.selection import ProviderSelection

EXAMPLES = MANUAL / "examples" / "load-balancer"


def selected(**providers):
    found = {address.replace("_", ":"): properties for address, properties in providers.items()}
    return ProviderSelection("/in-service/web", "1.4", found, {"old:80": {}})


def test_servers_are_the_instances_in_service_by_address():
    servers, problems = servers_of(selected(b_80={"zone": "a\nb"}, a_81={"weight": 2}))
    assert [(server.address, server.host, server.port, dict(server.properties)) for server in servers] == [
        ("a:81", "a", 81, {"weight": 2}),
        ("b:80", "b", 80, {"zone": "a\\nb"}),
    ]
    assert problems == ()


@given(st.text(max_size=12))
def test_no_address_of_an_instance_can_add_a_line_or_a_word(address):
    servers, problems = servers_of(ProviderSelection("/x/y", "1", {address: {}}, {}))
    assert len(servers) + len(problems) == 1
    assert all(server.address.isprintable() and not set(" ;{}\"'#\\") & set(server.address) for server in servers)


def test_the_examples_have_a_line_for_each_server():
    for name, lines in {
        "haproxy.cfg.j2": ["    server a:81 a:81", "    server b:80 b:80"],
        "nginx.conf.j2": ["    server a:81 max_fails=0;", "    server b:80 max_fails=0;"],
    }.items():
        content, problems = template_renderer(EXAMPLES / name)(selected(a_81={}, b_80={}))
        assert [line for line in content.decode().splitlines() if line.startswith("    server")] == lines
        assert content.decode().startswith("# The instances of /in-service/web in service: version 1.4\n")
        assert problems == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{% for server in servers %}", ":1: the template is invalid: Unexpected end of template"),
        (None, r"cannot read the template .*/web\.j2: No such file or directory$"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused(text, problem, tmp_path):
    file = tmp_path / "web.j2"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigurationError, match=problem):
        template_renderer(file)


@pytest.mark.parametrize(
    "text", ["{{ server }}", "{{ servers[9].address }}", "{{ 1 / 0 }}", "{{ ''.__class__.mro }}"]
)
def test_a_template_that_cannot_be_rendered_is_an_error(text, tmp_path):
    file = tmp_path / "web.j2"
    file.write_text(text)
    with pytest.raises(ProgramError, match="cannot render the template"):
        template_renderer(file)(selected())


def test_envoy_gets_addresses_and_ports_of_endpoints():
    content, problems = envoy_endpoints(
        ProviderSelection(
            "/in-service/web", "1.4", {"192.0.2.1:80": {}, "[2001:db8::1]:81": {}, "app1:80": {}}, {}
        )
    )
    answer = json.loads(content)
    (resource,) = answer["resources"]
    assert (answer["version_info"], resource["cluster_name"]) == ("1.4", "web")
    assert resource["@type"] == "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
    assert [
        tuple(found["endpoint"]["address"]["socket_address"].values())
        for found in resource["endpoints"][0]["lb_endpoints"]
    ] == [("192.0.2.1", 80), ("2001:db8::1", 81)]
    assert problems == ("instance app1:80 of /in-service/web is no endpoint: expected an IP address",)


#: A check that refuses files with the word ``bad``.
CHECK = "import sys; sys.exit('bad' in open(sys.argv[1]).read() and 'line 1 is bad')"

#: A process that is killed during the check of its first file.
CRASHING_FILTER = """
import pathlib, sys
from zkdeployment.providers.balancers import CheckedFile
CheckedFile(pathlib.Path(sys.argv[1]), ["sh", "-c", "kill -9 $PPID"]).load(b"bad")
"""


class Kept:
    """A file with a check and a reload, whose calls are counted."""

    def __init__(self, place: Path) -> None:
        self.file, self.reloads = place / "web.cfg", place / "reloads"
        count = f"cat {self.file} >> {self.reloads}; test ! -e {place}/broken"
        self.check = (sys.executable, "-c", CHECK, str(self.file))
        self.reload = ("sh", "-c", count)
        self.place = place

    def open(self) -> CheckedFile:
        return CheckedFile(self.file, self.check, self.reload)

    def state(self):
        reloads = self.reloads.read_text() if self.reloads.exists() else ""
        return self.file.read_text(), reloads, sorted(file.name for file in self.place.glob("*web*"))


@pytest.fixture
def kept(tmp_path):
    return Kept(tmp_path)


def test_a_file_is_loaded_once_for_each_content(kept):
    file = kept.open()
    assert [file.load(content) for content in (b"one ", b"one ", b"two ")] == [True, False, True]
    assert kept.state() == ("two ", "one two ", ["web.cfg"])
    assert kept.open().load(b"two ")  # another process does not know whether the content was loaded
    assert kept.state() == ("two ", "one two two ", ["web.cfg"])


def test_a_file_that_the_check_refuses_is_not_loaded_and_the_former_one_stays(kept):
    file = kept.open()
    with pytest.raises(
        ProgramError, match=r"the new .*web.cfg is not used: .* failed with status 1: line 1 is bad"
    ):
        file.load(b"bad")
    assert not kept.file.exists()
    file.load(b"one ")
    for _ in range(2):
        with pytest.raises(ProgramError, match="line 1 is bad"):
            file.load(b"bad")
    assert kept.state() == ("one ", "one ", ["web.cfg"])


def test_a_reload_that_failed_is_repeated(kept):
    file = kept.open()
    (kept.place / "broken").touch()
    with pytest.raises(ProgramError, match="failed with status 1"):
        file.load(b"one ")
    (kept.place / "broken").unlink()
    assert file.load(b"one ")
    assert kept.state() == ("one ", "one one ", ["web.cfg"])


def test_the_loaded_content_is_loaded_again_after_a_failed_reload_of_another_one(kept):
    file = kept.open()
    file.load(b"one ")
    (kept.place / "broken").touch()
    with pytest.raises(ProgramError, match="failed with status 1"):
        file.load(b"two ")
    (kept.place / "broken").unlink()
    assert file.load(b"one ")
    assert kept.state() == ("one ", "one two one ", ["web.cfg"])


def test_a_first_file_is_removed_after_a_crash_during_its_check(kept):
    crash = subprocess.run([sys.executable, "-c", CRASHING_FILTER, kept.file], check=False)
    assert (crash.returncode, kept.file.read_text()) == (-signal.SIGKILL, "bad")
    with pytest.raises(ProgramError, match="line 1 is bad"):
        kept.open().load(b"also bad")
    assert not [*kept.place.glob("*web*")]


def test_the_former_file_is_restored_after_a_crash_during_a_check(kept):
    kept.file.write_text("bad")
    kept.file.with_name(".web.cfg.before").write_text("one ")
    with pytest.raises(ProgramError, match="line 1 is bad"):
        kept.open().load(b"also bad")
    assert kept.state() == ("one ", "", ["web.cfg"])


def test_a_file_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(HostFilesError, match="make its directory writable"):
        CheckedFile(tmp_path / "missing" / "web.cfg").load(b"one")


def test_commands_need_an_existing_program():
    assert command("sh -c 'exit 0'") == ("sh", "-c", "exit 0")
    for text in ("", "missing-program -t", "sh 'x"):
        with pytest.raises(ConfigurationError):
            command(text)
