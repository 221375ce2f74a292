"""Files of load balancers: their servers, templates, the form of Envoy, the check and the reload."""

import json
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.manual import MANUAL
from zkdeployment.base.errors import ConfigurationError, HostFilesError, ProgramError
from zkdeployment.providers.balancers import (
    CheckedFile,
    ServersFile,
    UnusableContentError,
    command,
    envoy_form,
    servers_of,
    template_form,
)
from zkdeployment.providers.selection import ProviderSelection

EXAMPLES = MANUAL / "examples" / "load-balancer"


def selected(**providers):
    found = {address.replace("_", ":"): properties for address, properties in providers.items()}
    return ProviderSelection("/in-service/web", "1.4", found, {"old:80": {}})


def rendered(form, selection):
    servers, problems = form.servers(selection)
    return form.render(selection, servers), problems


def test_servers_are_the_instances_in_service_by_address():
    servers, problems = servers_of(selected(b_80={"zone": "a\nb"}, a_81={"weight": 2}))
    assert [(server.address, server.host, server.port, dict(server.properties)) for server in servers] == [
        ("a:81", "a", 81, {"weight": 2}),
        ("b:80", "b", 80, {"zone": "a\\nb"}),
    ]
    assert problems == ()


def test_no_text_of_an_instance_has_a_second_line_at_any_depth():
    deep = {"a\nb": ["c\nd", {"e\u2028f": ("g\x1bh", "\ud800", 1, None)}]}
    ((server,), _) = servers_of(selected(a_80=deep))
    assert server.properties == {"a\\nb": ["c\\nd", {"e\\u2028f": ["g\\x1bh", "\\ud800", 1, None]}]}


def test_an_instance_with_endless_properties_is_omitted():
    nested = []
    for _ in range(10_000):
        nested = [nested]
    servers, problems = servers_of(selected(a_80={"x": nested}, b_80={}))
    assert [server.address for server in servers] == ["b:80"]
    assert problems == ("instance a:80 of /in-service/web is no server: expected properties with less depth",)


def test_instances_at_one_address_are_one_server():
    addresses = ("app1:08001", "app1:8001", "App1:08001", "[2001:DB8:0::1]:80", "[2001:db8::1]:80", "[1::2::3]:80")
    servers, problems = servers_of(ProviderSelection("/x", "1", {name: {"of": name} for name in addresses}, {}))
    assert [(server.address, server.name, server.properties["of"]) for server in servers] == [
        ("[2001:db8::1]:80", "2001:db8::1:80", "[2001:db8::1]:80"),
        ("app1:8001", "app1:8001", "app1:8001"),
    ]
    assert [problem.removeprefix("instance ") for problem in problems] == [
        "[1::2::3]:80 of /x is no server: expected an IPv6 address in brackets, found [1::2::3]",
        "App1:08001 of /x is omitted: instance app1:8001 is the same server",
        "[2001:DB8:0::1]:80 of /x is omitted: instance [2001:db8::1]:80 is the same server",
        "app1:08001 of /x is omitted: instance app1:8001 is the same server",
    ]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (257, "257"),
        (-1, "-1"),
        (2.5, "2.5"),
        (True, "True"),
        ([3], "[3]"),
        ("", "''"),
        ("9" * 9999, "'" + "9" * 199),
        (10**300, "1" + "0" * 199),
        ("3 backup", "'3 backup'"),
        ("3\n    server evil 192.0.2.1:80", r"'3\n    server evil 192.0.2.1:80'"),
        ('3; server evil "192.0.2.1:80"', "'3; server evil \"192.0.2.1:80\"'"),
    ],
)
def test_a_wrong_weight_of_an_instance_is_a_problem_with_its_place_and_its_weight_is_1(value, found):
    form = template_form(EXAMPLES / "haproxy.cfg.j2", "share")
    content, problems = rendered(form, selected(a_80={"share": value}, b_80={"share": 2}))
    assert content.decode().splitlines()[-2:] == ["    server a:80 a:80 weight 1", "    server b:80 b:80 weight 2"]
    expected = "expected a number from 0 to 256 in the property share, found "
    assert [problem.partition(expected)[0] for problem in problems] == [
        "instance a:80 of /in-service/web has the weight 1: "
    ]
    assert problems[0].endswith(f"{expected}{found}")


@given(st.text(max_size=12))
def test_no_address_of_an_instance_can_add_a_line_or_a_word(address):
    servers, problems = servers_of(ProviderSelection("/x/y", "1", {address: {}}, {}))
    assert len(servers) + len(problems) == 1
    assert all(server.address.isprintable() and not set(" ;{}\"'#\\") & set(server.address) for server in servers)


