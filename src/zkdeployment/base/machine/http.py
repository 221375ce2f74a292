"""The door to HTTP: one request to another system, bounded in time, in size and in the redirects that it follows.

A request has one time limit as a whole: to resolve the name, to connect, for the handshake, the head and the
content of the answer, and for all redirects and further attempts. A system that sends its answer byte by byte gets
no longer than one that sends nothing. Proxies of the environment are not used.
"""

from __future__ import annotations

import base64
import math
import re
import socket
import ssl
import threading
import time
from dataclasses import field
from email.utils import parsedate_to_datetime
from functools import partial
from http.client import HTTPException, IncompleteRead, RemoteDisconnected
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from zkdeployment.base.act import sanitize
from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.machine.calls import call_within
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Statuses of redirects. A redirect is followed with the same method and body, so 303 is never followed.
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SEE_OTHER = 303

#: Seconds before a further attempt.
_BETWEEN_ATTEMPTS = 0.2

#: The most seconds for which ``Retry-After`` of an answer delays the next request.
LONGEST_RETRY = 3600.0

#: The most connections that are kept to one address, and the most addresses.
_CONNECTIONS = 10
_ADDRESSES = 1000

#: The most bytes of a single read.
_AT_ONCE = 1 << 16

_ERRORS = (urllib3.exceptions.HTTPError, HTTPException, OSError, ValueError)


class HttpError(ZkdeploymentError):
    """A request has no answer; the text is the cause, without the URL, which may contain secrets."""

    retry_helps = True


class InvalidRequestError(HttpError):
    """The address or a header of the request is not valid."""


class TooSlowError(HttpError):
    """The request was not over within its time limit."""


class EncryptionError(HttpError):
    """The certificate of the other system is not accepted, or the connection cannot be encrypted."""


class TooLargeError(HttpError):
    """The answer has more bytes than the request allows."""


