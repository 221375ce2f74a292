"""Values outside the configuration: in a file (``file:///path``) or at an ``http(s)://`` address."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from zkdeployment.errors import ConfigurationError, without_passwords

if TYPE_CHECKING:
    import urllib3

#: Names are short; a longer value is a mistake.
_MOST_BYTES = 1024

_CONNECT_SECONDS = 2.0
_READ_SECONDS = 5.0
_RETRIES = 2


def is_external(value: str) -> bool:
    """Whether a value is the place of the real value; ``word:rest`` (for example a MAC address) is not."""
    return value.startswith(("file:///", "http://", "https://"))


def read_value(value: str) -> str | None:
    """Return a value, read from its external place if it names one, stripped; ``None`` if it does not exist.

    Raises ``ConfigurationError`` if the value cannot be read, which leaves open whether it exists.
    """
    if not is_external(value):
        return value
    content = _read_file(value) if value.startswith("file:") else _read_address(value)
    if content is None:
        return None
    if len(content) > _MOST_BYTES:
        raise ConfigurationError(f"expected at most {_MOST_BYTES} bytes at {without_passwords(value)}, found more")
    try:
        return content.decode("utf-8").strip() or None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{without_passwords(value)} is not UTF-8 text") from error


def _read_file(value: str) -> bytes | None:
    path = Path(unquote(urlsplit(value).path))
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from error


def _read_address(value: str) -> bytes | None:
    """Return the content at an address, with retries, without redirects and the environment's proxies."""
    import urllib3  # noqa: PLC0415  few files name an address, and every command reads the configuration

    shown = without_passwords(value)
    try:
        with urllib3.PoolManager() as pool:
            response = pool.request(
                "GET",
                value,
                headers={"Accept": "text/plain, */*", "Accept-Encoding": "identity"},
                timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS),
                retries=urllib3.Retry(total=_RETRIES, backoff_factor=0.2),
                redirect=False,
                preload_content=False,
            )
            try:
                return _content(response, shown)
            finally:
                response.close()
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        raise ConfigurationError(f"cannot read {shown}: {_cause(error)}") from error


def _content(response: urllib3.BaseHTTPResponse, shown: str) -> bytes | None:
    if response.status == 404:
        return None
    if response.status != 200:
        raise ConfigurationError(f"expected status 200 or 404 from {shown}, found {response.status}")
    content = b""
    deadline = time.monotonic() + _READ_SECONDS
    while len(content) <= _MOST_BYTES and (more := response.read1(_MOST_BYTES)):
        content += more
        if time.monotonic() > deadline:
            raise ConfigurationError(f"cannot read {shown}: the response took longer than {_READ_SECONDS:g} s")
    return content


def _cause(error: Exception) -> str:
    """Return the cause of an error without the names of the library's objects."""
    return re.sub(r"^(<.*?>|\w+\(.*?\)): ", "", str(getattr(error, "reason", None) or error))