def test_the_examples_have_a_line_for_each_server():
    for name, lines in {
        "haproxy.cfg.j2": [
            "    server a:81 a:81 weight 1",
            "    server b:80 b:80 weight 256",
            "    server c:80 c:80 weight 0",
        ],
        "nginx.conf.j2": [
            "    server a:81 weight=1 max_fails=3 fail_timeout=10s;",
            "    server b:80 weight=256 max_fails=3 fail_timeout=10s;",
            "    server c:80 down max_fails=3 fail_timeout=10s;",
        ],
    }.items():
        instances = selected(a_81={}, b_80={"share": 256}, c_80={"share": "0"})
        content, problems = rendered(template_form(EXAMPLES / name, "share"), instances)
        assert [line for line in content.decode().splitlines() if line.startswith("    server")] == lines
        assert content.decode().startswith("# The instances of /in-service/web in service: version 1.4\n")
        assert problems == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{% for server in servers %}", ":1: the template is invalid: Unexpected end of template"),
        ("{{ " + "(" * 9999, "cannot compile the template .*: RecursionError: "),
        (None, r"cannot read the template .*/web\.j2: No such file or directory$"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused(text, problem, tmp_path):
    file = tmp_path / "web.j2"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigurationError, match=problem):
        template_form(file)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("{{ server }}", "UndefinedError: 'server' is undefined"),
        ("{{ servers[9].address }}", "UndefinedError: "),
        ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero"),
        ("{{ ''.__class__.mro }}", "SecurityError: "),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError: "),
        ("{{ '%(a)s' % {} }}", "KeyError: 'a'"),
        ("{{ '\\ud800' }}", "UnicodeEncodeError: "),
        ("{{ servers.nothing() }}", "UndefinedError: "),
    ],
)
def test_a_template_that_cannot_be_rendered_is_an_error_with_its_cause(text, cause, tmp_path):
    file = tmp_path / "web.j2"
    file.write_text(text)
    with pytest.raises(ProgramError, match=f"cannot render the template .*/web.j2: {cause}.*; correct it$"):
        rendered(template_form(file), selected())


def test_envoy_gets_addresses_and_ports_of_endpoints():
    instances = {"192.0.2.1:80": {}, "[2001:db8::1]:81": {}, "app1:80": {}}
    content, problems = rendered(envoy_form(), ProviderSelection("/in-service/web", "1.4", instances, {}))
    answer = json.loads(content)
    (resource,) = answer["resources"]
    assert (answer["version_info"], resource["cluster_name"]) == ("1.4", "web")
    assert resource["@type"] == "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
    assert [
        tuple(found["endpoint"]["address"]["socket_address"].values())
        for found in resource["endpoints"][0]["lb_endpoints"]
    ] == [("192.0.2.1", 80), ("2001:db8::1", 81)]
    assert problems == ("instance app1:80 of /in-service/web is no endpoint: expected an IP address",)


def test_envoy_gets_weights_and_drains_endpoints_with_the_weight_0():
    instances = {"192.0.2.1:80": {"share": 1}, "192.0.2.2:80": {"share": 0}, "192.0.2.3:80": {"share": 50}}
    content, problems = rendered(envoy_form("share"), ProviderSelection("/in-service/web", "1.4", instances, {}))
    (resource,) = json.loads(content)["resources"]
    endpoints = resource["endpoints"][0]["lb_endpoints"]
    shown = [{key: value for key, value in found.items() if key != "endpoint"} for found in endpoints]
    assert shown == [{}, {"health_status": "DRAINING"}, {"load_balancing_weight": 50}]
    assert problems == ()


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


def test_a_refused_check_keeps_an_empty_file_and_access_rights(kept):
    kept.file.touch()
    kept.file.chmod(0o640)
    with pytest.raises(UnusableContentError):
        kept.open().load(b"bad")
    assert (kept.file.read_bytes(), stat.S_IMODE(kept.file.stat().st_mode)) == (b"", 0o640)
    kept.open().load(b"one ")
    assert stat.S_IMODE(kept.file.stat().st_mode) == 0o640
    assert kept.state() == ("one ", "one ", ["web.cfg"])


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


