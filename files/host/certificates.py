"""Writes the expiry of this host's fleet certificates for node_exporter's textfile collector.

    host certificates      run after each check of the GPUs: ROOT/metrics/certificates.prom

The files are those in use: HAProxy's before this host's servers, and the gateway's if it sends to other hosts. Of the
trusted authorities only the first, which signs, counts. A file that is not a certificate has no sample: exit 1 names
it.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from host import disk, places

NAME = "enginehouse_certificate_end_timestamp_seconds"
HEAD = f"# HELP {NAME} End of a certificate of the fleet's authority, or of the authority.\n# TYPE {NAME} gauge\n"
OPENSSL_SECONDS = 10


def main(_: list[str]) -> int:
    """0; 1 if a file in use is not a certificate."""
    lines, status = [], 0
    for kind, path in in_use():
        try:
            lines.append(f'{NAME}{{file="{path}",kind="{kind}"}} {end_of(path)}\n')
        except (OSError, ValueError, subprocess.SubprocessError):
            print(f"<3>{path} is not a certificate; its expiry is unknown", file=sys.stderr)
            status = 1
    (places.ROOT / "metrics").mkdir(exist_ok=True)
    disk.replace(places.ROOT / "metrics" / "certificates.prom", HEAD + "".join(lines))
    return status


def in_use() -> Iterator[tuple[str, Path]]:
    """Kind (certificate, authority) and path of each file by which hosts of the fleet authenticate each other."""
    folder = places.SETTINGS / "mutual"
    if (folder / "haproxy.cfg").exists():
        yield "certificate", folder / "host.pem"
        yield "authority", folder / "authority.pem"
    settings = places.SETTINGS / "gateway" / "settings.json"
    if settings.exists():
        for kind, path in json.loads(settings.read_text("utf-8")).get("mutual", {}).items():
            yield kind, Path(path)


def end_of(path: Path) -> int:
    """Seconds of the epoch at which the file's first certificate ends.

    Raises: OSError, SubprocessError, ValueError for a file without a certificate.
    """
    words = ["openssl", "x509", "-noout", "-enddate", "-in", str(path)]
    answer = subprocess.run(words, capture_output=True, text=True, timeout=OPENSSL_SECONDS, check=True)
    return ssl.cert_time_to_seconds(answer.stdout.strip().partition("notAfter=")[2])
