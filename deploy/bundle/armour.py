"""ASCII armour of a public key, as apt reads it in a file that ends in .asc. Pure."""

from base64 import b64encode
from textwrap import wrap


def armour(key: bytes) -> str:
    """The key as ASCII armour; the key itself may be armoured or binary."""
    if key.startswith(b"-----"):
        return key.decode("ascii").rstrip("\n") + "\n"
    checksum = b64encode(_crc24(key).to_bytes(3, "big")).decode()
    lines = "\n".join(wrap(b64encode(key).decode(), 64))
    return f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{lines}\n={checksum}\n-----END PGP PUBLIC KEY BLOCK-----\n"


def _crc24(data: bytes) -> int:
    """The checksum of OpenPGP's armour (RFC 4880, 6.1)."""
    crc = 0xB704CE
    for byte in data:
        crc ^= byte << 16
        for _ in range(8):
            crc = (crc << 1) ^ (0x1864CFB if crc & 0x800000 else 0)
    return crc & 0xFFFFFF
