"""User-data with which a host deploys itself at first boot: cloud-config of cloud-init, as text.

The smallest limit of a provider is EC2's 16,384 bytes. No secret is in the text, because any program that reaches the
metadata service can read it. The archive's place and the expected plan are settings that the program of the host reads.
"""

import base64
import gzip
import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import PurePosixPath
from typing import Any

from deploy.catalog.names import offer
from deploy.catalog.systems import SYSTEMS
from deploy.planning.plan import Plan
from deploy.refusals import Refusal, refuse, refuse_all, secret_in
from deploy.slices.host import Slice
from deploy.spec import Secret

LIMIT = 16_384
"""Bytes of user-data before base64 that every provider of the list takes; EC2's limit (2026-11-25)."""
OLDEST_PYTHON = (3, 11)
DIRECTORY = "/etc/enginehouse-first-boot"
UNIT = "enginehouse-first-boot.service"
SOURCE = re.compile(r"(https?://[^\s'\"<>]+|/[\w./+-]+)", re.ASCII)
DIGEST = re.compile(r"[0-9a-f]{64}")
INVENTORY = re.compile(r"[\w./-]+\.py", re.ASCII)
VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
UPGRADES = "systemctl mask --runtime --now apt-daily.timer apt-daily-upgrade.timer unattended-upgrades.service || true"


@dataclass(frozen=True, kw_only=True)
class Programs:
    """Texts of the program that runs at first boot, and of its unit."""

    script: str
    unit: str


@dataclass(frozen=True, kw_only=True)
class Archive:
    """This repository's archive: a URL or a path on the image, and the SHA-256 that is verified before it is opened."""

    source: str
    sha256: str


@dataclass(frozen=True)
class UserData:
    """The user-data of a host; `text` is passed to the provider."""

    host: str
    text: str
    is_compressed: bool

    @property
    def size(self) -> int:
        """Bytes, before the provider's base64."""
        return len(self.text.encode())

    @property
    def gzipped(self) -> int:
        """Bytes of the text under gzip; cloud-init unpacks it if a provider takes binary user-data."""
        return len(gzip.compress(self.text.encode(), mtime=0))

    @property
    def sizes(self) -> str:
        """The sizes of the text, plain and gzipped, beside the limit."""
        packed = ", its files packed as gz+b64" if self.is_compressed else ""
        return f"{self.size:,} bytes{packed} ({self.gzipped:,} under gzip) of fewer than {LIMIT:,}"


def user_data(
    plan: Plan, host: str, inventory: str, archive: Archive, programs: Programs, fetch_secrets: str = ""
) -> UserData:
    """The user-data of one host of the plan. Its files are packed only if they do not fit as text.

    Raises: a Refusal for an archive without digest, a host that cannot deploy itself, a secret, or too many bytes.
    """
    problems = [*archive_problems(archive), *inventory_problems(inventory), *command_problems(fetch_secrets)]
    mine = next((slice_ for slice_ in plan.slices if slice_.host == host), None)
    problems += [unknown_host(host, plan)] if mine is None else host_problems(mine)
    refuse_all(problems)
    assert mine is not None
    contents = {
        f"{DIRECTORY}/settings": settings(plan.digest, mine, inventory, archive),
        f"{DIRECTORY}/first-boot.sh": programs.script,
        f"/etc/systemd/system/{UNIT}": programs.unit,
    }
    if fetch_secrets:
        contents[f"{DIRECTORY}/fetch-secrets"] = f"{fetch_secrets}\n"
    rendered = UserData(host, cloud_config(host, contents, is_packed=False), False)
    if rendered.size >= LIMIT:
        rendered = UserData(host, cloud_config(host, contents, is_packed=True), True)
    if rendered.size >= LIMIT:
        raise too_large(rendered, contents)
    return rendered


