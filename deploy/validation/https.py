"""HTTPS on a gateway's own host: a certificate, names that an authority can check, and a firewall."""

import re
from collections.abc import Iterator

from deploy.catalog import HAPROXY_FLOOR, SYSTEMS
from deploy.catalog.versions import at_least
from deploy.inventory.reach import ip_of
from deploy.refusals import Refusal, refuse
from deploy.spec import Acme, Firewall, Gateway, Host, Https
from deploy.spec.surroundings import Surroundings
from deploy.topology.balancing import is_loopback
from deploy.topology.gateway import ACME_PORT
from deploy.topology.monitors import OURS
from deploy.validation.certificates import file_problems, leaf_problems
from deploy.validation.firewall import bad_networks
from deploy.validation.ports import port_twice, taken_with_gateway
from deploy.validation.secrets import named_secret

NAME = re.compile(r"(?=.{4,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]", re.I)
EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z0-9-]+")
DIRECTORY = re.compile(r"https://[A-Za-z0-9.:\[\]_~-]+/[A-Za-z0-9._~-][A-Za-z0-9._/~-]*")
MOST_NAMES = 100
"""Names of one certificate of Let's Encrypt."""
BY_ACME = 'acme=Acme(names=("llm.example.com",), email="ops@example.com")'
BY_FILE = 'certificate="keys/llm.pem", certificate_key=Secret.command("cat", "keys/llm.key")'

ADDRESS = r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
PRIVATE_NAME = re.compile(
    r"\.(?:internal|local|localdomain|localhost|lan|home|corp|intranet|private|test|invalid|onion|home\.arpa)\.?$", re.I
)
"""Ends of names that the public DNS does not have."""
PUBLIC_AUTHORITY = re.compile(
    r"https://[\w.-]*(?:letsencrypt\.org|zerossl\.com|pki\.goog|buypass\.(?:com|no)|ssl\.com)/", re.I
)


def https_problems(host: Host, surroundings: Surroundings) -> Iterator[Refusal]:
    """A refusal for each mistake in the HTTPS of a host's gateway; none without HTTPS."""
    gateway = host.gateway
    if gateway is None or gateway.https is None:
        return
    yield from _before_gateway(gateway, host.firewall)
    yield from _system(host)
    yield from _certificate(gateway.https, surroundings)
    yield from _port(gateway.https, host)
    yield from bad_networks(gateway.https.allow, "gateway.https.allow")
    if gateway.https.acme:
        yield from _acme(gateway.https.acme)
    if host.firewall is None:
        yield refuse(
            "https-without-firewall",
            "the gateway would be reachable from outside, and no firewall closes the other ports of the host",
            where="firewall",
            seen="no firewall",
            wanted='a Firewall with rest="closed", which leaves SSH, this port and ICMP open',
            attempt='"firewall": Firewall(rest="closed")',
        )


def _without_https(firewall: Firewall | None) -> str:
    return "https=None" + (", leave firewall out" if firewall and not firewall.allow and not firewall.open else "")


def _before_gateway(gateway: Gateway, firewall: Firewall | None) -> Iterator[Refusal]:
    if gateway.protection or not is_loopback(gateway.address):
        yield refuse(
            "https-behind-balancer",
            "two programs would terminate TLS for the gateway's clients",
            where="gateway.https",
            seen=f"an Https, and address={gateway.address!r}, protection={gateway.protection!r}",
            wanted="TLS on the host, with the gateway on loopback; or TLS at a balancer",
            attempt=f'Gateway(address="127.0.0.1", protection=""); or {_without_https(firewall)}',
        )
    if gateway.identity is not None:
        yield refuse(
            "identity-over-https",
            f"any client could set {gateway.identity.header} itself: HAProxy forwards headers unchanged",
            where="gateway.https",
            seen="an Https, and identity=…",
            wanted="TLS at the OIDC proxy of the host; or clients that are identified only by keys",
            attempt=f"identity=None; or {_without_https(firewall)}, and that proxy before the gateway",
        )
    if gateway.keys is None:
        yield refuse(
            "https-without-keys",
            "anyone who reaches the port could use every model: the gateway asks for no key",
            where="gateway.keys",
            seen="None",
            wanted="a key for each client",
            attempt='keys="file", the default; `enginehouse key new NAME` makes one',
        )


def _system(host: Host) -> Iterator[Refusal]:
    """Refusals of an OS without a suitable HAProxy; an unknown OS is refused elsewhere."""
    fit = [name for name, system in SYSTEMS.items() if at_least(system.haproxy, HAPROXY_FLOOR)]
    if host.machine.os in SYSTEMS and host.machine.os not in fit:
        yield refuse(
            "haproxy-too-old",
            f"HAProxy {SYSTEMS[host.machine.os].haproxy} of {host.machine.os} was never tested in front of a gateway",
            where="machine.os",
            seen=host.machine.os,
            wanted=f"HAProxy {HAPROXY_FLOOR} or newer: {', '.join(sorted(fit))}",
            attempt=f"another OS for this host; or {_without_https(host.firewall)}, and TLS of your own in front of it",
        )


