"""A folder served over plain HTTP, like a package mirror.

python -m rehearsal.web --address 127.0.0.1 --port 8480 FOLDER
"""

from __future__ import annotations

import argparse
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class FolderHandler(SimpleHTTPRequestHandler):
    """Serves files unchanged, over connections that stay open (apt asks for many)."""

    protocol_version = "HTTP/1.1"
    wbufsize = 256 * 1024


class Server(ThreadingHTTPServer):
    """A server with a thread per connection; a machine that installs from several mirrors opens a few at once."""

    daemon_threads = True
    request_queue_size = 64


def main() -> None:
    """Serves until stopped."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("folder")
    chosen = parser.parse_args()
    handler = partial(FolderHandler, directory=chosen.folder)
    Server((chosen.address, chosen.port), handler).serve_forever()


if __name__ == "__main__":
    main()
