"""Refusals about clients and certificates of balancers and hosts: a file is a certificate, valid now, with its key.

deploy/io/certificates.py reads the files.
"""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from deploy.refusals import Refusal, refuse
from deploy.spec import Balancer, BalancerHost, Host, Https
from deploy.spec.surroundings import CertificateFile, Surroundings

NOTICE_DAYS = 21
SIGNED = 'certificate="keys/edge.pem", certificate_key=Secret.command("cat", "keys/edge.key")'


def certificate_problems(declared: Balancer, surroundings: Surroundings) -> Iterator[Refusal]:
    """A refusal for each missing or unusable certificate, and for a Triton that is open to all."""
    if bool(declared.certificate) != (declared.certificate_key is not None):
        has, lacks = ("certificate", "certificate_key") if declared.certificate else ("certificate_key", "certificate")
        yield refuse(
            "half-a-certificate",
            f"the balancer has a {has} and no {lacks}",
            where=f"balancer.{lacks}",
            seen=f"{has} alone",
            wanted="both, or neither for ports without TLS",
            attempt=SIGNED,
        )
    if declared.keys and not declared.certificate:
        yield refuse(
            "keys-in-plain-text",
            "the balancer asks for keys without TLS: the keys would travel in plain text",
            where="balancer.keys",
            seen=f"{declared.keys!r}, and no certificate",
            wanted="a certificate, or ports without authentication",
            attempt=SIGNED,
        )
    if declared.clients and not declared.certificate:
        yield refuse(
            "clients-in-plain-text",
            "the balancer asks clients for certificates without TLS: no client could present one",
            where="balancer.clients",
            seen=f"{declared.clients!r}, and no certificate",
            wanted="a certificate, or ports without authentication",
            attempt=SIGNED,
        )
    yield from _who_is_asked(declared)
    for field in ("certificate", "clients"):
        if file := surroundings.certificates.get(getattr(declared, field)):
            yield from file_problems(getattr(declared, field), file, surroundings.today, f"balancer.{field}")
    if file := surroundings.certificates.get(declared.clients):
        yield from leaf_problems(declared.clients, file, "balancer.clients")


def authority_problems(host: Host, surroundings: Surroundings) -> Iterator[Refusal]:
    """A refusal for each file of private authorities without a valid one; a bundle may contain expired ones."""
    for where, path in (("hub.ca_file", host.hub.ca_file), ("registry.ca_file", host.registry.ca_file)):
        if file := surroundings.certificates.get(path):
            yield from file_problems(path, replace(file, begins=None, ends=None), surroundings.today, where)
            yield from leaf_problems(path, file, where)


def leaf_problems(path: str, file: CertificateFile, where: str) -> Iterator[Refusal]:
    if not file.problem and not file.is_authority:
        yield refuse(
            "leaf-as-authority",
            f"{path} holds the certificate of a server or client, not of an authority that signs certificates",
            where=where,
            seen="a certificate with CA:FALSE, signed by another certificate",
            wanted="the certificate of the authority itself: CA:TRUE",
            attempt=f"openssl x509 -in {shlex.quote(path)} -noout -issuer names the authority; ask its operator for "
            "its certificate",
        )


def certificate_notice(declared: Balancer | Https, surroundings: Surroundings) -> str:
    """A sentence for a certificate that expires soon; empty without such a certificate."""
    file = surroundings.certificates.get(declared.certificate)
    if file is None or file.problem or file.ends is None:
        return ""
    days = (file.ends - surroundings.today).days
    return f"certificate {declared.certificate} ends on {file.ends}" if 0 <= days < NOTICE_DAYS else ""


def _who_is_asked(declared: Balancer) -> Iterator[Refusal]:
    """A refusal if Triton is open to all without `open_to_all` in the inventory, or if the inventory has both."""
    is_asked = bool(declared.keys or declared.clients)
    seen = f"keys={declared.keys!r}, clients={declared.clients!r}, open_to_all={declared.open_to_all}"
    if not is_asked and not declared.open_to_all:
        signed = "" if declared.certificate else f", {SIGNED}"
        yield refuse(
            "open-balancer",
            f"KServe's ports would answer anyone who reaches {declared.address}: Triton has no authentication",
            where="balancer.keys",
            seen=seen,
            wanted="keys of `enginehouse key`, certificates of clients, or permission for everybody to use every model",
            attempt=f'keys="file"{signed}; or open_to_all=True',
        )
    elif is_asked and declared.open_to_all:
        yield refuse(
            "open-and-asked",
            "the balancer has open_to_all=True, and asks its clients for keys or certificates",
            where="balancer.open_to_all",
            seen=seen,
            wanted="open_to_all=True without keys and certificates, or keys or certificates with open_to_all=False",
            attempt="open_to_all=False, the default",
        )


def open_notice(balancer: BalancerHost) -> str:
    """A sentence if a balancer is open to all; empty if it requires keys or certificates."""
    declared = balancer.balancer
    if not declared.open_to_all:
        return ""
    return (
        f"{balancer.name} asks clients for nothing (open_to_all=True): whoever reaches {declared.address} may use "
        "every model "
        "of its pools by KServe, without a key and without limits"
    )


def missing_certificate(path: str, where: str) -> Refusal:
    return refuse(
        "no-certificate",
        f"there is no certificate {path}",
        where=where,
        seen="no such file",
        wanted="a PEM file of this machine: the certificate, then the certificates that signed it",
        attempt="correct the path, relative to where pyinfra is started",
    )


def foreign_key(path: str, source: str, where: str) -> Refusal:
    return refuse(
        "key-of-another-certificate",
        f"the private key does not belong to certificate {path}",
        where=where,
        seen=f"{source}: a key whose public half is not the certificate's",
        wanted="the key with which the certificate was requested",
        attempt=f"openssl x509 -in {shlex.quote(path)} -noout -pubkey, and the same of the key: openssl pkey -pubout",
    )


def no_key(source: str, reason: str, where: str) -> Refusal:
    return refuse(
        "no-private-key",
        f"{source} is not a private key in PEM without a passphrase",
        where=where,
        seen="a key with a passphrase" if reason == "TypeError" else f"no key in PEM ({reason})",
        wanted="all lines of a PEM block that begins with BEGIN PRIVATE KEY, as HAProxy reads it",
        attempt="openssl pkey -in WITH_PASSPHRASE.key -out keys/edge.key takes a passphrase off; then "
        'Secret.command("cat", "keys/edge.key")',
    )


def file_problems(path: str, file: CertificateFile, today: date, where: str) -> Iterator[Refusal]:
    if file.problem:
        yield refuse(
            "no-certificate",
            f"{path} holds no certificate",
            where=where,
            seen=file.problem,
            wanted="-----BEGIN CERTIFICATE----- and what follows; the private key is no part of this file",
            attempt=f"openssl x509 -in {shlex.quote(path)} -noout -subject",
        )
    elif file.ends and file.ends < today:
        yield _out_of_time(path, f"it ended on {file.ends}", "request a new certificate", where)
    elif file.begins and file.begins > today:
        yield _out_of_time(
            path,
            f"it begins on {file.begins}",
            "run `date`: if that is not today, correct the clock; else name the certificate that is in use now",
            where,
        )


def _out_of_time(path: str, seen: str, attempt: str, where: str) -> Refusal:
    return refuse(
        "certificate-out-of-time",
        f"no client would accept certificate {path} today",
        where=where,
        seen=seen,
        wanted="a certificate that is valid today",
        attempt=attempt,
    )
