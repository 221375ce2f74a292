import pytest

from zkdeployment.base.machine.public_keys import split_ssh_keys, ssh_key_problem, ssh_keys_problem

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIH6m0yGjKxWk0r5Q4yWqVx8QJqzv1n6xZl0m3q8h7b2d"


@pytest.mark.parametrize("text", [f"ssh-ed25519 {KEY}", f"ssh-rsa {KEY}{KEY}== me@here", f"ssh-rsa {KEY} a b c"])
def test_public_keys_are_accepted(text):
    assert ssh_key_problem(text) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "found nothing"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "found a private key"),
        (f"ssh-ed25519 {KEY}\nssh-ed25519 {KEY}", "found other text"),
        (f"ssh-ed25519 {KEY}\n", "found other text"),
        (f'from="*" ssh-ed25519 {KEY}', "found other text"),
        (f"ssh-ed25519 {KEY} \x1b[31m", "found other text"),
        ("ssh-ed25519 short", "found other text"),
        (f"ssh-dss {KEY}", "found other text"),
    ],
)
def test_other_texts_are_not_public_keys(text, found):
    assert found in ssh_key_problem(text)


def test_up_to_ten_keys_are_a_list_of_keys_one_in_each_line():
    keys = [f"ssh-ed25519 {KEY} key{number}" for number in range(11)]
    assert ssh_keys_problem(keys[0]) is None
    assert ssh_keys_problem("\n".join(keys[:10])) is None
    assert "at most 10 keys" in ssh_keys_problem("\n".join(keys))
    assert split_ssh_keys("\n".join([*keys[:2], keys[0]])) == (keys[0], keys[1])
    assert split_ssh_keys(None) == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "found nothing"),
        (f"ssh-ed25519 {KEY}\n", "line 2: expected one line, TYPE KEY [COMMENT]"),
        (f'ssh-ed25519 {KEY}\ncommand="id" ssh-ed25519 {KEY}', "line 2: expected one line"),
        (f"ssh-ed25519 {KEY}\r\nssh-ed25519 {KEY}", "line 1: expected one line"),
        (f"ssh-ed25519 {KEY}\n" * 10_000, "at most 16384 characters"),
    ],
)
def test_a_list_with_another_line_is_not_a_list_of_keys(text, found):
    assert found in ssh_keys_problem(text)
