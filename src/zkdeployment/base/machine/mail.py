"""Sends mail to operators through an SMTP server."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

from zkdeployment.base.errors import RestartError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.calls import call_within
from zkdeployment.base.machine.program import late_import
from zkdeployment.base.values import dataclass

#: Seconds for a whole message, also from a server that answers byte by byte.
_TIMEOUT = 10.0
_PORT = 25


@dataclass(eq=False, repr=False)
class SmtpMailer:
    """Sends mail to ``address`` (several are separated by commas) through ``server`` (``HOST[:PORT]``).

    Without an address no mail is sent. Failures are logged and have no other effect.
    """

    address: str | None
    server: str

    def send(self, subject: str, text: str) -> None:
        """Send one message; ``subject`` is cut to one line."""
        if self.address is None:
            return
        send = partial(_send, self.server, self.address, subject, text)
        try:
            call_within(_TIMEOUT, send, "mail")
        except (OSError, ValueError, RestartError) as error:  # an error of smtplib is an OSError
            get_logger().warning("mail-failed", to=self.address, server=self.server, error=str(error))


def _send(server: str, address: str, subject: str, text: str) -> None:
    """Send one message; raises ``OSError``, and ``ValueError`` for an invalid server or address."""
    parts = urlsplit(f"//{server}")
    host, port = parts.hostname or "localhost", parts.port or _PORT
    with late_import():
        import smtplib  # noqa: PLC0415  a megabyte that most agents never need
        from email.message import EmailMessage  # noqa: PLC0415

        message = EmailMessage()  # this import is expensive
        message["From"] = address.partition(",")[0]
        message["To"] = address
        message["Subject"] = " ".join(subject.split())[:200]
        message.set_content(text)
    with smtplib.SMTP(host, port, timeout=_TIMEOUT) as connection:
        connection.send_message(message)
