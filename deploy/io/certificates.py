"""Reads certificates of balancers and hosts; just before a deploy, compares private keys with them. Stores no key."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from deploy.inventory.fleet import Fleet
from deploy.io.local_paths import is_file, local_path
from deploy.io.secrets import described, read
from deploy.refusals import Refusal, together
from deploy.slices.host import Slice
from deploy.slices.traffic import BalancerSlice
from deploy.spec import Secret
from deploy.spec.surroundings import CertificateFile, Surroundings
from deploy.validation.certificates import foreign_key, missing_certificate, no_key


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Files of one host that uses TLS with clients; an empty path means no file. `place` is their inventory object.

    `trusted` are further PEM files with certificates, by their field.
    """

    host: str
    place: str
    certificate: str = ""
    key: Secret | None = None
    trusted: tuple[tuple[str, str], ...] = ()


def with_certificates(around: Surroundings, fleet: Fleet, root: Path) -> Surroundings:
    """The surroundings with every certificate that balancers and hosts name and that exists on this machine."""
    balancers = [balancer.balancer for balancer in fleet.balancers]
    https = [host.gateway.https for host in fleet.hosts if host.gateway and host.gateway.https]
    named = {name for balancer in balancers for name in (balancer.certificate, balancer.clients)}
    named |= {declared.certificate for declared in https}
    named |= {declared.acme.authority for declared in https if declared.acme}
    named |= {name for host in fleet.hosts for name in (host.hub.ca_file, host.registry.ca_file)}
    paths = {name: place(name, root) for name in sorted(named - {""})}
    return replace(around, certificates={name: certificate(path) for name, path in paths.items() if is_file(path)})


def place(name: str, root: Path) -> Path:
    return local_path(name, root)


def certificate(path: Path) -> CertificateFile:
    """The dates and names in the first certificate of a file."""
    try:
        text = path.read_bytes()
        certificates = x509.load_pem_x509_certificates(text)
        leaf = certificates[0]
    except (OSError, ValueError) as error:
        return CertificateFile(problem=getattr(error, "strerror", "") or f"no certificate in PEM ({error})")
    if b"PRIVATE KEY-----" in text:
        return CertificateFile(problem="a private key beside the certificate: it would be readable where this file is")
    return CertificateFile(
        begins=leaf.not_valid_before_utc.date(),
        ends=leaf.not_valid_after_utc.date(),
        public_key=_digest(leaf.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)),
        is_authority=any(map(_is_authority, certificates)),
    )


def _is_authority(certificate: x509.Certificate) -> bool:
    """True for a certificate that may sign others, and for a self-signed one: either can be trusted."""
    if certificate.issuer == certificate.subject:
        return True
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):  # ValueError: an unreadable extension
        return False


def of_balancer(mine: BalancerSlice) -> Shown:
    """The files of a balancer."""
    trusted = (("balancer.clients", mine.clients),)
    return Shown(
        host=mine.host, place="balancer", certificate=mine.certificate, key=mine.certificate_key, trusted=trusted
    )


def of_host(mine: Slice) -> Iterator[Shown]:
    if https := mine.https:
        trusted = (("gateway.https.acme.authority", https.acme.authority),) if https.acme else ()
        yield Shown(
            host=mine.host,
            place="gateway.https",
            certificate=https.certificate,
            key=https.certificate_key,
            trusted=trusted,
        )


def key_problems(balancers: Iterable[BalancerSlice], root: Path, hosts: Iterable[Slice] = ()) -> list[Refusal]:
    """A refusal for each certificate or key that a deploy needs and cannot use; one for all hosts with that file."""
    shown = [*map(of_balancer, balancers), *(files for mine in hosts for files in of_host(mine))]
    return together((files.host, problem) for files in shown for problem in _of(files, root))


def _of(files: Shown, root: Path) -> Iterator[Refusal]:
    for where, name in files.trusted:
        if name and not is_file(place(name, root)):
            yield missing_certificate(name, where)
    secret, where = files.key, f"{files.place}.certificate_key"
    if secret is None:
        return
    path = place(files.certificate, root)
    if not is_file(path):
        yield missing_certificate(files.certificate, f"{files.place}.certificate")
        return
    try:
        key = load_pem_private_key(read(secret, is_whole=True).encode(), password=None)
    except Refusal as problem:
        yield problem
        return
    except (ValueError, TypeError) as error:
        yield no_key(described(secret), type(error).__name__, where)
        return
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if _digest(public) != certificate(path).public_key:
        yield foreign_key(files.certificate, described(secret), where)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
