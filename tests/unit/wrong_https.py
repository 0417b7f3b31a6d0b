"""Wrong HTTPS of a host's gateway, by the promise that each proves."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

from deploy.spec import Acme, Firewall, Gateway, Https, Identity, Secret
from deploy.spec.surroundings import CertificateFile
from tests.unit.samples import AROUND, MACHINE
from tests.unit.wrong import Wrong

CLOSED = Firewall(rest="closed")
NAMED = Acme(names=("llm.example.com",), email="ops@example.com")
KEY = Secret.command("cat", "keys/llm.key")
DEBIAN = replace(MACHINE, os="debian-12")
ENDED = CertificateFile(begins=date(2025, 1, 1), ends=date(2026, 1, 1))


def wrong_https(kind: str, field: str, data: dict[str, Any] | None = None, **https: Any) -> Wrong:
    """A host with one mistake in its HTTPS; `data` changes the host beside it."""
    declared = Https(**({"acme": NAMED} | https))
    host = {"machine": DEBIAN, "firewall": CLOSED, "gateway": Gateway(https=declared)} | (data or {})
    where = field if field.startswith(("gateway.", "machine.", "firewall")) else f"gateway.https.{field}"
    around = replace(AROUND, certificates={"keys/ended.pem": ENDED})
    return Wrong(host, kind, where, around=around)


def wrong_acme(kind: str, field: str, **acme: Any) -> Wrong:
    """A host that orders its certificate, with one mistake."""
    return wrong_https(kind, f"acme.{field}", acme=replace(NAMED, **acme))


ALL = {
    "HTTPS has a certificate": wrong_https("https-without-certificate", "certificate", acme=None),
    "HTTPS has one certificate": wrong_https(
        "two-certificates", "acme", certificate="keys/llm.pem", certificate_key=KEY
    ),
    "the certificate of HTTPS has a key": wrong_https(
        "half-a-certificate", "certificate_key", acme=None, certificate="keys/llm.pem"
    ),
    "the certificate of HTTPS is in its time": wrong_https(
        "certificate-out-of-time", "certificate", acme=None, certificate="keys/ended.pem", certificate_key=KEY
    ),
    "HTTPS is for clients with keys": wrong_https(
        "https-without-keys", "gateway.keys", {"gateway": Gateway(keys=None, https=Https(acme=NAMED))}
    ),
    "TLS is spoken in one place": wrong_https(
        "https-behind-balancer",
        "gateway.https",
        {"gateway": Gateway(address="0.0.0.0", protection="balancer", https=Https(acme=NAMED))},
    ),
    "nobody names a person over HTTPS": wrong_https(
        "identity-over-https",
        "gateway.https",
        {"gateway": Gateway(identity=Identity(header="x-forwarded-email"), https=Https(acme=NAMED))},
    ),
    "HTTPS has a firewall around it": wrong_https("https-without-firewall", "firewall", {"firewall": None}),
    "HTTPS needs a HAProxy that was run": wrong_https(
        "haproxy-too-old", "machine.os", {"machine": replace(MACHINE, os="ubuntu-22.04")}
    ),
    "HTTPS listens on an address": wrong_https("bad-address", "address", address="llm.example.com"),
    "HTTPS has a port": wrong_https("unbelievable-number", "port", port=0),
    "HTTPS has a port of its own": wrong_https("port-twice", "port", port=8080),
    "the challenge has port 80 to itself": wrong_https("port-twice", "port", port=80),
    "HTTPS is open to networks": wrong_https("bad-network", "allow", allow=("10.0.0.1/8",)),
    "HTTPS takes connections": wrong_https("unbelievable-number", "address_connections", address_connections=-1),
    "an order has a name": wrong_acme("acme-without-names", "names", names=()),
    "an order names no address": wrong_acme("bad-name", "names", names=("192.0.2.7",)),
    "an order has no wildcard": wrong_acme("bad-name", "names", names=("*.example.com",)),
    "an account has an address or none": wrong_acme("bad-email", "email", email="ops"),
    "a directory is reached over TLS": wrong_acme("bad-url", "directory", directory="http://ca.example.com/directory"),
}
