"""Certificates and keys made for a test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


def write_certificate(
    folder: Path, name: str = "edge", days: int = 30, names: tuple[str, ...] = ("localhost",)
) -> Path:
    """`name`.pem in `folder`, for `names` and `days` from now, and `name`.key beside it. Returns the certificate."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    alternatives = x509.SubjectAlternativeName([x509.DNSName(wanted) for wanted in names])
    signed = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now + timedelta(days=min(0, days) - 1))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(alternatives, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    path.write_bytes(signed.public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.with_suffix(".key").write_bytes(private)
    return path
