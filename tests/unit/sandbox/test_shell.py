"""The shell of a sandbox."""

import os
import pwd

import pytest

from zkdeployment.base.machine import process
from zkdeployment.sandbox.fleet import Sandbox


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SHELL": "/bin/zsh"}, "/bin/zsh"),
        ({"SHELL": ""}, pwd.getpwuid(os.getuid()).pw_shell),
        ({}, pwd.getpwuid(os.getuid()).pw_shell),
    ],
)
def test_a_shell_without_the_variable_shell_is_the_login_shell(tmp_path, monkeypatch, environment, expected):
    started = []
    monkeypatch.setattr(Sandbox, "environment", lambda _: environment)
    monkeypatch.setattr(process, "replace", lambda argv, **_: started.append(argv))
    Sandbox(tmp_path).enter_shell()
    assert started == [[expected]]
