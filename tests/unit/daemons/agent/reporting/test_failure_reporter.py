from zkdeployment.daemons.agent.reporting.failure_reporter import MAX_REASON_BYTES, reason
from zkdeployment.errors import ScriptError


def test_an_expected_error_is_its_own_sentence_on_one_line():
    assert reason(ScriptError("foo\n  failed\twith 3", "tail")) == "foo failed with 3"


def test_an_unexpected_error_names_its_kind_and_the_log():
    assert reason(KeyError("x")) == "unexpected KeyError: 'x'; see the log"


def test_secrets_are_taken_out():
    error = ScriptError("cannot clone https://user:hunter2@git.example.com/x with password=hunter2 token: abc")
    assert reason(error) == "cannot clone https://***@git.example.com/x with password=*** token: ***"


def test_control_characters_are_spelled_out_and_the_length_is_limited():
    assert reason(ScriptError("a\x1b[31mb\x00")) == "a\\x1b[31mb\\x00"
    assert len(reason(ScriptError("ä" * 5000)).encode()) <= MAX_REASON_BYTES
