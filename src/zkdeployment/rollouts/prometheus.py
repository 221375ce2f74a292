"""The client of a server of metrics: one query, one number, or the reason why there is no number.

The API is that of Prometheus, ``/api/v1/query``, which Thanos, Mimir and VictoriaMetrics have as well. Redirects
to other servers are not followed: the server is configured with a token.
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.machine.http import (
    HttpAnswer,
    HttpClient,
    HttpError,
    RedirectError,
    TooLargeError,
    TooSlowError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.rollouts.settings import MetricsSettings

#: The most bytes of an answer, and of a file with a token or with headers.
_MOST_BYTES = 1 << 20
_MOST_SECRET = 1 << 16

_MOST_REDIRECTS = 3

#: A token, and the name and the value of a header. Errors of the HTTP client would show invalid values.
_TOKEN = re.compile(r"[\x21-\x7e]+")
_HEADER = re.compile(r"[A-Za-z0-9-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")

#: The most seconds between the time of an answer and the present.
_OLDEST = 300.0

#: The most characters of a server's own words in a reason.
_LONGEST = 200


class NoDataError(ZkdeploymentError):
    """A query has no value; the text states why. ``is_silent`` means that the server did not answer."""

    def __init__(self, reason: str, *, is_silent: bool = False) -> None:
        super().__init__(reason)
        self.is_silent = is_silent


class Sample(NamedTuple):
    """The value of a query, and its time on the server's clock in seconds since the epoch."""

    value: float
    time: float


class MetricsServer:
    """A server of metrics, used by one thread at a time."""

    def __init__(self, settings: MetricsSettings) -> None:
        self._settings = settings
        self._url = f"{settings.url}/api/v1/query"
        self._http = HttpClient(settings.ca, settings.certificate)

    @property
    def graph(self) -> str:
        """The address of the server's own graphs; empty if none is configured."""
        return self._settings.graph_url or ""

    def query(self, query: str, at: float | None = None) -> Sample:
        """Return the sample of a query, at a time in seconds since the epoch or at present.

        Raises ``NoDataError``.
        """
        fields = {"query": query, "timeout": f"{self._settings.timeout:.3f}"}
        if at is not None:
            fields["time"] = f"{at:.3f}"
        sample = _sample(self._post(urlencode(fields).encode()))
        away = abs(time.time() - sample.time)
        if at is None and away > _OLDEST:
            raise NoDataError(f"the answer is of another time: {away:.0f} s away from now")
        return sample

    def _post(self, body: bytes) -> HttpAnswer:
        try:
            return self._http.request(
                "POST",
                self._url,
                timeout=self._settings.timeout,
                most=_MOST_BYTES,
                headers=self._headers(),
                body=body,
                redirects=_MOST_REDIRECTS,
            )
        except TooSlowError as error:
            raise NoDataError(
                f"the server did not answer within {self._settings.timeout:g} s", is_silent=True
            ) from error
        except TooLargeError as error:
            raise NoDataError(f"the answer is larger than {_MOST_BYTES} bytes; aggregate the query") from error
        except RedirectError as error:
            raise NoDataError(f"the answer of {self._settings.url} cannot be used: {error}") from error
        except HttpError as error:
            raise NoDataError(f"cannot reach {self._settings.url}: {error}", is_silent=True) from error

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if self._settings.headers_file is not None:
            for line in _secret(self._settings.headers_file).splitlines():
                name, colon, value = line.partition(":")
                if not colon or not _HEADER.fullmatch(name.strip()) or not _HEADER_VALUE.fullmatch(value.strip()):
                    raise NoDataError(f"expected lines NAME: VALUE in {self._settings.headers_file}")
                headers[name.strip()] = value.strip()
        if self._settings.token_file is not None:
            token = _secret(self._settings.token_file)
            if not _TOKEN.fullmatch(token):
                raise NoDataError(f"expected one word of ASCII characters in {self._settings.token_file}")
            headers["Authorization"] = f"Bearer {token}"
        return headers


def _secret(file: Path) -> str:
    """Return the content of a file with a token or with headers; raises ``NoDataError``."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_MOST_SECRET + 1)
        text = content.decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NoDataError(
            f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"
        ) from error
    if not text or len(content) > _MOST_SECRET or "\0" in text:
        raise NoDataError(f"expected text of at most {_MOST_SECRET} bytes in {file}, found {len(content)} bytes")
    return text


def _sample(found: HttpAnswer) -> Sample:
    """Return the number in an answer; raises ``NoDataError``."""
    try:
        answer: Any = json.loads(found.content)
        if answer["status"] != "success":
            words = f"{answer.get('errorType', 'error')}: {answer.get('error', 'no reason given')}"
            raise NoDataError(f"the server refused the query: {_short(words)}")
        kind, result = answer["data"]["resultType"], answer["data"]["result"]
        match kind:
            case "vector":
                sample = _only(result)["value"]
            case "scalar":
                sample = result
            case _:
                raise NoDataError(f"the query returned a {_short(str(kind))}; expected one number")
        return Sample(float(sample[1]), float(sample[0]))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError) as error:
        answered = f"the server answered with status {found.status} and {_kind(found.content)}"
        raise NoDataError(f"{answered}; expected the API of Prometheus") from error


def _only(result: list[Any]) -> Any:
    if not result:
        raise NoDataError("the result is empty: no series matches")
    if len(result) > 1:
        raise NoDataError(f"the result has {len(result)} series; expected one: aggregate them, as with sum()")
    return result[0]


def _kind(content: bytes) -> str:
    return "no content" if not content.strip() else "text that is no answer to a query"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
