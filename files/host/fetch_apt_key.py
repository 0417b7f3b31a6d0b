"""Fetches an apt signing key with apt's own transport and keeps it only if it is the expected one.

    host fetch-apt-key URL FINGERPRINT DESTINATION

It uses apt-helper, which uses apt's proxy. The fingerprint is computed here (RFC 4880, 12.2: SHA-1 over the
public key packet), because a bare host has no gpg.
"""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import tempfile


def packets(armoured: bytes) -> bytes:
    """The binary key inside the ASCII armour (its checksum line left out), or the input if it is binary."""
    if not armoured.startswith(b"-----"):
        return armoured
    body = armoured.replace(b"\r", b"").split(b"\n\n", 1)[1].split(b"-----END", 1)[0]
    return base64.b64decode(b"".join(line for line in body.splitlines() if not line.startswith(b"=")))


def first_packet(data: bytes) -> tuple[int, bytes]:
    """Tag and body of the first packet, in either header format."""
    tag, length = data[0], data[1]
    if tag & 0x40:
        if length < 192:
            return tag & 0x3F, data[2 : 2 + length]
        length = ((length - 192) << 8) + data[2] + 192
        return tag & 0x3F, data[3 : 3 + length]
    octets = 1 << (tag & 3)
    return tag >> 2 & 0x0F, data[1 + octets :][: int.from_bytes(data[1 : 1 + octets], "big")]


def fingerprint(key: bytes) -> str:
    """The version 4 fingerprint of the primary key, 40 upper-case hex digits; empty without such a key."""
    try:
        tag, body = first_packet(packets(key))
    except (IndexError, ValueError):
        return ""
    if tag != 6 or not body or body[0] != 4:
        return ""
    return hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body).hexdigest().upper()


def fetch(url: str, path: str) -> bytes:
    """The key as the server sent it. Ends the program if apt could not fetch it."""
    command = ["/usr/lib/apt/apt-helper", "-o", "Acquire::Retries=3", "-q", "download-file", url, path]
    helper = subprocess.run(command, capture_output=True, text=True)
    if helper.returncode:
        errors = [line[3:] for line in helper.stderr.splitlines() if line.startswith("E: ")]
        sys.exit(f"{url}: {'; '.join(errors) or 'apt-helper gave no reason'}")
    with open(path, "rb") as file:
        return file.read()


def main(arguments: list[str]) -> int:
    """0 once the expected key is at its destination; ends the program with the reason if it is not."""
    url, wanted, destination = arguments
    with tempfile.TemporaryDirectory(prefix="enginehouse-key-") as folder:
        os.chmod(folder, 0o755)  # apt downloads as the user _apt
        key = fetch(url, os.path.join(folder, "key"))
    actual = fingerprint(key)
    if actual != wanted:
        sys.exit(f"{url}: the key has fingerprint {actual or 'none'}, wanted {wanted}; the key was not installed")
    os.makedirs(os.path.dirname(destination), exist_ok=True)
    with open(destination + ".enginehouse-new", "wb") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(key)
    os.replace(destination + ".enginehouse-new", destination)
    return 0
