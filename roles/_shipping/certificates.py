"""Certificates of the fleet's authority on hosts, for private keys that never leave their hosts.

A host makes its private key and a request; the control machine signs it (deploy/io/authority.py). Any run replaces a
certificate before less than a third of its lifetime is left.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pyinfra import logger, state
from pyinfra.api import Host, State, StringCommand
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand

from deploy.io.authority import CERTIFICATES, KEY, Authority, Use, known, made, now, signed, why_anew
from deploy.io.local_paths import local_path
from deploy.refusals import Refusal
from roles._pyinfra.facts import HostFacts, ask_files, ask_value
from roles._pyinfra.settings import known_settings, overridden
from roles._pyinfra.steps import Command, Refuse, write

STATE = "what serves goes on"


@dataclass(frozen=True, kw_only=True)
class Certified:
    """The wanted certificate of a host: `path` for private key and certificate, `authority` for the trusted issuers.

    `then` is the command for programs that have read the old files. `owner` (USER:GROUP) and `mode` (four octal digits)
    are those of both files.
    """

    path: str
    authority: str
    use: Use
    name: str
    address: str
    folder: Path
    """Directory of the authority, on the control machine."""
    then: str
    owner: str = "root:root"
    mode: str = "0600"

    @property
    def wanted_fact(self) -> str:
        return f"{int(self.mode, 8):o} {self.owner}"


def authority_folder(host: Host) -> Path:
    return local_path(overridden(host, "mutual", known_settings()["mutual"]()).authority)


def ask_certificate(path: str, authority: str) -> str:
    """The command for the certificate in a file, its access rights, and the trusted authority."""
    certificate = f"sed -n '/BEGIN CERTIFICATE/,/END CERTIFICATE/p' {path}"
    return "\n".join(
        [
            ask_value("certificate", certificate),
            ask_value("certificate-mode", f"stat -c '%a %U:%G' {path}"),
            ask_files(authority),
        ]
    )


def trusted(facts: HostFacts, wanted: Certified) -> Iterator[Command]:
    """The command after which the host trusts the authority; the first run that needs an authority creates it."""
    authority = _authority(facts, wanted)
    if isinstance(authority, Refuse):
        yield authority
    elif authority is None:
        yield "true"  # never run: during prepare it only announces a change
    elif facts.files.get(wanted.authority) != sha256(authority.pem.encode()).hexdigest():
        group = wanted.owner.partition(":")[2]
        then = f"chgrp {group} {wanted.authority} && {wanted.then}"
        yield write(wanted.authority, authority.pem, "0640", then=then)


def certified(facts: HostFacts, wanted: Certified) -> Iterator[Command]:
    """The command after which the host has a valid certificate with enough time left."""
    authority = _authority(facts, wanted)
    if isinstance(authority, Refuse):
        yield authority
    elif authority is None:
        yield "true"
    else:
        pem = facts.value("certificate")
        why = why_anew(pem, authority.trusted, wanted.use, wanted.name, wanted.address, now())
        if not why and facts.value("certificate-mode") != wanted.wanted_fact:
            why = "other users can read it, or its own user cannot"
        if why:
            yield Certify(wanted, why)


def _authority(facts: HostFacts, wanted: Certified) -> Authority | Refuse | None:
    """The authority; None in prepare while it has to be created; a refusal if the host has another one."""
    pem = facts.value("certificate")
    try:
        authority = known(wanted.folder)
        why_anew(pem, authority.trusted if authority else (), wanted.use, wanted.name, wanted.address, now())
        return made(wanted.folder, now()) if authority is None and state.is_executing else authority
    except LookupError as error:
        return Refuse(_foreign(wanted, str(error)))
    except (ValueError, OSError) as error:
        return Refuse(_unusable(wanted, str(error)))


class Certify(PyinfraCommand):
    """Makes a new private key on the host, and a certificate for it."""

    def __init__(self, wanted: Certified, why: str) -> None:
        super().__init__()
        self.wanted, self.why = wanted, why

    def __repr__(self) -> str:
        return f"certify {self.wanted.path} for {self.wanted.use}: {self.why}"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True once the file is on the host."""
        host.log(f"a certificate of the fleet: {self.why}", log_func=logger.info)
        done, output = host.run_shell_command(StringCommand(requested(self.wanted)), **connector_arguments)
        if not done:
            return False
        try:
            authority = made(self.wanted.folder, now())
            request = "\n".join(output.stdout_lines) + "\n"
            wanted = self.wanted
            pem = signed(authority, request, wanted.use, wanted.name, wanted.address, now())
        except (ValueError, OSError) as error:
            Refuse(_unusable(self.wanted, str(error))).log(host)
            return False
        sent: ConnectorArguments = {**connector_arguments, "_stdin": pem}
        return bool(host.run_shell_command(StringCommand(installed(self.wanted, pem)), **sent)[0])


def requested(wanted: Certified) -> str:
    """The command that makes a private key beside the file's place, and prints a request for it."""
    folder, new = wanted.path.rsplit("/", 1)[0], f"{wanted.path}.enginehouse-new"
    key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    return (
        f"set -e; umask 077; mkdir -p {folder}; rm -f {new};"
        f" openssl req -new {key} -subj /CN=enginehouse -keyout {new} -out {new}.csr 2>/dev/null;"
        f" cat {new}.csr; rm -f {new}.csr"
    )


def installed(wanted: Certified, pem: str) -> str:
    """The command that puts the certificate on its standard input behind its key, and installs both if they match."""
    new = f"{wanted.path}.enginehouse-new"
    return (
        f"set -e; umask 077; cat > {new}.crt; test $(stat -c %s {new}.crt) = {len(pem.encode())};"
        f" cat {new}.crt >> {new}; rm -f {new}.crt; chown {wanted.owner} {new}; chmod {wanted.mode} {new};"
        f" sync {new}; mv -T {new} {wanted.path}; {wanted.then}"
    )


def _foreign(wanted: Certified, issuer: str) -> Refusal:
    return Refusal(
        f"the certificate of this host is of another authority than the one in {wanted.folder}",
        facts={
            "found": f"{wanted.path}, signed by {issuer}",
            "wanted": f"a certificate of {wanted.folder}/{CERTIFICATES}; hosts that trust another one refuse it",
        },
        attempt=f"copy that folder from the machine that made it, and run again; if it is lost, remove {wanted.path}"
        " on every host with this refusal, and run again without --limit",
        state=STATE,
        kind="foreign-authority",
    )


def _unusable(wanted: Certified, reason: str) -> Refusal:
    return Refusal(
        f"the fleet's authority in {wanted.folder} cannot sign",
        facts={"said": reason, "wanted": f"{KEY} and {CERTIFICATES}, whose first certificate is that key's"},
        attempt=f"bring both back from a copy; or move {KEY} away and run again: a new authority signs then, and the"
        f" one before stays trusted while {CERTIFICATES} has it",
        state=STATE,
        kind="authority-unusable",
    )