def _certificate(https: Https, surroundings: Surroundings) -> Iterator[Refusal]:
    has_file = bool(https.certificate or https.certificate_key)
    if has_file and https.acme:
        yield refuse(
            "two-certificates",
            "https has a certificate file, and would also order a certificate",
            where="gateway.https.acme",
            seen=f"acme, and certificate={https.certificate!r}",
            wanted="only acme, or only certificate and certificate_key",
            attempt=f"Https({BY_ACME}); or Https({BY_FILE})",
        )
    elif not has_file and https.acme is None:
        yield refuse(
            "https-without-certificate",
            "https has neither a certificate file nor an ACME authority",
            where="gateway.https.certificate",
            seen="no certificate, and no acme",
            wanted="a PEM file of this machine with its key; or an ACME authority that issues the certificate",
            attempt=f"Https({BY_ACME}); or Https({BY_FILE})",
        )
    elif bool(https.certificate) != (https.certificate_key is not None) and https.acme is None:
        has, lacks = ("certificate", "certificate_key") if https.certificate else ("certificate_key", "certificate")
        yield refuse(
            "half-a-certificate",
            f"the host has a {has} and no {lacks}",
            where=f"gateway.https.{lacks}",
            seen=f"{has} alone",
            wanted="certificate and certificate_key together",
            attempt=f"Https({BY_FILE})",
        )
    if https.certificate_key is not None:
        yield from named_secret("gateway.https.certificate_key", https.certificate_key, "LLM_KEY")
    files = {"gateway.https.certificate": https.certificate}
    files |= {"gateway.https.acme.authority": https.acme.authority} if https.acme else {}
    for where, path in files.items():
        if file := surroundings.certificates.get(path):
            yield from file_problems(path, file, surroundings.today, where)
    if https.acme and (file := surroundings.certificates.get(https.acme.authority)):
        yield from leaf_problems(https.acme.authority, file, "gateway.https.acme.authority")


def _port(https: Https, host: Host) -> Iterator[Refusal]:
    if ip_of(https.address) is None:
        yield refuse(
            "bad-address",
            f"{https.address!r} is not an address that the host could listen on",
            where="gateway.https.address",
            seen=repr(https.address),
            wanted="an IP address of the host; the names that clients type stand in the certificate",
            attempt='Https(address="0.0.0.0"), the default',
        )
    taken = taken_with_gateway(host) | OURS | {host.traffic.gateways_port: "traffic.gateways_port", 22: "SSH"}
    taken |= {ACME_PORT: "the answer to the authority's challenge"} if https.acme else {}
    if https.port in taken:
        attempt = f"Https(port={next(port for port in (443, 8443, 9443) if port not in taken)})"
        yield port_twice(https.port, taken[https.port], "gateway.https.port", attempt)


def _acme(acme: Acme) -> Iterator[Refusal]:
    if not 1 <= len(acme.names) <= MOST_NAMES:
        yield refuse(
            "acme-without-names",
            f"a certificate has 1 to {MOST_NAMES} names, and this one would have {len(acme.names)}",
            where="gateway.https.acme.names",
            seen=f"{len(acme.names)} names",
            wanted="the DNS names that clients type, each leading to this host",
            attempt=BY_ACME,
        )
    for name in acme.names:
        if not NAME.fullmatch(name):
            yield refuse(
                "bad-name",
                f"{name!r} is not a name that an authority can check by a request to port {ACME_PORT}",
                where="gateway.https.acme.names",
                seen=repr(name),
                wanted="a DNS name with a dot: no address, no wildcard, no URL; other names need a certificate file",
                attempt=f"{BY_ACME}; or Https({BY_FILE})",
            )
    private = [name for name in acme.names if PRIVATE_NAME.search(name)]
    if private and PUBLIC_AUTHORITY.match(acme.directory):
        yield refuse(
            "name-of-no-authority",
            f"no public authority signs {private[0]}: nobody can own a name that ends so",
            where="gateway.https.acme.names",
            seen=f"{private[0]!r}, directory={acme.directory!r}",
            wanted="a name of the public DNS; or the directory of your own authority",
            attempt=f"Https({BY_FILE}); or Acme(…, directory=URL, authority=FILE) of your own authority",
        )
    if acme.email and not EMAIL.fullmatch(acme.email):
        yield refuse(
            "bad-email",
            f"{acme.email!r} is not an e-mail address for an account",
            where="gateway.https.acme.email",
            seen=repr(acme.email),
            wanted="NAME@DOMAIN; or nothing, for an account without an address",
            attempt=f'email="{address[0] if (address := re.search(ADDRESS, acme.email)) else "ops@example.com"}"',
        )
    if not DIRECTORY.fullmatch(acme.directory):
        yield refuse(
            "bad-url",
            f"{acme.directory!r} is not the directory of an ACME authority",
            where="gateway.https.acme.directory",
            seen=repr(acme.directory),
            wanted="a URL that begins with https:// and leads to the directory, not to the authority's page",
            attempt='directory="https://acme-staging-v02.api.letsencrypt.org/directory"'
            if acme.directory.lower() in ("staging", "test", "testing")
            else f'directory="{Acme(names=()).directory}", the default',
        )