class RedirectError(HttpError):
    """The answer is a redirect that is not followed."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer that is no redirect; the names of ``headers`` match in any case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""

    @property
    def problem(self) -> str:
        """Why the status is not that of a success; empty for a success."""
        return "" if 200 <= self.status < 300 else f"expected a status between 200 and 299, found {self.status}"

    def retry_after(self, now: float) -> float:
        """Return the seconds from ``now`` on in which the other system wants no request: 0 if it names no time.

        The header has seconds or a date. At most an hour counts.
        """
        text = self.headers.get("Retry-After", "").strip()
        if re.fullmatch("[0-9]{1,9}", text):
            return min(float(text), LONGEST_RETRY)
        try:
            return min(max(0.0, parsedate_to_datetime(text).timestamp() - now), LONGEST_RETRY)
        except (ValueError, TypeError, IndexError, OverflowError):
            return 0.0


class HttpClient:
    """Sends bounded requests, from any thread.

    ``ca`` is a file of the certificates that may sign those of other systems, by default those of the system.
    ``certificate`` is a file with the client's own certificate and key. The first request that
    needs these files reads them. ``encryption``, in place of both, is a result of ``client_encryption``.
    """

    def __init__(
        self,
        ca: Path | None = None,
        certificate: Path | None = None,
        *,
        encryption: ssl.SSLContext | None = None,
    ) -> None:
        self._ca, self._certificate, self._encryption = ca, certificate, encryption
        self._http = urllib3.PoolManager(_ADDRESSES, maxsize=_CONNECTIONS)
        self._http.pool_classes_by_scheme = {"http": _Pool, "https": _EncryptedPool}

    def close(self) -> None:
        """Close the connections that are kept for further requests."""
        self._http.clear()

    def request(  # noqa: PLR0913  the bounds of a request
        self,
        method: str,
        url: str,
        *,
        timeout: float,
        most: int,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        redirects: int = 0,
        attempts: int = 1,
    ) -> HttpAnswer:
        """Return the answer to a request; raises ``HttpError``.

        ``timeout`` is in seconds, for everything. ``most`` is the limit of the bytes of the content; with 0, the
        content is not read. Up to ``redirects`` redirects are followed within the same scheme, host and port.
        ``attempts`` are made while connections break.
        """
        _limit.end = time.monotonic() + timeout
        try:
            while True:
                attempts -= 1
                try:
                    answer = self._answer(method, url, body, headers or {}, most)
                except _ERRORS as error:
                    failure = _failure(error, timeout)
                    if not attempts or type(failure) is not HttpError or _limit.left() < _BETWEEN_ATTEMPTS:
                        raise failure from None  # the texts of the library contain the URL
                    time.sleep(_BETWEEN_ATTEMPTS)
                    continue
                if answer.status not in _REDIRECTS:
                    return answer
                url = _redirected(url, answer, followed=redirects > 0)
                redirects, attempts = redirects - 1, attempts + 1
        finally:
            _limit.end = math.inf

    def _answer(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], most: int
    ) -> HttpAnswer:
        """Return the answer to one request, which may be a redirect."""
        encryption = {"ssl_context": self._context()} if url.lower().startswith("https:") else {}
        response = self._http.connection_from_url(url, encryption).urlopen(
            method,
            urllib3.util.parse_url(url).request_uri,
            body,
            headers,
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
            timeout=None,
        )
        if most == 0 or response.status in _REDIRECTS:
            response.close()
            return HttpAnswer(response.status, response.headers)
        try:
            content = _content(response, most)
        except BaseException:
            response.close()  # the rest of the answer must not become the next one
            raise
        response.release_conn()
        return HttpAnswer(response.status, response.headers, content)

    def _context(self) -> ssl.SSLContext:
        if self._encryption is None:
            encryption = client_encryption(self._ca)
            if self._certificate is not None:
                encryption.load_cert_chain(self._certificate)  # the file may be missing now, and exist later
            self._encryption = encryption
        return self._encryption


class HttpAddress(NamedTuple):
    """The address to which a request goes; ``authority`` is the host and, if the URL names it, the port."""

    scheme: str
    host: str
    authority: str


def address_of(url: str) -> HttpAddress:
    """Return the address to which a request for a URL goes; raises ``ValueError``.

    Other parsers of URLs find another host in some of them, such as in one with a backslash before ``@``.
    """
    parts = urllib3.util.parse_url(url)
    return HttpAddress(parts.scheme or "", (parts.host or "").strip("[]"), parts.netloc or "")


def basic_login(login: str) -> dict[str, str]:
    """Return the header for a login ``USER:KEY``."""
    return {"authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}


def client_encryption(ca: Path | None) -> ssl.SSLContext:
    """Return the encryption that accepts certificates of ``ca``, or of the system; raises ``OSError``."""
    encryption = ssl.create_default_context(cafile=None if ca is None else str(ca))
    encryption.sslsocket_class = _EncryptedSocket
    return encryption


def _content(response: urllib3.BaseHTTPResponse, most: int) -> bytes:
    content = b""
    while len(content) <= most and (more := response.read1(_AT_ONCE)):
        content += more
    if len(content) > most:
        raise TooLargeError(f"it answered with more than {most} bytes")
    return content


def _redirected(url: str, answer: HttpAnswer, *, followed: bool) -> str:
    """Return the target of a redirect within the same scheme, host and port; raises ``RedirectError``."""
    try:
        target = urljoin(url, answer.headers.get("Location", ""))
        here, there = _origin(url), _origin(target)
    except ValueError:
        raise RedirectError("it redirects to an invalid address") from None
    if here != there:
        raise RedirectError(f"it redirects to {there}, which is not followed")
    if not followed or answer.status == _SEE_OTHER:
        raise RedirectError(f"it redirects to another place on {there}, which is not followed")
    return target


def _origin(url: str) -> str:
    """Return the scheme, host and port of a URL, without the user and the password; raises ``ValueError``."""
    address = address_of(url)
    return sanitize(f"{address.scheme}://{address.authority}")


def _failure(error: Exception, timeout: float) -> HttpError:
    """Return the error of the door for one of the library; a text of the library may contain a secret header."""
    if isinstance(error, ValueError):
        return InvalidRequestError("its address or a header is not valid in HTTP")
    found = _causes(error)
    if any(isinstance(each, TimeoutError) and each.errno is None for each in found):
        return TooSlowError(f"it did not answer within {timeout:g} s")
    for each in found:
        match each:
            case ssl.SSLCertVerificationError():
                return EncryptionError(sanitize(each.verify_message))
            case ssl.SSLEOFError() | RemoteDisconnected() | IncompleteRead() | ConnectionResetError():
                return HttpError("it closed the connection")  # perhaps in the middle of the handshake
            case HTTPException():
                return HttpError("its answer is not valid HTTP")
            case ssl.SSLError() if each.reason:
                return EncryptionError(each.reason.lower().replace("_", " "))
            case OSError() if each.strerror:
                return HttpError(sanitize(each.strerror))
    return HttpError(re.sub(r"^(<.*?>|\w+\(.*?\)): ", "", sanitize(str(error))) or type(error).__name__)


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and the errors that caused it or are parts of it, the outermost first."""
    found, waiting = [], [error]
    while waiting:
        each = waiting.pop(0)
        if each not in found:
            found.append(each)
            parts = (*each.args, getattr(each, "reason", None), each.__cause__)
            waiting += [part for part in parts if isinstance(part, BaseException)]
    return found


