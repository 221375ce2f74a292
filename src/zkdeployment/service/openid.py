"""Logins at an OpenID provider: authorization code with PKCE."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from zkdeployment.base.errors import IdentityProviderError
from zkdeployment.base.machine.calls import SharedCall
from zkdeployment.base.machine.http import HttpClient, HttpError, basic_login
from zkdeployment.service.users.external_logins import (
    ExternalUser,
    OpenIdAttempt,
    OpenIdClient,
    claim_values,
    openid_user,
)

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.base.machine.clock import Clock


#: The accepted algorithms of signatures: only those with a key pair of the provider, never "none" or a shared
#: secret.
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]

#: Seconds.
_TIMEOUT = 5.0
_CLOCK_SKEW = 60
_KEPT = 3600.0  # the provider's configuration and keys
_KEPT_AT_LEAST = 30.0  # before an unknown key makes the service read them again
_PATIENCE = 5.0  # to wait while another thread reads the configuration

_MAX_BYTES = 1 << 20

#: The ways in which a provider takes the secret of a client, in its metadata.
_METHODS = "token_endpoint_auth_methods_supported"


class OpenIdProvider:
    """An OpenID provider, reached by HTTPS.

    Raises ``IdentityProviderError`` if the provider cannot be reached or answers something unacceptable.

    ``secret`` is that of the client, ``None`` for a public client; ``ca`` is a file of certificates to trust
    (``None``: those of the system).
    """

    def __init__(
        self, client: OpenIdClient, clock: Clock, *, secret: str | None = None, ca: Path | None = None
    ) -> None:
        self._client, self._clock, self._secret = client, clock, secret
        self._http = HttpClient(ca)
        self._shared: SharedCall[tuple[dict[str, Any], KeySet]] = SharedCall(
            patience=_PATIENCE, late=self._late, now=clock.monotonic
        )

    def login_url(self, attempt: OpenIdAttempt, callback: str) -> str:
        """Return the provider's address for the login, from which the provider redirects to ``callback``."""
        metadata, _ = self._configuration(_KEPT)
        try:
            url: str = prepare_grant_uri(
                metadata["authorization_endpoint"],
                self._client.client_id,
                "code",
                redirect_uri=callback,
                scope=list(self._client.scopes),
                state=attempt.state,
                nonce=attempt.nonce,
                code_challenge=create_s256_code_challenge(attempt.verifier),
                code_challenge_method="S256",
            )
        except ValueError as error:
            raise self._unacceptable(f"its authorization_endpoint is no address ({error})") from error
        return url

    def find_user(self, code: str, attempt: OpenIdAttempt, callback: str) -> ExternalUser | str:
        """Return the person who logged in, or why the person may not, for the code given to ``callback``."""
        metadata, _ = self._configuration(_KEPT)
        tokens = self._exchange(metadata, code, attempt, callback)
        claims = self._verified(tokens, attempt)
        if self._is_incomplete(claims) and "userinfo_endpoint" in metadata:
            claims = self._complete(claims, metadata["userinfo_endpoint"], str(tokens.get("access_token", "")))
        return openid_user(claims, self._client)

    def _exchange(
        self, metadata: dict[str, Any], code: str, attempt: OpenIdAttempt, callback: str
    ) -> dict[str, Any]:
        """Return the tokens for a code."""
        client = self._client
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback,
            "client_id": client.client_id,
            "code_verifier": attempt.verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if self._secret is not None:
            if "client_secret_basic" in metadata.get(_METHODS, ["client_secret_basic"]):
                pair = f"{quote(client.client_id, safe='')}:{quote(self._secret, safe='')}"
                headers |= basic_login(pair)
            else:
                fields["client_secret"] = self._secret
        return self._request("POST", metadata["token_endpoint"], headers, urlencode(fields))

    def _verified(self, tokens: dict[str, Any], attempt: OpenIdAttempt) -> dict[str, object]:
        """Return the claims of the id token, verified by signature, issuer, audience, time and nonce."""
        token = tokens.get("id_token")
        if not isinstance(token, str):
            raise self._unacceptable("expected an id_token, found none")
        try:
            decoded = self._decode(token)
            claims = CodeIDToken(
                decoded.claims,
                decoded.header,
                options={
                    "iss": {"essential": True, "value": self._client.issuer},
                    "aud": {"essential": True, "value": self._client.client_id},
                },
                params={
                    "nonce": attempt.nonce,
                    "client_id": self._client.client_id,
                    "access_token": tokens.get("access_token"),
                },
            )
            claims.validate(now=int(self._clock.now()), leeway=_CLOCK_SKEW)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise self._unacceptable(f"its id_token is refused ({type(error).__name__}: {error})") from error
        return dict(claims)

    def _decode(self, token: str) -> jwt.Token:
        """Verify the signature of a token; an unknown key may be new, so the provider's keys are read again."""
        _, keys = self._configuration(_KEPT)
        try:
            return jwt.decode(token, keys, algorithms=_ALGORITHMS)
        except (JoseError, ValueError):
            _, newer = self._configuration(_KEPT_AT_LEAST)
            if newer is keys:
                raise
            return jwt.decode(token, newer, algorithms=_ALGORITHMS)

    def _is_incomplete(self, claims: dict[str, object]) -> bool:
        """Return whether claims are missing that some providers return only from their userinfo endpoint."""
        wanted = {self._client.name_claim, *(rule.claim for rule in self._client.roles if rule.claim)}
        return any(not claim_values(claims, claim) for claim in wanted)

    def _complete(self, claims: dict[str, object], endpoint: str, access_token: str) -> dict[str, object]:
        more = self._request("GET", endpoint, {"Authorization": f"Bearer {access_token}"})
        if more.get("sub") != claims.get("sub"):
            raise self._unacceptable("its userinfo is that of another person")
        return more | claims

    def _configuration(self, kept: float) -> tuple[dict[str, Any], KeySet]:
        """Return the provider's metadata and keys, read again if they are older than ``kept`` seconds."""
        return self._shared.get(self._read_configuration, kept)

    def _read_configuration(self) -> tuple[dict[str, Any], KeySet]:
        metadata = self._read_metadata()
        return metadata, self._read_keys(metadata["jwks_uri"])

    def _read_keys(self, address: str) -> KeySet:
        keys: Any = self._request("GET", address)
        try:
            return KeySet.import_key_set(keys)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise self._unacceptable(f"its keys cannot be used ({type(error).__name__})") from error

    def _read_metadata(self) -> dict[str, Any]:
        issuer = self._client.issuer
        metadata = self._request("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if metadata.get("issuer") != issuer:
            raise self._unacceptable(f"expected the issuer {issuer}, found {metadata.get('issuer')!a}")
        scheme = issuer.partition(":")[0]
        if not isinstance(metadata.get(_METHODS, []), list):
            raise self._unacceptable(f"expected a list as its {_METHODS}")
        optional = ["userinfo_endpoint"] if "userinfo_endpoint" in metadata else []
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", *optional):
            address = metadata.get(name)
            if not isinstance(address, str) or not re.fullmatch(f"({scheme}|https)://[!-~]+", address):
                raise self._unacceptable(f"expected {scheme}:// and visible ASCII characters as its {name}")
        return metadata

    def _request(
        self, method: str, url: str, headers: dict[str, str] | None = None, body: str | None = None
    ) -> dict[str, Any]:
        """Return the JSON object that the provider answers."""
        try:
            response = self._http.request(
                method,
                url,
                timeout=_TIMEOUT,
                most=_MAX_BYTES,
                headers={"Accept": "application/json"} | (headers or {}),
                body=None if body is None else body.encode(),
            )
        except HttpError as error:
            raise self._unreachable(str(error)) from error
        if response.status != 200:
            raise self._unacceptable(f"expected status 200, found {response.status}")
        try:
            answer = json.loads(response.content)
        except (ValueError, RecursionError) as error:
            raise self._unacceptable("expected JSON, found other text") from error
        if not isinstance(answer, dict):
            raise self._unacceptable("expected a JSON object, found another value")
        return answer

    def _late(self, seconds: float) -> IdentityProviderError:
        return self._unreachable(f"it has not answered for {seconds:g} s")

    def _unreachable(self, problem: str) -> IdentityProviderError:
        return IdentityProviderError(
            f"the OpenID provider {self._client.issuer} cannot be reached: {problem}; try again, or log in with a"
            " key"
        )

    def _unacceptable(self, problem: str) -> IdentityProviderError:
        return IdentityProviderError(
            f"the answer of the OpenID provider {self._client.issuer} is refused: {problem}"
        )
