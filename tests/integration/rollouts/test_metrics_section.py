"""The sections ``[metrics NAME]``: one for each server of metrics."""

from pathlib import Path

import pytest

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.config.settings import load
from zkdeployment.rollouts.settings import MetricsSettings
from zkdeployment.strategies.analysis import LATE


def loaded(tmp_path, text):
    file = tmp_path / "x.cfg"
    file.write_text(text)
    return load(file, host=False).each_of(MetricsSettings)


def test_each_section_is_a_server_with_its_own_name(tmp_path):
    servers = loaded(
        tmp_path,
        "[metrics main]\nurl = https://prometheus.example.com/base/\ntoken-file = /t\ntimeout = 3\n"
        "[metrics spare]\nurl = http://localhost:9090\ngraph-url = https://graphs.example.com\n",
    )
    assert servers == {
        "main": MetricsSettings(url="https://prometheus.example.com/base", token_file=Path("/t"), timeout=3.0),
        "spare": MetricsSettings(url="http://localhost:9090", graph_url="https://graphs.example.com"),
    }


def test_a_server_may_answer_as_late_as_an_analysis_waits_for_it(tmp_path):
    (server,) = loaded(tmp_path, f"[metrics a]\nurl = http://localhost\ntimeout = {LATE}\n").values()
    assert server.timeout == LATE

    with pytest.raises(ConfigurationError, match="positive number of seconds, at most 60, found"):
        loaded(tmp_path, f"[metrics a]\nurl = http://localhost\ntimeout = {LATE + 0.1}\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[metrics]\nurl = http://a\n", "expected a name in [metrics NAME], found [metrics]"),
        ("[metrics a]\ntimeout = 3\n", "url not specified in [metrics a]"),
        ("[metrics a]\nurl = ftp://a\n", "url: expected http://HOST[:PORT][/PATH] or https://HOST[:PORT][/PATH]"),
        ("[metrics a]\nurl = http://u:p@a\n", "url: expected http://HOST[:PORT][/PATH]"),
        ("[metrics a]\nurl = http://a/?q=1\n", "url: expected http://HOST[:PORT][/PATH]"),
        ("[metrics a]\nurl = http://[a\n", "url: expected http://HOST[:PORT][/PATH]"),
        (
            "[metrics a]\nurl = http://metrics.example.com\ntoken-file = /t\n",
            "token-file: the token would cross the network unencrypted; expected url = https://…",
        ),
        ("[metrics a]\nuri = http://a\n", "unknown key uri in [metrics a]; did you mean url?"),
        ("[metric a]\nurl = http://a\n", "unknown section [metric a]; did you mean metrics?"),
        ("[sync two]\nurl = a\n", "unknown section [sync two]; did you mean sync?"),
        ("[metrics a]\nurl = http://a\n[metrics a]\nurl = http://b\n", "duplicate section [metrics a]"),
    ],
)
def test_mistakes_are_named(tmp_path, text, problem):
    with pytest.raises(ConfigurationError) as refused:
        loaded(tmp_path, text)
    assert problem in str(refused.value)
