"""Requests to the receivers of webhooks, by urllib3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import urllib3

from zkdeployment.ports.webhooks import WebhookAnswer, WebhookOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Seconds.
_TIMEOUT = urllib3.Timeout(connect=3.0, read=5.0)

#: Answers that mean that this very event cannot be accepted. All others may change, such as 404 during an upgrade.
_REFUSALS = frozenset({400, 413, 415, 422})


class HttpWebhookSender:
    """Requests without redirects, from any thread; answers are not read beyond their headers.

    ``ca`` is a file of certificates to trust (``None``: those of the system).
    """

    def __init__(self, ca: Path | None = None) -> None:
        self._http = urllib3.PoolManager(timeout=_TIMEOUT, retries=False, ca_certs=None if ca is None else str(ca))

    def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> WebhookAnswer:
        """Send one request and return its outcome within a few seconds; never raises."""
        try:
            response = self._http.request(
                "POST", url, body=body, headers=headers, redirect=False, preload_content=False
            )
            response.close()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:  # their texts contain the URL
            return WebhookAnswer(WebhookOutcome.FAILED, f"the receiver cannot be reached: {type(error).__name__}")
        if 200 <= response.status < 300:
            return WebhookAnswer(WebhookOutcome.ACCEPTED)
        outcome = WebhookOutcome.REFUSED if response.status in _REFUSALS else WebhookOutcome.FAILED
        return WebhookAnswer(outcome, f"expected a status between 200 and 299, found {response.status}")
