"""A small OpenID provider for tests: it signs with real keys and makes the checks of a provider."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

from support.web.servers import WebServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

CLIENT_ID = "zkdeployment"
SECRET = "the client's secret"


@dataclass
class ProvidedLogin:
    """The provider's record of a code."""

    nonce: str
    challenge: str
    redirect_uri: str


@dataclass
class OpenIdServer:
    """A provider that logs in everyone at once, with the identity in ``claims``.

    ``forge`` changes the claims of id tokens, ``sign`` replaces the signing. ``userinfo`` are claims that only the
    userinfo endpoint gives. ``metadata`` replaces parts of its metadata. ``host`` is this machine's name in the
    addresses.
    """

    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "1234", "preferred_username": "ann"})
    userinfo: dict[str, Any] = field(default_factory=dict)
    forge: Callable[[dict[str, Any]], None] = lambda _: None
    sign: Callable[[dict[str, Any]], str] | None = None
    issuer: str = ""
    metadata: dict[str, object] = field(default_factory=dict)
    host: str = "127.0.0.1"
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Listen on a free port."""
        self._codes: dict[str, ProvidedLogin] = {}
        self._tokens: set[str] = set()
        self.rotate()
        self._server = WebServer(self._handler())
        self._url = f"http://{self.host}:{self._server.port}"
        self.issuer = self.issuer or self._url

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the provider; may be called twice."""
        self._server.stop()

    @property
    def url(self) -> str:
        """The address of the provider."""
        return self._url

    @property
    def public_key(self) -> RSAKey:
        """The key that the provider publishes."""
        return self._key

    def rotate(self) -> None:
        """Sign with a new key from now on."""
        self._key = RSAKey.generate_key(2048, {"kid": secrets.token_hex(4), "use": "sig"}, auto_kid=False)

    def _handler(provider) -> type[BaseHTTPRequestHandler]:  # noqa: N805  the handler has a self of its own
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                place = urlsplit(self.path)
                provider.requests.append(place.path)
                query = {name: values[0] for name, values in parse_qs(place.query).items()}
                match place.path:
                    case "/.well-known/openid-configuration":
                        self._answer(200, provider._metadata())
                    case "/keys":
                        self._answer(200, {"keys": [provider._key.as_dict(private=False)]})
                    case "/authorize":
                        self.send_response(303)
                        self.send_header("Location", provider._authorize(query))
                        self.end_headers()
                    case "/userinfo":
                        known = self.headers.get("Authorization", "").removeprefix("Bearer ") in provider._tokens
                        self._answer(200 if known else 401, provider.claims | provider.userinfo)
                    case _:
                        self._answer(404, {})

            def do_POST(self) -> None:
                provider.requests.append(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                fields = {name: values[0] for name, values in parse_qs(body).items()}
                self._answer(*provider._exchange(fields, self.headers.get("Authorization", "")))

            def _answer(self, status: int, value: object) -> None:
                content = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        return Handler

    def _metadata(self) -> dict[str, object]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self._url}/authorize",
            "token_endpoint": f"{self._url}/token",
            "jwks_uri": f"{self._url}/keys",
            "userinfo_endpoint": f"{self._url}/userinfo",
            "id_token_signing_alg_values_supported": ["RS256"],
            **self.metadata,
        }

    def _authorize(self, query: dict[str, str]) -> str:
        wanted = {"response_type": "code", "client_id": CLIENT_ID, "code_challenge_method": "S256"}
        if wanted.items() <= query.items() and "openid" in query["scope"].split():
            code = secrets.token_urlsafe()
            self._codes[code] = ProvidedLogin(query["nonce"], query["code_challenge"], query["redirect_uri"])
            answer = {"code": code, "state": query["state"]}
        else:
            answer = {"error": "invalid_request", "state": query.get("state", "")}
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def _exchange(self, fields: dict[str, str], authorization: str) -> tuple[int, dict[str, object]]:
        login = self._codes.pop(fields.get("code", ""), None)
        challenge = hashlib.sha256(fields.get("code_verifier", "").encode()).digest()
        pair = base64.b64encode(f"{CLIENT_ID}:the%20client%27s%20secret".encode()).decode()
        if (
            login is None
            or login.redirect_uri != fields.get("redirect_uri")
            or login.challenge != base64.urlsafe_b64encode(challenge).rstrip(b"=").decode()
            or fields.get("grant_type") != "authorization_code"
            or authorization != f"Basic {pair}"
        ):
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": login.nonce}
        claims |= self.claims
        self.forge(claims)
        token = self.sign(claims) if self.sign is not None else self.signed(claims)
        access = secrets.token_urlsafe()
        self._tokens.add(access)
        return 200, {"id_token": token, "access_token": access, "token_type": "Bearer"}

    def signed(self, claims: dict[str, Any]) -> str:
        """Return an id token with these claims, signed with the provider's key."""
        return jwt.encode({"alg": "RS256", "kid": self._key.kid}, claims, self._key)

    def signed_by_another(self, claims: dict[str, Any]) -> str:
        """Return an id token that a foreign key signed in the name of the provider."""
        other = RSAKey.generate_key(2048)
        return jwt.encode({"alg": "RS256", "kid": self._key.kid}, claims, other)

    def signed_with_public_key(self, claims: dict[str, Any]) -> str:
        """Return an id token signed symmetrically with the provider's public key as the secret."""
        signed = f"{_part({'alg': 'HS256', 'kid': self._key.kid})}.{_part(claims)}"
        signature = hmac.new(self._key.as_pem(private=False), signed.encode(), hashlib.sha256).digest()
        return f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"

    def unsigned(self, claims: dict[str, Any]) -> str:
        """Return an id token with the algorithm "none"."""
        return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
