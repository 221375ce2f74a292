"""The commands that make the servers of a running HAProxy equal to those of its file."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.providers.haproxy import (
    ReloadNeededError,
    RunningServer,
    SocketUnusableError,
    needed_commands,
    read_file,
    read_state,
)

FILE = """\
# version 1
backend web
    default-server check
    server a:80 192.0.2.1:80 weight 1
    server ::1:80 [::1]:80 weight 2
"""


def running(flags=0, weight=1, check=6, agent=0):
    return RunningServer(flags, weight, check, agent)


def commands(text, servers, loaded=FILE):
    return needed_commands(read_file(text.encode()), read_file(loaded.encode()), servers)


def without(server, text=FILE):
    return "".join(line for line in text.splitlines(keepends=True) if f"server {server} " not in line)


EQUAL = {"web/a:80": running(), "web/::1:80": running(weight=2)}


@pytest.mark.parametrize(
    ("text", "servers", "expected"),
    [
        (FILE, EQUAL, ()),
        (FILE.replace("version 1", "version 2"), EQUAL, ()),
        (FILE.replace("weight 1", "weight 256"), EQUAL, ("set server web/a:80 weight 256",)),
        (FILE.replace("weight 1", "weight 0"), EQUAL, ("set server web/a:80 weight 0",)),
        (without("::1:80"), EQUAL, ("set server web/::1:80 state drain",)),
        (without("::1:80"), EQUAL | {"web/::1:80": running(8, 2)}, ()),
        (without("::1:80"), {"web/a:80": running()}, ()),
        (FILE, EQUAL | {"web/by-hand": running()}, ()),
        (
            FILE,
            EQUAL | {"web/a:80": running(8, 3)},
            (
                "set server web/a:80 weight 1",
                "set server web/a:80 state ready",
                "set server web/a:80 health up",
            ),
        ),
        (FILE, EQUAL | {"web/a:80": running(8, check=0)}, ("set server web/a:80 state ready",)),
        (without("a:80"), EQUAL | {"web/a:80": running(32)}, ("set server web/a:80 state drain",)),
        (FILE, EQUAL | {"web/a:80": running(1)}, ()),
        (without("a:80"), EQUAL | {"web/a:80": running(1)}, ()),
    ],
    ids=[
        "equal",
        "another version",
        "another weight",
        "weight 0",
        "gone",
        "gone and drained",
        "gone after a reload",
        "a server of others",
        "back, with another weight",
        "back, without checks",
        "gone without an address",
        "disabled by an operator",
        "gone and disabled by an operator",
    ],
)
def test_the_commands_are_those_of_the_differences(text, servers, expected):
    assert commands(text, servers) == expected


def test_servers_are_used_before_others_are_drained():
    servers = {"web/a:80": running(8), "web/::1:80": running(weight=2)}
    assert commands(without("::1:80"), servers) == (
        "set server web/a:80 state ready",
        "set server web/a:80 health up",
        "set server web/::1:80 state drain",
    )


@pytest.mark.parametrize(
    ("text", "servers", "cause"),
    [
        (f"{FILE}    server b:80 192.0.2.2:80 weight 1\n", EQUAL, "the line of server web/b:80 differs"),
        (FILE.replace("192.0.2.1", "192.0.2.9"), EQUAL, "the line of server web/a:80 differs"),
        (FILE.replace("server a:80", 'server "a:80"'), EQUAL, "other lines than those of servers differ"),
        (FILE.replace(":80 weight 1", ":80 weight 1 backup"), EQUAL, "the line of server web/a:80 differs"),
        (FILE.replace("weight 1", ""), EQUAL, "the line of server web/a:80 differs"),
        (FILE.replace("weight 1", "weight 257"), EQUAL, "the line of server web/a:80 differs"),
        (FILE.replace("weight 1", "weight 1 weight 1"), EQUAL, "the line of server web/a:80 differs"),
        (
            FILE.replace("default-server check", "default-server"),
            EQUAL,
            "other lines than those of servers differ",
        ),
        (FILE.replace("backend web", "backend new"), EQUAL, "other lines than those of servers differ"),
        (
            "backend web\n    server a:80 192.0.2.1:80 weight 1\n    default-server check\n",
            EQUAL,
            "the line of server web/a:80 differs",
        ),
        (FILE, {"web/a:80": running()}, "the running HAProxy has no server web/::1:80"),
        (FILE, EQUAL | {"web/a:80": running(agent=2)}, "an agent of HAProxy decides"),
        (without("a:80"), EQUAL | {"web/a:80": running(agent=2)}, "an agent of HAProxy decides"),
    ],
    ids=[
        "a new server",
        "an address",
        "a quoted name",
        "an option",
        "no weight",
        "a wrong weight",
        "two weights",
        "a line of the section",
        "a section",
        "the order",
        "not running",
        "an agent",
        "an agent of a server that is gone",
    ],
)
def test_other_differences_need_a_reload(text, servers, cause):
    with pytest.raises(ReloadNeededError, match=cause):
        commands(text, servers)


def test_only_plain_lines_in_sections_with_servers_are_those_of_servers():
    text = r"""
    server before 192.0.2.1:80
