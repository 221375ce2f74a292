from __future__ import annotations

import pytest

from zkdeployment.config.settings import connection_problem


@pytest.mark.parametrize(
    "connection",
    [
        "zookeeper:2181",
        "zookeeper",
        "10.0.0.1:2181,10.0.0.2:2181",
        "[::1]:2181",
        "zk1:2181,zk2:2181/fleet",
        "zk1:2181/a/b-c",
        "zk1:2181/",
        "zk_1.example.com.:2181",
        f"{'a' * 63}.{'b' * 63}:2181",
    ],
)
def test_a_connection_string_has_servers_and_an_optional_chroot(connection: str):
    assert connection_problem(connection) is None


@pytest.mark.parametrize(
    "connection",
    [
        "",
        ",",
        "a:b",
        "a:1,",
        "a:1, b:1",
        "a b:1",
        "zk://a:1",
        "a..b:1",
        f"{'a' * 64}:1",
        f"a.{'b' * 64}:1",
        "a:1/x//y",
        "a:1/../x",
        "a:1/x y",
    ],
)
def test_the_problem_of_any_other_text_quotes_it(connection: str):
    problem = connection_problem(connection)
    assert problem is not None
    assert "expected" in problem
    assert "found" in problem


@pytest.mark.parametrize(
    ("connection", "server", "port"),
    [
        ("nowhere:99999", "nowhere:99999", "99999"),
        ("a:1,b:65536/x", "b:65536", "65536"),
        ("[::1]:0", "[::1]:0", "0"),
    ],
)
def test_a_port_out_of_range_is_named_as_the_problem(connection: str, server: str, port: str):
    assert connection_problem(connection) == f"expected a port from 1 to 65535 in '{server}', found {port}"
