"""Pokes: the requests to the callbacks of monitoring systems, by urllib3."""

from __future__ import annotations

import json
import queue
import threading

import urllib3

#: Seconds for a whole request.
_LIMIT = 5.0

#: The path below the service's root where a poked system fetches an instance.
_PATH = "/deployments/id"


class HttpPokeSender:
    """Requests without redirects, from any thread; answers are not read beyond their headers.

    A request runs in a thread of its own: urllib3 limits the wait for each part of an answer, not that for all of
    them. A system that sends its answer byte by byte gets no further request meanwhile.
    """

    def __init__(self) -> None:
        self._http = urllib3.PoolManager(timeout=urllib3.Timeout(total=_LIMIT), retries=False)
        self._unanswered: dict[str, threading.Thread] = {}

    def send(self, callback: str, instance: str) -> str | None:
        """Tell a monitoring system about an update of an instance, within a few seconds; never raises.

        Return ``None`` if the system accepted the poke, or else the reason, which does not contain the URL.
        """
        former = self._unanswered.pop(callback, None)
        if former is not None and former.is_alive():
            self._unanswered[callback] = former
            return "it has not completed its answer to an earlier request"
        outcome: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        thread = threading.Thread(
            target=lambda: outcome.put(self._request(callback, instance)), name="check-poke", daemon=True
        )
        thread.start()
        try:
            return outcome.get(timeout=_LIMIT)
        except queue.Empty:
            self._unanswered[callback] = thread
            return f"it did not answer within {_LIMIT:g} seconds"

    def _request(self, callback: str, instance: str) -> str | None:
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
