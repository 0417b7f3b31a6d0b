"""Commands for the difference between the role's facts and the wanted state; pure except for PEM files."""

import hashlib
from collections.abc import Iterator
from shlex import join

from deploy.spec import Acme, Https
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command
from roles._shipping import apt, haproxy
from roles._shipping.places import unit
from roles._shipping.texts import Text, shipped
from roles._shipping.units import kept_running
from roles.https.defaults import (
    ACCOUNT,
    DISTRIBUTION_TIMER,
    FOLDER,
    ISSUER,
    OF_THE_ORDER,
    ORDER,
    ORDER_UNIT,
    ORDERED_CERTIFICATE,
    PROGRAM,
    TIMER,
    UNIT,
    UNIT_NAME,
)

TRUSTED = "# The operating system trusts the authority of certbot.ini.\n"
FAILED = (
    "  try     each name leads to this host, port 80 is open before it and free on it; then run again"
    "\n  state   the gateway serves on loopback as before"
)


def certificate_path(https: Https) -> str:
    return haproxy.pem_path(f"{FOLDER}/tls", https.certificate)


def shown_certificate(https: Https) -> str:
    return ORDERED_CERTIFICATE if https.acme else certificate_path(https)


def order(acme: Acme) -> str:
    """The order as a configuration of certbot. Each ACME directory has its own certificate, so a trial certificate
    never stays in use."""
    account = f"email = {acme.email}" if acme.email else "register-unsafely-without-email = true"
    name = f"gateway-{hashlib.sha256(acme.directory.encode()).hexdigest()[:8]}"
    return (
        "# The certificate of the gateway's clients. Written by enginehouse; edits are put right by a run.\n"
        f"server = {acme.directory}\n{account}\nagree-tos = true\nnon-interactive = true\n"
        f"cert-name = {name}\ndomains = {','.join(acme.names)}\n"
        "key-type = ecdsa\nauthenticator = standalone\npreferred-challenges = http-01\n"
        "keep-until-expiring = true\nrenew-with-new-domains = true\n"
        f"config-dir = {ACCOUNT}\nwork-dir = /run/enginehouse/certificate\nlogs-dir = /run/enginehouse/certificate\n"
    )


def issuer(acme: Acme) -> str:
    return haproxy.pem(acme.authority) if acme.authority else TRUSTED


def texts(https: Https) -> list[Text]:
    """Units; the operator's certificate, or the order with the program that answers the challenge."""
    wanted = [shipped(f"files/units/{UNIT_NAME}", UNIT)]
    if https.certificate:
        wanted.append(Text(certificate_path(https), haproxy.pem(https.certificate)))
    if https.acme:
        wanted += [shipped(f"files/units/{name}", unit(name)) for name in (ORDER_UNIT, TIMER)]
        wanted.append(shipped("files/shell/certificate.sh", PROGRAM, "0755"))
        wanted += [Text(ISSUER, issuer(https.acme)), Text(ORDER, order(https.acme))]
    return wanted


def key(facts: HostFacts, https: Https) -> Iterator[Command]:
    if https.certificate_key is not None:
        yield from haproxy.key(facts, certificate_path(https), https.certificate_key)


def tool(facts: HostFacts) -> Iterator[Command]:
    """Commands that install the distribution's certbot. Its timer stays off unless certbot was installed before."""
    yield from apt.install({"certbot": ""}, facts.packages)
    if "certbot" not in facts.packages:
        yield f"systemctl disable --now {DISTRIBUTION_TIMER}"


def ordered(facts: HostFacts, acme: Acme) -> Iterator[Command]:
    if facts.value("ordered") != hashlib.sha256((order(acme) + issuer(acme)).encode()).hexdigest():
        yield (
            f"systemctl start {ORDER_UNIT} || {{ journalctl -q -u {ORDER_UNIT} -n 15 -o cat >&2;"
            f" echo {join([FAILED])} >&2; false; }}"
        )


def timed(facts: HostFacts) -> Iterator[Command]:
    """The command after which the certificate is renewed without a run."""
    yield from kept_running(facts, TIMER)


def unordered(facts: HostFacts) -> Iterator[Command]:
    if facts.value("order"):
        yield f"systemctl disable --now {TIMER}; rm -rf {ACCOUNT} && rm -f {join(OF_THE_ORDER)}"
        yield "systemctl daemon-reload"


def in_force(facts: HostFacts) -> Iterator[Command]:
    """Commands after which HAProxy runs with the current files, now and after a boot, without earlier certificates."""
    service, spare = facts.unit(UNIT_NAME), facts.value("spare").splitlines()
    if spare:
        yield f"rm -f {join([*spare, *(f'{path}.key' for path in spare)])}"
    if not service.starts_at_boot:
        yield f"systemctl enable {UNIT_NAME}"
    if spare or facts.value("stale") or not service.runs:
        yield f"systemctl reload-or-restart {UNIT_NAME} || {{ journalctl -q -u {UNIT_NAME} -n 8 -o cat >&2; false; }}"


def retired(is_left: bool) -> Iterator[Command]:
    if is_left:
        # The unit is removed last, so that the run after a killed one still finds it.
        yield (
            f"systemctl disable --now {TIMER} {UNIT_NAME}; rm -rf {FOLDER} && rm -f {join(OF_THE_ORDER[:3])} {UNIT}"
            " && systemctl daemon-reload"
        )
