"""The sample service: answers every GET with a page that names the deployed version and the host.

    server.py CONFIGURATION PORT

The page is the configuration (JSON, written by the deploy script), the port and the process id. ``/metrics`` has
the numbers of answers for Prometheus. With the property ``error_rate`` of the node, that share of the requests
for ``/work`` fails. Exits with status 2 when the port is taken.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer


class Counter:
    """Counts the answers by their status; a share of the requests for work fails, evenly."""

    def __init__(self, error_rate: float) -> None:
        self.error_rate = error_rate
        self.lock = threading.Lock()
        self.work = 0
        self.answers = {200: 0, 500: 0}

    def status(self, path: str) -> int:
        """Return the status of the answer to a request, and count it."""
        with self.lock:
            status = 200
            if path == "/work":
                self.work += 1
                failed = int(self.work * self.error_rate) > int((self.work - 1) * self.error_rate)
                status = 500 if failed else 200
            self.answers[status] += 1
            return status

    def text(self) -> bytes:
        """Return the numbers in the format of Prometheus."""
        head = "# HELP http_requests_total Answers by status.\n# TYPE http_requests_total counter\n"
        with self.lock:
            lines = [f'http_requests_total{{code="{code}"}} {number}\n' for code, number in self.answers.items()]
        return (head + "".join(lines)).encode()


class Handler(BaseHTTPRequestHandler):
    """Answers with ``page``, and with the numbers of ``counter``."""

    page = b""
    counter = Counter(0.0)

    def do_GET(self) -> None:
        """Send the numbers or the page."""
        if self.path == "/metrics":
            self.answer(200, "text/plain; version=0.0.4", self.counter.text())
        else:
            self.answer(self.counter.status(self.path), "application/json", self.page)

    def answer(self, status: int, kind: str, content: bytes) -> None:
        """Send an answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Server(ThreadingTCPServer):
    """Takes its port again at once after a restart; requests under way do not delay its end."""

    allow_reuse_address = True
    daemon_threads = True


def main(configuration: str, port: int) -> None:
    """Serve until killed."""
    page = json.loads(Path(configuration).read_text(encoding="utf-8")) | {"port": port, "pid": os.getpid()}
    Handler.page = (json.dumps(page, indent=2) + "\n").encode()
    Handler.counter = Counter(float(page["properties"].get("error_rate", 0)))
    try:
        server = Server(("127.0.0.1", port), Handler)
    except OSError as error:
        print(f"cannot listen on port {port}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
