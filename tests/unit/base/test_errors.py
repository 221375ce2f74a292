"""Messages without secrets."""

import pytest

from zkdeployment.base.errors import is_secret, without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("clone https://ann:hunter2@git.example.com/x", "clone https://***@git.example.com/x"),
        ("git:https://hunter2@git.example.com/x#1", "git:https://***@git.example.com/x#1"),
        ("clone ssh://git@git.example.com/x", "clone ssh://git@git.example.com/x"),
        ("password=hunter2 token: hunter2, more", "password=*** token: ***, more"),
        ("DB_PASSWORD='hunter2 hunter2' x", "DB_PASSWORD=*** x"),
        ("run --token hunter2 --name x", "run --token *** --name x"),
        ("run --api-key=hunter2 x", "run --api-key=*** x"),
        ('["run", "--token", "hunter2", "x"]', '["run", "--token", ***, "x"]'),
        ('{"secret": "hunter2", "n": 1}', '{"secret": ***, "n": 1}'),
        ("Authorization: Bearer hunter2.x", "Authorization: Bearer ***"),
        ("unexpected token at 3, compass=3, the token of h1", "unexpected token at 3, compass=3, the token of h1"),
    ],
)
def test_secrets_are_hidden_and_nothing_else(text, shown):
    assert without_secrets(text) == shown


@pytest.mark.parametrize("part", ["x", "-", "x-", "pass", "token", "token ", "token=", "=", "'", "https://", "x:"])
def test_a_text_of_any_length_is_searched_at_once(part):
    text = part * (200_000 // len(part))
    assert without_secrets(text + " secret=hunter2").endswith("***")


@pytest.mark.parametrize(
    ("name", "secret"), [("db_password", True), ("API-Key", True), ("path", False), ("pass", True)]
)
def test_names_of_secrets(name, secret):
    assert is_secret(name) is secret
