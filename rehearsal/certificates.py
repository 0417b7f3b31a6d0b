"""A throw-away certificate authority and the registry's one certificate.

The services' first start writes both to this clone's state directory; no program outside trusts them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

DAYS = "825"  # longer than any rehearsal, and within the limit of clients


def certificate(folder: Path, names: list[str], addresses: list[str]) -> None:
    """Writes ca.crt, server.crt (chain) and server.key for those names; writes new ones if the names change."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = ",".join([*(f"DNS:{name}" for name in names), *(f"IP:{address}" for address in addresses)])
    remembered = folder / "names"
    if remembered.exists() and remembered.read_text() == wanted:
        return
    _authority(folder)
    _server(folder, wanted)
    remembered.write_text(wanted)


def _authority(folder: Path) -> None:
    if (folder / "ca.crt").exists():
        return  # machines already trust this certificate
    subject = "/O=enginehouse rehearsal stand-in/CN=rehearsal throw-away CA"
    constraints = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"]
    extensions = [word for constraint in constraints for word in ("-addext", constraint)]
    _openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", DAYS, "-subj", subject, *extensions),
        *("-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.crt")),
    )
    (folder / "ca.key").chmod(0o600)


def _server(folder: Path, wanted: str) -> None:
    request, extensions = folder / "server.csr", folder / "server.ext"
    extensions.write_text(
        f"subjectAltName={wanted}\nbasicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n"
        "authorityKeyIdentifier=keyid\n"
    )
    _openssl(
        *("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=registry.rehearsal.internal"),
        *("-keyout", str(folder / "server.key"), "-out", str(request)),
    )
    (folder / "server.key").chmod(0o600)
    _openssl(
        *("x509", "-req", "-in", str(request), "-CA", str(folder / "ca.crt"), "-CAkey", str(folder / "ca.key")),
        *("-CAcreateserial", "-days", DAYS, "-extfile", str(extensions), "-out", str(folder / "server.crt")),
    )


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
