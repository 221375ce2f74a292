from zkdeployment.agent.reporting.failures import MAX_REASON_BYTES, reason
from zkdeployment.base.errors import ScriptError


def test_an_expected_error_is_described_by_its_message_on_one_line():
    assert reason(ScriptError("foo\n  failed\twith 3", "tail")) == "foo failed with 3"


def test_the_description_of_an_unexpected_error_names_its_type_and_the_log():
    assert reason(KeyError("x")) == "unexpected KeyError: 'x'; see the log"


def test_secrets_are_removed():
    error = ScriptError("cannot clone https://user:hunter2@git.example.com/x with password=hunter2 token: abc")
    assert reason(error) == "cannot clone https://***@git.example.com/x with password=*** token: ***"


def test_control_characters_are_escaped_and_the_length_is_limited():
    assert reason(ScriptError("a\x1b[31mb\x00")) == "a\\x1b[31mb\\x00"
    assert len(reason(ScriptError("ä" * 5000)).encode()) <= MAX_REASON_BYTES
