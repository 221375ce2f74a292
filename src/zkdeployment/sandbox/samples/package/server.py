"""The sample service: answers every GET with a page that names the deployed version and the host.

    server.py CONFIGURATION PORT

The page is the configuration (JSON, written by the deploy script), the port and the process id. Exits with
status 2 when the port is taken.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer


class Handler(BaseHTTPRequestHandler):
    """Answers with ``page``."""

    page = b""

    def do_GET(self) -> None:
        """Send the page, for every path."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.page)))
        self.end_headers()
        self.wfile.write(self.page)


class Server(ThreadingTCPServer):
    """Takes its port again at once after a restart; requests under way do not delay its end."""

    allow_reuse_address = True
    daemon_threads = True


def main(configuration: str, port: int) -> None:
    """Serve until killed."""
    page = json.loads(Path(configuration).read_text(encoding="utf-8")) | {"port": port, "pid": os.getpid()}
    Handler.page = (json.dumps(page, indent=2) + "\n").encode()
    try:
        server = Server(("127.0.0.1", port), Handler)
    except OSError as error:
        print(f"cannot listen on port {port}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