def cloud_config(host: str, contents: Mapping[str, str], *, is_packed: bool) -> str:
    """The cloud-config. `bootcmd` comes before every package; `runcmd` comes last, and its exit code is the unit's."""
    entries = "".join(file_entry(path, text, is_packed) for path, text in contents.items())
    return f"""\
#cloud-config
# {host} brings itself to its plan; no secret is in here. State: cloud-init status --wait
# Log: journalctl -u enginehouse-first-boot. State of each step: /var/lib/enginehouse-first-boot/state.json
package_update: false
package_upgrade: false
bootcmd:
  - [cloud-init-per, instance, enginehouse-upgrades, sh, -c, "{UPGRADES}"]
write_files:
{entries}runcmd:
  - [systemctl, daemon-reload]
  - [systemctl, enable, {UNIT}]
  - [systemctl, start, {UNIT}]
"""


def file_entry(path: str, text: str, is_packed: bool) -> str:
    """An entry of `write_files`, readable only by root; the unit's entry is readable by all."""
    mode = "0644" if path.startswith("/etc/systemd/") else "0600"
    head = f"  - path: {path}\n    permissions: '{mode}'\n"
    if is_packed:
        packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
        return f"{head}    encoding: gz+b64\n    content: {packed}\n"
    return f"{head}    content: |\n{textwrap.indent(text, '      ')}"


def settings(digest: str, mine: Slice, inventory: str, archive: Archive) -> str:
    """Assignments that the program of the host reads."""
    values = {
        "NAME": mine.host,
        "PLAN": digest,
        "INVENTORY": inventory,
        "FROM": archive.source,
        "SHA256": archive.sha256,
        "SECRETS": " ".join(variables(mine)),
    }
    if mine.proxy:
        values |= {"PROXY": mine.proxy.url, "DIRECT": ",".join((*mine.proxy.direct, *mine.proxy.fleet))}
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())


def variables(mine: Slice) -> list[str]:
    """Names of the environment variables that hold this host's secrets."""
    names = {secret.source[0] for secret in secrets_of(mine) if secret.kind == "env"}
    return sorted(name for name in names if VARIABLE.fullmatch(name))