class Checked:
    """A file whose check refuses the addresses in ``bad``, with a clock that tests set; checks are counted."""

    def __init__(self, place: Path, text="{% for server in servers %}{{ server.address }}\n{% endfor %}") -> None:
        self.file, self.bad, self.count, self.now = place / "web.cfg", place / "bad", place / "count", 0.0
        self.bad.touch()
        template = place / "web.j2"
        template.write_text(text)
        check = f"echo >> {self.count}; ! grep -Fxf {self.bad} {self.file}"
        file = CheckedFile(self.file, ("sh", "-c", check))
        self.servers = ServersFile(template_form(template), file, monotonic=lambda: self.now)

    def load(self, *hosts, bad=()):
        self.bad.write_text("".join(f"{host}:80\n" for host in bad))
        self.count.write_text("")
        providers = {f"{host}:80": {"weight": 1} for host in hosts}
        return self.servers.load(ProviderSelection("/x", "1", providers, {}))

    @property
    def hosts(self):
        return "".join(line.partition(":")[0] for line in self.file.read_text().splitlines())

    @property
    def checks(self):
        return len(self.count.read_text())


@pytest.fixture
def checked(tmp_path):
    return Checked(tmp_path)


def test_an_instance_that_the_check_refuses_is_left_out_and_the_others_are_loaded(checked):
    loaded = checked.load(*"abcdefgh", bad="c")
    assert (checked.hosts, loaded.is_new, loaded.servers) == ("abdefgh", True, 7)
    (problem,) = loaded.problems
    assert problem.startswith(f"instance c:80 of /x is omitted: the new {checked.file} is not used: sh -c ")
    assert problem.endswith(" failed with status 1: c:80")
    assert checked.load(*"abcdefgh", bad="c") == loaded._replace(is_new=False)
    assert checked.checks == 0


def test_an_omitted_instance_is_checked_again_after_a_while_and_after_a_change(checked):
    checked.load(*"abcd", bad="c")
    assert checked.load(*"abcd").servers == 3
    checked.now = 301.0
    assert checked.load(*"abcd").servers == 4
    checked.load(*"abcde", bad="c")
    assert checked.load(*"abde").servers == 4
    assert checked.load(*"abcde").servers == 5


def test_a_list_with_another_new_instance_is_loaded_without_the_omitted_ones(checked):
    checked.load(*"abcd", bad="c")
    assert checked.load(*"abcdef", bad="ce").servers == 4
    assert checked.hosts == "abdf"


@pytest.mark.parametrize("bad", ["ab", "abcd"])
def test_the_former_file_stays_if_the_check_refuses_most_instances(checked, bad):
    checked.load("a", "x")
    for _ in range(2):
        with pytest.raises(ProgramError, match=r"is not used: .* failed with status 1: a:80"):
            checked.load(*"abc", bad=bad)
        assert checked.hosts == "ax"
    assert checked.checks == 1  # the servers are not searched again at once
    assert checked.load(*"abc").servers == 3


def test_a_search_among_many_refused_instances_ends_early(checked):
    names = [f"h{number:03}" for number in range(500)]
    with pytest.raises(ProgramError):
        checked.load(*names, bad=names)
    assert checked.checks < 50
    assert not checked.file.exists()


def test_a_check_that_cannot_run_is_no_refusal(tmp_path):
    count = tmp_path / "count"
    file = CheckedFile(tmp_path / "web.cfg", ("sh", "-c", f"echo >> {count}; kill -9 $$"))
    with pytest.raises(ProgramError, match="failed with status -9"):
        ServersFile(envoy_form(), file).load(
            ProviderSelection("/x", "1", {f"192.0.2.{n}:80": {} for n in range(9)}, {})
        )
    assert (count.read_text(), (tmp_path / "web.cfg").exists()) == ("\n", False)


def test_an_instance_that_a_template_cannot_render_is_left_out(tmp_path):
    text = "{% for server in servers %}{{ server.address }} {{ server.properties.weight }}\n{% endfor %}"
    checked = Checked(tmp_path, text)
    providers = {"a:80": {"weight": 1}, "b:80": {}, "c:80": {"weight": 3}}
    loaded = checked.servers.load(ProviderSelection("/x", "1", providers, {}))
    assert checked.file.read_text() == "a:80 1\nc:80 3\n"
    (problem,) = loaded.problems
    assert "instance b:80 of /x is omitted: cannot render the template" in problem
    assert "'dict object' has no attribute 'weight'" in problem


def test_a_filter_that_ends_searches_no_longer(tmp_path):
    template = tmp_path / "web.j2"
    template.write_text("{% for server in servers %}{{ server.address }}{% endfor %}")
    file = CheckedFile(tmp_path / "web.cfg", ("false",))
    with pytest.raises(ProgramError, match="the filter ends"):
        ServersFile(template_form(template), file, lambda: True).load(selected(a_80={}, b_80={}))
