"""The fleet's certificate authority: a key that stays on the control machine, and the certificates it signs.

Hosts make their own private keys and send requests; only certificates travel. The folder has `authority.key`, readable
only by its owner, and `authority.pem`: the first certificate signs, all of them are trusted. If `authority.key` is
moved away, the next run makes a new authority, and the old one stays trusted until it expires.
"""

import ipaddress
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

FOLDER = "~/.config/enginehouse/authority"
KEY, CERTIFICATES = "authority.key", "authority.pem"
AUTHORITY_DAYS, DAYS = 3650, 365
BEFORE = timedelta(hours=1)
"""Time by which certificates begin in the past, because clocks of hosts may be behind; preflight allows a minute."""
Use = Literal["server", "client"]
USES = {"server": ExtendedKeyUsageOID.SERVER_AUTH, "client": ExtendedKeyUsageOID.CLIENT_AUTH}


@dataclass(frozen=True)
class Authority:
    """A certificate authority: its key, and all trusted certificates, the signing one first."""

    trusted: tuple[x509.Certificate, ...]
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def pem(self) -> str:
        return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in self.trusted)


def known(folder: Path) -> Authority | None:
    """The authority in a folder; None without one.

    Raises: ValueError if its files are unreadable as key and certificate or do not belong together; OSError.
    """
    key_file, file = folder / KEY, folder / CERTIFICATES
    if not key_file.exists():
        return None
    key = load_pem_private_key(key_file.read_bytes(), password=None)
    trusted = tuple(x509.load_pem_x509_certificates(file.read_bytes()))
    if not isinstance(key, ec.EllipticCurvePrivateKey) or _public(key.public_key()) != _public(trusted[0].public_key()):
        raise ValueError(f"{file} does not begin with the certificate of {key_file}")
    return Authority(trusted, key)


def made(folder: Path, now: datetime) -> Authority:
    """The authority of a folder, made on first use.

    Raises: ValueError, OSError.
    """
    if existing := known(folder):
        return existing
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key, file = ec.generate_private_key(ec.SECP256R1()), folder / CERTIFICATES
    before = x509.load_pem_x509_certificates(file.read_bytes()) if file.exists() else []
    authority = Authority(
        (_own(key, now), *(certificate for certificate in before if certificate.not_valid_after_utc > now)), key
    )
    _write(file, authority.pem.encode(), 0o644)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _write(folder / KEY, text, 0o600)  # last, because this file makes the folder an authority
    return authority


def signed(authority: Authority, request: str, use: Use, name: str, address: str, now: datetime) -> str:
    """A certificate in PEM for the public key of a request; everything else in the request is ignored.

    Raises: ValueError if the text is not a request, or the authority has expired.
    """
    signing_request = x509.load_pem_x509_csr(request.encode())
    if not signing_request.is_signature_valid:
        raise ValueError("the request is not signed with its own key")
    issuer = authority.trusted[0]
    end = min(now + timedelta(days=DAYS), issuer.not_valid_after_utc)
    builder = _begun(name, now - BEFORE, end).issuer_name(issuer.subject).public_key(signing_request.public_key())
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=False, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([USES[use]]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(signing_request.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM).decode()


def why_anew(pem: str, trusted: Iterable[x509.Certificate], use: Use, name: str, address: str, now: datetime) -> str:
    """The reason why a host needs a new certificate instead of `pem`; empty if it does not.

    Raises: LookupError if no authority in `trusted` signed it.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pem.encode())
        addresses = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (ValueError, x509.ExtensionNotFound):
        return "there is no certificate" if not pem.strip() else "the file is not a certificate"
    issuers = list(trusted)
    by = next((number for number, issuer in enumerate(issuers) if _is_signed(certificate, issuer)), None)
    if by is None:
        raise LookupError(certificate.issuer.rfc4514_string())
    if by:
        return "another authority signs now"
    names = [attribute.value for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if (names, addresses.get_values_for_type(x509.IPAddress)) != ([name], [ipaddress.ip_address(address)]):
        return "it is for another name or address"
    if list(uses) != [USES[use]]:
        return "it is for another use"
    left, whole = (
        certificate.not_valid_after_utc - now,
        certificate.not_valid_after_utc - certificate.not_valid_before_utc,
    )
    return "less than a third of its time is left" if left * 3 < whole else ""


def _own(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = f"enginehouse authority {secrets.token_hex(4)}"  # unique, because several authorities may be trusted
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = _begun(name, now - BEFORE, now + timedelta(days=AUTHORITY_DAYS)).public_key(key.public_key())
    return (
        builder.issuer_name(_named(name))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _begun(name: str, begin: datetime, end: datetime) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(_named(name)).serial_number(x509.random_serial_number())
    return builder.not_valid_before(begin).not_valid_after(end)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _is_signed(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _public(key: object) -> bytes:
    assert hasattr(key, "public_bytes")
    return bytes(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def _write(path: Path, content: bytes, mode: int) -> None:
    """Writes by rename, so that no reader sees a part of the file. The mode is set from the first byte."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)


def now() -> datetime:
    return datetime.now(UTC)
