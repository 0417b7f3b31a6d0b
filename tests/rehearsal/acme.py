"""An ACME authority on the outer machine: Debian's Pebble with its name server.

Every name resolves to one rehearsal machine. The directory has a name that machines know already and the certificate of
the rehearsal's services, and it issues certificates that certbot considers due immediately.
"""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from rehearsal.debian_archive import download
from rehearsal.places import cache, cache_locked
from tests.faults.scene import until

NAME = "llm.rehearsal.internal"
"""The name that clients of the rehearsal machine type."""
HOST, PORT, MANAGEMENT, NAMES_PORT = "hub.rehearsal.internal", 14000, 15000, 8053
DIRECTORY = f"https://{HOST}:{PORT}/dir"
DAYS = 20
"""Validity of a certificate: certbot renews what ends within 30 days, so each look orders a new one."""
SECONDS = 120


def programs() -> Path:
    """Returns the directory with both programs, unpacked once into the cache."""
    folder = cache() / "pebble-12"
    with cache_locked("pebble-12"):
        if not (folder / "usr/bin/pebble").exists():
            with tempfile.TemporaryDirectory() as scratch:
                (package,) = download("12", ["pebble"], Path(scratch), Path(scratch) / "apt")
                subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True)
    return folder / "usr/bin"


@contextlib.contextmanager
def authority(folder: Path, services: Path, address: str, machine: str) -> Iterator[Path]:
    """Runs the authority at `address`, for names that resolve to `machine`; yields the PEM file of its root.

    `services` holds the certificate of the rehearsal's services, `folder` is for files of this authority.
    """
    folder.mkdir(parents=True, exist_ok=True)
    configuration = {
        "listenAddress": f"{address}:{PORT}",
        "managementListenAddress": f"{address}:{MANAGEMENT}",
        "certificate": str(services / "server.crt"),
        "privateKey": str(services / "server.key"),
        "httpPort": 80,
        "tlsPort": 443,
        "ocspResponderURL": "",
        "externalAccountBindingRequired": False,
        "certificateValidityPeriod": DAYS * 86_400,
    }
    (folder / "pebble.json").write_text(json.dumps({"pebble": configuration}))
    named = f"127.0.0.1:{NAMES_PORT}"
    silent = [word for flag in ("-http01", "-https01", "-tlsalpn01") for word in (flag, "")]
    names = ["pebble-challtestsrv", "-dns01", named, "-management", "127.0.0.1:8055", *silent]
    names += ["-defaultIPv4", machine, "-defaultIPv6", ""]
    orders = ["pebble", "-config", str(folder / "pebble.json"), "-dnsserver", named]
    # Without reuse every order is checked by a request to port 80; by default half of them are not.
    quick = os.environ | {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0", "PEBBLE_AUTHZREUSE": "0"}
    with (folder / "log").open("w") as log, contextlib.ExitStack() as running:
        for program, *words in (names, orders):
            process = subprocess.Popen([str(programs() / program), *words], env=quick, stdout=log, stderr=log)
            running.callback(process.wait)
            running.callback(process.terminate)
        root = folder / "root.pem"
        assert until(lambda: _fetched(root, services, address), SECONDS), (folder / "log").read_text()
        yield root


def _fetched(root: Path, services: Path, address: str) -> bool:
    """Returns True once the authority answers, and writes its certificate to `root`."""
    context = ssl.create_default_context(cafile=str(services / "ca.crt"))
    with contextlib.suppress(OSError):
        with urllib.request.urlopen(f"https://{address}:{MANAGEMENT}/roots/0", context=context, timeout=5) as answer:
            root.write_bytes(answer.read())
        return True
    return False
