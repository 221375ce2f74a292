from zkdeployment.service.access.cookies import is_form_token, make_form_token


def test_a_token_belongs_to_its_secret():
    token = make_form_token("secret", "nonce")
    assert is_form_token(token, "secret")
    assert not is_form_token(token, "another secret")


def test_a_changed_or_missing_token_is_refused():
    token = make_form_token("secret", "nonce")
    for forged in ("", ".", token[:-1], token.replace("nonce", "n"), f"{token}x", "é.é"):
        assert not is_form_token(forged, "secret")


def test_tokens_of_one_secret_differ():
    assert make_form_token("secret", "a") != make_form_token("secret", "b")