class _Limit(threading.local):
    """The end of the present request of a thread, in monotonic seconds."""

    end: float = math.inf

    def apply(self, connection: socket.socket, shares: int = 1) -> None:
        """Let the next call on a connection last until the end, or for one of equal ``shares`` of the time left.

        Raises ``TimeoutError`` after the end.
        """
        if self.end < math.inf:
            connection.settimeout(self.left() / shares)

    def left(self) -> float:
        """Return the seconds until the end; raises ``TimeoutError`` after it."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


_limit = _Limit()


class _Socket(socket.socket):
    """A socket on which each call ends with the request of the thread."""

    def recv_into(self, *arguments: Any, **options: Any) -> int:
        """Receive bytes before the end of the request."""
        _limit.apply(self)
        return super().recv_into(*arguments, **options)

    def sendall(self, *arguments: Any, **options: Any) -> None:
        """Send bytes before the end of the request."""
        _limit.apply(self)
        super().sendall(*arguments, **options)


class _EncryptedSocket(ssl.SSLSocket):
    """An encrypted socket on which each call ends with the request of the thread."""

    def recv_into(self, *arguments: Any, **options: Any) -> int:
        """Receive bytes before the end of the request."""
        _limit.apply(self)
        return super().recv_into(*arguments, **options)

    def send(self, *arguments: Any, **options: Any) -> int:
        """Send bytes before the end of the request."""
        _limit.apply(self)
        return super().send(*arguments, **options)


class _Connection(HTTPConnection):
    """A connection that is made before the end of the request."""

    def _new_conn(self) -> socket.socket:
        return _connected(self.host, self.port)


class _EncryptedConnection(HTTPSConnection):
    """An encrypted connection that is made before the end of the request."""

    def _new_conn(self) -> socket.socket:
        return _connected(self.host, self.port)


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _EncryptedPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _EncryptedConnection


def _connected(host: str, port: int) -> socket.socket:
    """Return a connection to the first address of a host that accepts one; each has an equal share of the time."""
    problem: OSError = OSError(0, f"{host} has no address")
    addresses = _addresses(host.strip("[]"), port)
    for tried, (family, kind, protocol, _, address) in enumerate(addresses):
        connection = _Socket(family, kind, protocol)
        try:
            _limit.apply(connection, len(addresses) - tried)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.connect(address)
            _limit.apply(connection)  # the handshake is one call
        except OSError as error:
            connection.close()
            problem = error
        else:
            return connection
    raise problem


def _addresses(host: str, port: int) -> Any:
    """Return the addresses of a host; the system may need longer for a name than the request lasts."""
    lookup = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    return call_within(_limit.left(), lookup, "name-lookup")
