"""Pokes: the requests to the callbacks of monitoring systems (a ``PokeSender``), by urllib3."""

from __future__ import annotations

import json

import urllib3

#: Seconds for the whole request.
_TIMEOUT = urllib3.Timeout(total=5.0)

#: The path below the service's root where a poked system fetches an instance.
_PATH = "/deployments/id"


class HttpPokeSender:
    """Requests without redirects; answers are not read beyond their headers."""

    def __init__(self) -> None:
        self._http = urllib3.PoolManager(timeout=_TIMEOUT, retries=False)

    def send(self, callback: str, instance: str) -> str | None:
        try:
            response = self._http.request(
                "POST",
                callback,
                body=json.dumps({"uuid": instance, "path": _PATH}).encode("ascii"),
                headers={"Content-Type": "application/json"},
                redirect=False,
                preload_content=False,
            )
            response.close()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:  # their texts contain the URL
            return f"it cannot be reached: {type(error).__name__}"
        if 200 <= response.status < 300:
            return None
        return f"expected a status between 200 and 299, found {response.status}"