listen ok
    server a 192.0.2.1:80
    server b 192.0.2.1:80 weight
    server a 192.0.2.2:80
    server quoted "192.0.2.1:80"
    server late 192.0.2.1:80 # comment
    server $NAME 192.0.2.1:80
    server x\ y 192.0.2.1:80
    server a;b 192.0.2.1:80
    server short
peers p
    server peer 192.0.2.1:10000
backend
    server nameless 192.0.2.1:80
backend a/b
    server c 192.0.2.1:80
"""
    found = read_file(text.encode())
    assert list(found.servers) == ["ok/a", "ok/b"]
    assert [line.weight for line in found.servers.values()] == [None, None]
    assert found.sections == ["ok"]
    assert len(found.others) == 15


STATE = """\
1
# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_check_state srv_agent_state
3 web 1 ::1:9 ::1 2 8 7 6 0

"""


def test_the_state_of_servers_is_read_by_the_names_of_its_columns():
    assert dict(read_state("web", STATE)) == {"web/::1:9": RunningServer(8, 7, 6, 0)}


def test_a_section_that_haproxy_does_not_have_has_no_servers():
    assert dict(read_state("web", "Can't find backend.\n\n")) == {}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "expected the servers of web from HAProxy, found ''"),
        ("Permission denied\n\n", "expected the servers of web from HAProxy, found 'Permission denied'"),
        ("2\n# be_id\n", "expected the servers of web from HAProxy, found '2'"),
        ("1", "expected the servers of web from HAProxy, found '1'"),
        (
            STATE.replace("srv_uweight", "weight"),
            "expected the state of a server of web from HAProxy, found '3 web",
        ),
        (STATE.replace(" 7 ", " x\x1b "), r"expected the state .*'3 web 1 ::1:9 ::1 2 8 x\\x1b 6 0'"),
        (STATE.replace(" 7 6 0", ""), "expected the state of a server of web from HAProxy, found '3 web"),
    ],
)
def test_another_answer_is_an_error_with_what_was_found(answer, problem):
    with pytest.raises(SocketUnusableError, match=problem):
        dict(read_state("web", answer))


#: Parts of files with characters that have a meaning for HAProxy or its socket.
PARTS = st.sampled_from(
    ["backend", "listen", "server", "web", "a", "a:80", "weight", "1", "257", "\n", "\n", "\n", ";", '"', "'", "#",
     "\\", "$X", "/", "\r", "\x00", "\x0b", "\x85", "\u2028", "é", "set server web/a state maint", "<<"]
)  # fmt: skip
TEXTS = st.lists(st.tuples(PARTS, st.sampled_from(["", " ", " ", "\t"]))).map(
    lambda parts: "".join(part + blank for part, blank in parts)
)
COMMAND = re.compile(r"set server [\w.:-]+/[\w.:-]+ (weight \d{1,3}|state (ready|drain)|health up)", re.ASCII)


@given(st.one_of(TEXTS, st.text()), st.sets(st.integers(0, 9)), st.integers(0, 63), st.integers(0, 256))
def test_no_text_of_a_file_adds_a_command_or_a_word_to_one(text, gone, flags, weight):
    loaded = read_file(f"backend web\n{text}\nserver a:80 192.0.2.1:80 weight 3".encode())
    left = {name: line for number, (name, line) in enumerate(loaded.servers.items()) if number not in gone}
    servers = {name: running(flags, weight) for name in loaded.servers}
    for command in needed_commands(type(loaded)(left, loaded.others), loaded, servers):
        assert COMMAND.fullmatch(command), command
