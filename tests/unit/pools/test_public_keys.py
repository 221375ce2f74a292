import pytest

from zkdeployment.pools.public_keys import ssh_key_problem

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
def test_other_texts_are_no_public_keys(text, found):
    assert found in ssh_key_problem(text)
