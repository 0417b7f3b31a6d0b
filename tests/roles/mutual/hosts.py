"""Two hosts of a plan: the gateway of `front` sends to the servers of `back`; and an authority for both hosts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from deploy.io.authority import Use, made, now, signed
from deploy.slices.host import Slice
from tests.unit.samples import MACHINE
from tests.unit.test_mutual import fleet


@cache
def front_and_back() -> tuple[Slice, Slice]:
    """Both hosts as in the plan, on Debian 12."""
    plan = fleet(machine=replace(MACHINE, os="debian-12"))
    return plan.for_host("front"), plan.for_host("back")


def pem_of(folder: Path, use: Use, name: str, address: str) -> str:
    """Private key and certificate of a host, as in its file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "enginehouse")])
    signing_request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    request = signing_request.public_bytes(Encoding.PEM).decode()
    return text + signed(made(folder, now()), request, use, name, address, now())