def secrets_of(value: Any) -> Iterator[Secret]:
    if isinstance(value, Secret):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from secrets_of(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from secrets_of(item)
    elif isinstance(value, Mapping):
        yield from secrets_of(list(value.values()))


def archive_problems(archive: Archive) -> Iterator[Refusal]:
    """A refusal for each thing wrong with the archive's source and digest."""
    if not archive.source or not SOURCE.fullmatch(archive.source):
        yield refuse(
            "archive-source",
            "there is no place to take the archive from",
            where="--from",
            seen=archive.source or "nothing",
            wanted="a URL with http:// or https://, or an absolute path on the image",
            attempt="--from https://HOST/enginehouse.tar.gz",
        )
    elif kind := secret_in(archive.source):
        yield _secret("--from", kind, "a URL without it: a private network, or the archive on the image")
    if not DIGEST.fullmatch(archive.sha256):
        yield refuse(
            "archive-without-digest",
            "an archive would run as root without a check of its SHA-256",
            where="--sha256",
            seen=archive.sha256 or "nothing",
            wanted="64 hex digits in small letters",
            attempt=f"--sha256 {bare}"
            if DIGEST.fullmatch(bare := archive.sha256.removeprefix("sha256:").lower())
            else "git archive --format=tar.gz -o enginehouse.tar.gz HEAD && sha256sum enginehouse.tar.gz",
        )


def inventory_problems(inventory: str) -> Iterator[Refusal]:
    """A refusal for an inventory that cannot be in the archive."""
    path = PurePosixPath(inventory)
    if path.is_absolute() or ".." in path.parts or not INVENTORY.fullmatch(inventory):
        yield refuse(
            "inventory-outside",
            "the archive cannot hold this inventory",
            where="INVENTORY",
            seen=inventory,
            wanted="the path of a Python file inside this repository, of letters, digits and . _ - /",
            attempt="copy it to inventories/, commit it, and pack the archive anew",
        )


def command_problems(command: str) -> Iterator[Refusal]:
    if kind := secret_in(command):
        yield _secret("--secrets", kind, "a command that the instance's role lets read them")
    elif command and not (command.isprintable() and command == command.strip()):
        yield refuse(
            "command-of-several-lines",
            "the command that fetches secrets is not one printable line",
            where="--secrets",
            seen=f"{len(command.splitlines())} lines",
            wanted="one line for sh, without blanks around it",
            attempt="put the lines into a file of the image, and name it: --secrets 'sh /opt/fetch.sh'",
        )


def _secret(where: str, kind: str, wanted: str) -> Refusal:
    return refuse(
        "secret-in-user-data",
        f"{where} holds a secret, and every program of the host can read user-data",
        where=where,
        seen=f"{kind}, not shown",
        wanted=wanted,
        attempt="take it out; this secret is in your shell's history now, so make a new one",
    )


def unknown_host(host: str, plan: Plan) -> Refusal:
    """The refusal of a name that no host with servers has."""
    names = sorted(slice_.host for slice_ in plan.slices)
    is_support = host in plan.hosts
    return refuse(
        "support-host-at-first-boot" if is_support else "unknown-host",
        f"{host} has no GPU: a balancer or monitor is deployed from the control machine"
        if is_support
        else f"the inventory has no host {host}",
        where="HOST",
        seen=host,
        wanted="a host with servers",
        attempt=offer(host, names),
    )


def host_problems(mine: Slice) -> Iterator[Refusal]:
    """A refusal for each reason why this host cannot deploy itself."""
    system = SYSTEMS[mine.machine.os]
    if tuple(int(part) for part in system.python.split(".")) < OLDEST_PYTHON:
        yield refuse(
            "python-too-old-for-first-boot",
            f"{mine.host} cannot deploy itself: its own Python is too old for enginehouse",
            where=f"{mine.host}: machine.os",
            seen=f"{mine.machine.os} with Python {system.python}",
            wanted="Python 3.11 or newer: Debian 12 or 13, Ubuntu 24.04",
            attempt='os="ubuntu-24.04", or deploy this host from a control machine',
        )
    if mine.proxy and mine.proxy.password:
        yield refuse(
            "proxy-login-at-first-boot",
            f"{mine.host} cannot deploy itself: its proxy asks for a login, and secrets are read behind the proxy",
            where=f"{mine.host}: proxy.password",
            seen="a proxy with a username and a password",
            wanted="a proxy that lets this host out without a login",
            attempt="leave username and password out, or deploy this host from a control machine",
        )
    for weights in mine.weights:
        if not weights.repository:
            yield refuse(
                "weights-of-the-control-machine",
                f"{mine.host} cannot deploy itself: {weights.model} is in a directory of the control machine",
                where=f"{mine.host}: weights of {weights.model}",
                seen="Weights.local(…)",
                wanted="weights that the host fetches itself",
                attempt='Weights.hub("OWNER/NAME", "COMMIT"), or deploy this host from a control machine',
            )


def too_large(rendered: UserData, contents: Mapping[str, str]) -> Refusal:
    """The refusal of user-data above EC2's limit, plain or compressed."""
    plain = len(cloud_config(rendered.host, contents, is_packed=False).encode())
    largest = max(contents, key=lambda path: len(contents[path]))
    return refuse(
        "user-data-too-large",
        f"the user-data of {rendered.host} is too large",
        where=f"{rendered.host}: {largest}, {len(contents[largest].encode()):,} bytes",
        seen=f"{plain:,} bytes, and {rendered.size:,} with its files packed",
        wanted=f"fewer than {LIMIT:,} bytes: EC2's limit",
        attempt="put the command for secrets into a file of the image, and name it: --secrets 'sh /opt/fetch.sh'",
    )
