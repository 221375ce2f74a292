import json

import pytest

from support.builders import make_host
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.host import Host, Identity
from zkdeployment.sandbox.layout import read_hosts


@pytest.fixture
def hosts_file(tmp_path):
    def write(text):
        file = tmp_path / "hosts.yaml"
        file.write_text(text, encoding="utf-8")
        return str(file)

    return write


def test_a_number_gives_numbered_hosts():
    assert read_hosts("2") == (
        Host(Identity("host1", "host1.sandbox")),
        Host(Identity("host2", "host2.sandbox")),
    )


def test_a_file_contains_ids_names_roles_and_facts(hosts_file):
    text = """
    web-1: {name: web1.example.com, tags: [ssd, edge], labels: {site: ams, zone: 3}, rack: r1}
    0015C5F4D4F0: {role: database}
    spare1: {role: "lease:spare"}
    plain:
    """
    assert read_hosts(hosts_file(text)) == (
        Host(
            Identity("web-1", "web1.example.com"),
            tags=("ssd", "edge"),
            labels={"site": "ams", "zone": "3"},
            rack="r1",
        ),
        Host(Identity("0015C5F4D4F0", "0015C5F4D4F0.sandbox", "database")),
        Host(Identity("spare1", "spare1.sandbox", "lease:spare")),
        Host(Identity("plain", "plain.sandbox")),
    )


def test_a_file_may_be_json(hosts_file):
    assert read_hosts(hosts_file(json.dumps({"a": {"name": "a.example.com"}}))) == (make_host("a"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {nam: x}", "unknown key 'nam'; did you mean name?"),
        ("a: {colour: x}", "unknown key 'colour'; expected one of: labels, name"),
        ("a: [x]", "expected a mapping with name, role"),
        ("a: {tags: x}", "expected a list of tags"),
        ("a: {labels: [x]}", "expected a mapping of labels"),
        ("a: {name: [x]}", ":1:11: expected text, found ["),
        ("a/b: {}", "'a/b' is not a host id"),
        ("a: {name: 'x y'}", "'x y' is not a host name"),
        ("a: {role: 'x/y'}", "'x/y' is not a role"),
        ("syncer: {}", "syncer is the name of another member of the sandbox"),
        ("coordinator: {}", "coordinator is the name of another member of the sandbox"),
        ("zookeeper2: {}", "zookeeper2 is the name of another member of the sandbox"),
        ("{a: {name: x}, b: {name: x}}", "a and b have the same name x"),
        ("[a, b]", "expected a mapping of host ids"),
        ("", "expected a mapping of host ids"),
        ("a: {", "not valid YAML"),
    ],
)
def test_an_invalid_file_is_an_error(hosts_file, text, message):
    with pytest.raises(ConfigurationError) as caught:
        read_hosts(hosts_file(text))
    assert message in str(caught.value)


def test_the_error_for_a_missing_file_names_the_expectation():
    with pytest.raises(ConfigurationError, match="expected a number of hosts or a readable file"):
        read_hosts("no-such-file.yaml")


@pytest.mark.parametrize("text", ["0", "1001"])
def test_a_number_has_limits(text):
    with pytest.raises(ConfigurationError, match="expected 1 to 1000 hosts"):
        read_hosts(text)
