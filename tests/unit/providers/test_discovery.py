"""Targets of Prometheus: the addresses, the labels, and instances that are left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.config.forms import Section
from zkdeployment.providers.discovery import Discovery, TargetGroup, discover, hosts_of, service_of
from zkdeployment.providers.settings import DiscoverySettings

PLAIN = DiscoverySettings()
NAMES_EXPECTED = "expected names of labels with at most 64 letters, digits and _, and no digit at the beginning"
CHOSEN = DiscoverySettings(labels={"zone": "zone", "team": "owner"}, metrics_path="path", scheme="scheme")


def only(address, properties, port=None, roles=None, settings=PLAIN):
    """Return the target of one instance of /shop/web with its labels, and the problems."""
    found = discover("/shop/web", {address: properties}, roles or {}, port, settings)
    return [
        (
            *group.targets,
            {name.removeprefix("__meta_zkdeployment_"): value for name, value in group.labels.items()},
        )
        for group in found.groups
    ], [*found.problems]


def test_an_instance_is_a_target_with_all_that_is_known_about_it():
    properties = {"version": "1.4", "host": "h1", "pid": 7}
    assert only("app1:8080", properties, roles={"h1": "web", "h2": "db"}) == (
        [
            (
                "app1:8080",
                {"service": "/shop/web", "instance": "app1:8080", "revision": "1.4", "host": "h1", "role": "web"},
            )
        ],
        [],
    )
    assert only("app1:8080", {}) == ([("app1:8080", {"service": "/shop/web", "instance": "app1:8080"})], [])


def test_groups_have_the_form_of_prometheus():
    found = discover("/shop/web", {"app1:80": {}}, {}, None, PLAIN)
    assert [group.to_json() for group in found.groups] == [
        {
            "targets": ["app1:80"],
            "labels": {"__meta_zkdeployment_service": "/shop/web", "__meta_zkdeployment_instance": "app1:80"},
        }
    ]
    assert discover("/shop/web", {}, {}, "metrics", PLAIN) == Discovery()


@pytest.mark.parametrize(
    ("address", "value", "target"),
    [
        ("app1:8080", 9100, "app1:9100"),
        ("app1:8080", " 9100", "app1:9100"),
        ("app1", "9100", "app1:9100"),
        ("[2001:db8::1]:8080", 65535, "[2001:db8::1]:65535"),
    ],
)
def test_a_property_may_have_the_port_of_the_metrics(address, value, target):
    ((found, labels),), problems = only(address, {"metrics": value}, "metrics")
    assert (found, labels["instance"], problems) == (target, address, [])


@pytest.mark.parametrize(
    ("address", "properties", "port", "problem"),
    [
        ("app1", {}, None, "expected a port in its address, found none"),
        ("app1:0", {}, None, "expected a port from 1 to 65535 in its address, found '0'"),
        ("app1:80", {}, "metrics", "expected the property metrics with a port, found none"),
        (
            "app1:80",
            {"metrics": True},
            "metrics",
            "expected a port from 1 to 65535 in the property metrics, found True",
        ),
        (
            "app1:80",
            {"metrics": 65536},
            "metrics",
            "expected a port from 1 to 65535 in the property metrics, found 65536",
        ),
        (
            "app1:80",
            {"metrics": "x"},
            "metrics",
            "expected a port from 1 to 65535 in the property metrics, found 'x'",
        ),
        ("a b:80", {}, None, "expected an address such as app1:8080 or [2001:db8::1]:8080"),
    ],
)
def test_an_instance_without_a_usable_port_is_left_out_with_the_reason(address, properties, port, problem):
    assert only(address, properties, port) == ([], [f"instance {address} of /shop/web is no target: {problem}"])


def test_chosen_properties_are_labels_and_decide_how_an_instance_is_scraped():
    properties = {"zone": "a", "owner": "shop", "path": "/actuator/prometheus", "scheme": "https", "other": "x"}
    ((_, labels),), problems = only("app1:80", properties, settings=CHOSEN)
    assert (labels, problems) == (
        {
            "service": "/shop/web",
            "instance": "app1:80",
            "label_zone": "a",
            "label_team": "shop",
            "__metrics_path__": "/actuator/prometheus",
            "__scheme__": "https",
        },
        [],
    )
    ((_, labels),), problems = only("app1:80", {}, settings=CHOSEN)
    assert (labels, problems) == ({"service": "/shop/web", "instance": "app1:80"}, [])


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (7, "7"),
        (1.5, "1.5"),
        (True, "true"),
        ("ä b", "ä b"),
        ("a\nb\x1b\ud800", "a?b??"),
        ("x" * 201, "x" * 200),
        ("", None),
        (None, None),
        (["a"], None),
        ({"a": 1}, None),
    ],
)
def test_the_value_of_a_label_is_short_and_printable(value, label):
    ((_, labels),), problems = only("app1:80", {"zone": value}, settings=CHOSEN)
    assert (labels.get("label_zone"), problems) == (label, [])


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"path": "metrics"}, "expected a path such as /metrics in the property path, found 'metrics'"),
        ({"path": "/a b"}, "expected a path such as /metrics in the property path, found '/a b'"),
        ({"path": "/a?b"}, "expected a path such as /metrics in the property path, found '/a?b'"),
        ({"path": 7}, "expected a path such as /metrics in the property path, found 7"),
        (
            {"path": "/" * 201},
            f"expected a path such as /metrics in the property path, found '{'/' * 199}",
        ),
        ({"scheme": "ftp"}, "expected http or https in the property scheme, found 'ftp'"),
        ({"scheme": ["http"]}, "expected http or https in the property scheme, found ['http']"),
    ],
)
def test_an_instance_that_cannot_be_scraped_as_it_asks_is_left_out(properties, problem):
    assert only("app1:80", properties, settings=CHOSEN) == (
        [],
        [f"instance app1:80 of /shop/web is no target: {problem}"],
    )


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("zone=zone, _t9=owner", []),
        ("zone", ["labels: expected NAME=VALUE, separated by commas, found 'zone'"]),
        ("zone=", ["labels: expected the name of a property after zone=, found none"]),
        *((f"{name}=x", [f"labels: {NAMES_EXPECTED}, found '{name}'"]) for name in ("9a", "a-b", "ä", "x" * 65)),
        (",".join(f"l{n}=x" for n in range(21)), ["labels: expected at most 20 labels, found 21"]),
    ],
)
def test_names_of_labels_are_those_of_prometheus(text, problems):
    section = Section({"labels": text})
    DiscoverySettings.read(section)
    assert section.problems == problems


@pytest.mark.parametrize("host", ["", ".", "..", "x/y", "h\0", "h\ud800"])
def test_a_host_that_can_be_no_node_is_not_read(host):
    assert hosts_of([{"host": host}, {"host": "a"}]) == ["a"]


def test_services_and_hosts_are_found():
    assert [
        service_of(path) for path in ("/shop/web", "/shop/web/providers", "/in-service/web", "/providers")
    ] == [
        "/shop/web",
        "/shop/web",
        "/in-service/web",
        "/providers",
    ]
    assert hosts_of([{"host": "b"}, {"host": "a"}, {"host": "b"}, {"host": 7}, {"host": "x/y"}, {}]) == ["a", "b"]


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z.]{0,5}(:[0-9]{0,6})?", fullmatch=True) | st.text(max_size=9),
        st.dictionaries(
            st.sampled_from(["host", "version", "metrics", "zone", "path", "scheme"]), VALUES, max_size=3
        ),
        max_size=5,
    ),
    st.none() | st.just("metrics"),
)
def test_each_instance_is_either_a_valid_target_or_a_problem(instances, port):
    found = discover("/shop/web", instances, {}, port, CHOSEN)
    assert len(found.groups) + len(found.problems) == len(instances)
    for group in found.groups:
        assert TargetGroup.from_json(group.to_json()) == group
        (target,) = group.targets
        assert 0 < int(target.rpartition(":")[2]) <= 65535
        assert all(group.labels.values())
        assert group.labels.get("__meta_zkdeployment_label_zone", "x").isprintable()
        assert group.labels.get("__metrics_path__", "/").startswith("/")
        assert group.labels.get("__scheme__", "http") in {"http", "https"}
