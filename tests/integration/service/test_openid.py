"""Logins at a real OpenID provider, and at dishonest ones."""

import time
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from support.waiting import ManualClock
from support.web.openid import CLIENT_ID, SECRET, OpenIdServer
from zkdeployment.base.errors import IdentityProviderError
from zkdeployment.service.openid import OpenIdProvider
from zkdeployment.service.users.external_logins import ExternalUser, OpenIdClient, RoleRule, attempt_of
from zkdeployment.service.users.user import Role

CALLBACK = "https://deploy.example.com/login/openid/callback"
ATTEMPT = attempt_of("a random secret")
RULES = (RoleRule(Role.OPERATOR, "groups", "ops"), RoleRule(Role.VIEWER, "", "*"))


@pytest.fixture
def server():
    with OpenIdServer() as running:
        yield running


@pytest.fixture
def clock():
    return ManualClock(time.time())


@pytest.fixture
def provider(server, clock):
    client = OpenIdClient(issuer=server.url, client_id=CLIENT_ID, roles=RULES)
    return OpenIdProvider(client, clock, secret=SECRET)


def code_of(provider, attempt=ATTEMPT):
    """Log in at the provider as a browser does; return the code that it sends to the callback."""
    answer = httpx.get(provider.login_url(attempt, CALLBACK), timeout=None)
    arrival = urlsplit(answer.headers["Location"])
    assert f"{arrival.scheme}://{arrival.netloc}{arrival.path}" == CALLBACK
    query = parse_qs(arrival.query)
    assert query["state"] == [attempt.state]
    return query["code"][0]


def test_a_person_who_logs_in_is_a_user_with_the_role_of_its_groups(server, provider):
    server.claims |= {"groups": ["staff", "ops"]}
    user = provider.find_user(code_of(provider), ATTEMPT, CALLBACK)
    assert user == ExternalUser("ann", Role.OPERATOR, f"openid {server.url} 1234")


def test_claims_that_only_the_userinfo_endpoint_gives_count(server, provider):
    assert provider.find_user(code_of(provider), ATTEMPT, CALLBACK).role is Role.VIEWER
    server.userinfo = {"groups": ["ops"]}
    assert provider.find_user(code_of(provider), ATTEMPT, CALLBACK).role is Role.OPERATOR
    server.userinfo = {"groups": ["ops"], "sub": "4321"}
    with pytest.raises(IdentityProviderError, match="its userinfo is that of another person"):
        provider.find_user(code_of(provider), ATTEMPT, CALLBACK)


def test_a_code_is_of_use_once_and_only_to_the_browser_that_asked_for_it(provider):
    code = code_of(provider)
    with pytest.raises(IdentityProviderError, match="expected status 200, found 400"):
        provider.find_user(code, attempt_of("another secret"), CALLBACK)
    code = code_of(provider)
    assert provider.find_user(code, ATTEMPT, CALLBACK).name == "ann"
    with pytest.raises(IdentityProviderError, match="expected status 200, found 400"):
        provider.find_user(code, ATTEMPT, CALLBACK)


@pytest.mark.parametrize(
    "forged",
    [
        {"iss": "https://other.example.com"},
        {"aud": "another-client"},
        {"aud": ["zkdeployment", "another-client"]},
        {"aud": ["zkdeployment", "another-client"], "azp": "another-client"},
        {"exp": 1_000_000},
        {"exp": None},
        {"nbf": 4_000_000_000},
        {"nonce": attempt_of("another secret").nonce},
        {"nonce": None},
        {"nonce": 5},
        {"sub": None},
        {"at_hash": "wrong"},
    ],
    ids=str,
)
def test_a_token_for_another_purpose_is_refused(server, provider, forged):
    def forge(claims):
        claims |= forged
        for name in [name for name, value in claims.items() if value is None]:
            del claims[name]

    server.forge = forge
    with pytest.raises(IdentityProviderError, match="its id_token is refused"):
        provider.find_user(code_of(provider), ATTEMPT, CALLBACK)


@pytest.mark.parametrize("way", ["signed_by_another", "signed_with_public_key", "unsigned"])
def test_a_token_that_the_provider_did_not_sign_is_refused(server, provider, way):
    server.sign = getattr(server, way)
    with pytest.raises(IdentityProviderError, match="its id_token is refused"):
        provider.find_user(code_of(provider), ATTEMPT, CALLBACK)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", None, 5])
def test_an_answer_without_a_token_is_refused(server, provider, token):
    server.sign = lambda _: token
    with pytest.raises(IdentityProviderError, match=r"the answer of the OpenID provider .* is refused"):
        provider.find_user(code_of(provider), ATTEMPT, CALLBACK)


def test_new_keys_are_read_but_not_more_than_twice_a_minute(server, provider, clock):
    assert provider.find_user(code_of(provider), ATTEMPT, CALLBACK).name == "ann"
    server.rotate()
    with pytest.raises(IdentityProviderError):
        provider.find_user(code_of(provider), ATTEMPT, CALLBACK)
    assert server.requests.count("/keys") == 1
    clock.time += 30
    assert provider.find_user(code_of(provider), ATTEMPT, CALLBACK).name == "ann"
    assert server.requests.count("/keys") == 2


def test_a_provider_with_another_issuer_is_refused(clock):
    with OpenIdServer(issuer="https://elsewhere.example.com") as server:
        provider = OpenIdProvider(OpenIdClient(issuer=server.url, client_id=CLIENT_ID), clock)
        with pytest.raises(IdentityProviderError, match=f"expected the issuer {server.url}"):
            provider.login_url(ATTEMPT, CALLBACK)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"jwks_uri": 5}, "http:// and visible ASCII characters as its jwks_uri"),
        ({"token_endpoint": "https://id.example.com/\ud800"}, "visible ASCII characters as its token_endpoint"),
        ({"authorization_endpoint": "http://[/login"}, "its authorization_endpoint is no address"),
        ({"token_endpoint_auth_methods_supported": None}, "a list as its token_endpoint_auth_methods_supported"),
    ],
)
def test_metadata_that_is_no_metadata_is_refused(server, provider, metadata, expected):
    server.metadata |= metadata
    with pytest.raises(IdentityProviderError, match=expected):
        provider.login_url(ATTEMPT, CALLBACK)


def test_a_provider_that_is_away_is_an_error(clock):
    provider = OpenIdProvider(OpenIdClient(issuer="http://127.0.0.1:1", client_id=CLIENT_ID), clock)
    with pytest.raises(IdentityProviderError, match=r"the OpenID provider http://.* cannot be reached"):
        provider.login_url(ATTEMPT, CALLBACK)
