"""An SMTP server that accepts one message."""

from __future__ import annotations

import socket
import threading
from typing import Self


class MailServer:
    """Listens on ``address``; ``message`` is the received message after ``join`` returned."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.message = ""
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def join(self) -> None:
        """Wait until a client has disconnected."""
        self._thread.join()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rwb") as stream:

            def say(line: bytes) -> None:
                stream.write(line + b"\r\n")
                stream.flush()

            say(b"220 test")
            for command in stream:
                verb = command[:4].upper()
                if verb == b"DATA":
                    say(b"354 go on")
                    lines = iter(stream.readline, b".\r\n")
                    self.message = b"".join(lines).decode()
                say(b"221 bye" if verb == b"QUIT" else b"250 ok")
