"""The distribution's HAProxy, as roles install and configure it; its own service stays off."""

import hashlib
from collections.abc import Iterator

from pyinfra.api.command import StringCommand

from deploy.catalog.versions import at_least
from deploy.io.local_paths import local_path
from deploy.spec import Secret
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, Refuse, write
from roles._shipping import apt, secrets

DISTRIBUTION = "haproxy.service"
GATEWAY_CHECKS = "inter 500ms fastinter 500ms downinter 500ms fall 2 rise 1"
"""Checks of a gateway: a stopping process announces its stop for 2 s before it refuses requests (`notice_seconds` of
the gateway)."""
AFFINITY = "x-enginehouse-affinity"
"""Header that chooses a gateway: a hash of the client's key and session, else a random number."""
BOUND_PERCENT = 125
"""Most requests of a gateway's process, in percent of the mean: as within the gateway (files/gateway/routing.py)."""
EVERY = {"connect_seconds": 2, "request_seconds": 10}
"""Time limits of every HAProxy here: for a connection to a server, and for a request's head to be complete."""
PATIENCE_SECONDS = 3600
"""Seconds for an answer, and for streams of the process before a reload; more if a gateway may answer longer."""
NAMED_BY_CLIENTS = (
    "traceparent",
    "tracestate",
    "baggage",
    "x-request-id",
    "x-correlation-id",
    "forwarded",
    "x-real-ip",
)
"""Headers that clients must not set: Triton traces every request with a `traceparent`, and an invented id or address
would appear in logs."""
GATEWAY = {"dropped": NAMED_BY_CLIENTS, "affinity": AFFINITY, "bound_percent": BOUND_PERCENT}
"""Values for templates/haproxy/gateway.j2, the base of both frontends of gateways."""


def streams(branch: str) -> str:
    """The option that limits requests in flight on one gRPC connection of a client; 2.8 has a separate option for
    connections to Triton."""
    return f"tune.h2.{'fe.' if at_least(branch, '2.8') else ''}max-concurrent-streams"


def package(facts: HostFacts) -> Iterator[Command]:
    """Commands that install the distribution's HAProxy without its service, because each role has its own unit."""
    yield from apt.install({"haproxy": ""}, facts.packages)
    unit = facts.unit(DISTRIBUTION)
    if "haproxy" not in facts.packages or unit.runs or unit.starts_at_boot:
        yield f"systemctl disable --now {DISTRIBUTION}"


def written(facts: HostFacts, path: str, wanted: str) -> Iterator[Command]:
    """Commands that write the file if it differs. HAProxy checks it first; a file with errors replaces nothing."""
    if not facts.holds(path, wanted):
        new, folder = f"{path}.checked", path.rsplit("/", 1)[0]
        yield write(new, wanted, then=f"haproxy -c -q -f {new} && mv -T {new} {path} && sync {folder}")


KEY_SEEN = "600 root"
"""Mode and owner of a private key."""


def pem(file: str) -> str:
    return local_path(file).read_text().rstrip("\n") + "\n"


def pem_path(start: str, file: str) -> str:
    """Path of a PEM file on the host, empty for none; new content gets a new path, so that a file in use is kept."""
    return f"{start}-{hashlib.sha256(pem(file).encode()).hexdigest()[:16]}.pem" if file else ""


def key(facts: HostFacts, certificate: str, secret: Secret) -> Iterator[Command]:
    """The command that sends a certificate's private key, on standard input, readable by root only.

    HAProxy reads the key beside the certificate. The fact `key` is the file's mode and owner.
    """
    if facts.value("key") == KEY_SEEN:
        return
    if problem := secrets.missing(secret):
        yield Refuse(problem)
        return
    path, folder = f"{certificate}.key", certificate.rsplit("/", 1)[0]
    yield StringCommand(
        f"mkdir -p {folder} && umask 077 && cat > {path}.new && test -s {path}.new && sync {path}.new"
        f" && mv -T {path}.new {path} || {{ rm -f {path}.new; exit 1; }}",
        _stdin=secrets.SecretText(secret, is_whole=True),
    )
