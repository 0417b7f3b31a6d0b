"""Pairs of settings of one host that contradict each other."""

import difflib
import re
from collections.abc import Iterator

from deploy.catalog import CHECKPOINTS
from deploy.catalog.formats import FORMATS
from deploy.catalog.names import offer
from deploy.inventory.reach import ip_of
from deploy.models.cards import declared_card
from deploy.models.resolve import sources_of
from deploy.refusals import Refusal, model_at, refuse, shortened
from deploy.spec import LLM, Checkpoint, Host, Registry, Release
from deploy.validation.repositories import sources

MONTH = re.compile(r"(?<![0-9.])(2[3-9]\.(?:0[1-9]|1[0-2]))(?![0-9.])")
"""A release of Triton inside the tag of an image."""
BOARD = 8
TOOLKIT = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?:~rc\.[0-9]+)?-[0-9]+")
PLAIN_HTTP = re.compile(r"http://(?:[^/@]*@)?(\[[^]]*\]|[^/:?]*)", re.IGNORECASE)
"""The host of a URL without TLS, brackets of IPv6 included."""
PARTITION = re.compile(r"/dev/(?:[shv]d[a-z]+[0-9]+|xvd[a-z]+[0-9]+|nvme[0-9]+n[0-9]+p[0-9]+|disk/by-.*-part[0-9]+)")
NO_DISK = re.compile(r"/dev/(?:[shv]d|xvd|nvme[0-9]*n?|md|mapper/?|disk/?|disk/by-[a-z]+/?)")


def pair_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each pair of settings of the host that contradict each other."""
    settings = (_image, _token, _registry, _toolkit, _partition, _switches, _zones)
    for problems in (*settings, _revisions, _formats, _caches, _itself):
        yield from problems(host)


def _image(host: Host) -> Iterator[Refusal]:
    release = host.release
    if not isinstance(release, Release) or release.triton_core:  # `triton_core` says what the image has
        return
    months = MONTH.findall(release.image.rpartition("/")[2].partition(":")[2])
    if months and release.derived_from not in months:
        tag = release.image.rpartition(":")[2]
        yield refuse(
            "image-of-another-release",
            f"the image's tag says {months[0]}, and the release is derived from {release.derived_from}",
            where="release.image",
            seen=f"tag {tag}, derived_from={release.derived_from!r}",
            wanted="one release in both: Triton, TensorRT-LLM and the driver's floor are those of derived_from",
            attempt=f'image="{release.image.replace(months[0], release.derived_from)}", or derived_from="{months[0]}"',
        )


def _token(host: Host) -> Iterator[Refusal]:
    plain = PLAIN_HTTP.match(host.hub.endpoint)
    if host.hub.token is not None and plain and not _is_here(plain[1].strip("[]")):
        yield refuse(
            "token-in-plain-text",
            "the hub's token would travel in plain text: the endpoint is plain HTTP",
            where="hub.endpoint",
            seen=f"{host.hub.endpoint!r}, and a token",
            wanted="https://, with ca_file for a private authority; or no token",
            attempt=f'Hub(endpoint="https{host.hub.endpoint[4:]}", token=…)',
        )


def _is_here(name: str) -> bool:
    address = ip_of(name)
    return address.is_loopback if address else name == "localhost"


def _registry(host: Host) -> Iterator[Refusal]:
    if host.registry.key is None and host.registry.username != Registry().username:
        yield refuse(
            "username-without-key",
            "the registry has a user name and no key",
            where="registry.key",
            seen=f"username={host.registry.username!r}, key=None",
            wanted="both, or neither to pull anonymously",
            attempt=f'Registry(username="{host.registry.username}", key=Secret.env("REGISTRY_PASSWORD"))',
        )


def _toolkit(host: Host) -> Iterator[Refusal]:
    version = host.toolkit.version
    if version[:1].isdecimal() and not TOOLKIT.fullmatch(version):
        parts = [*re.findall("[0-9]+", version)[:3], "0", "0"]
        yield refuse(
            "no-version",
            f"{version} is not a version of the container toolkit: apt's versions have three numbers and a revision",
            where="toolkit.version",
            seen=repr(version),
            wanted="as `apt-cache policy nvidia-container-toolkit` shows it",
            attempt=f'Toolkit(version="{".".join(parts[:3])}-1")',
        )


def _partition(host: Host) -> Iterator[Refusal]:
    disk = host.machine.data_disk
    if disk and NO_DISK.fullmatch(disk.device):
        yield refuse(
            "data-disk-device",
            f"{disk.device} is the beginning of a disk's name",
            where="machine.data_disk.device",
            seen=repr(disk.device),
            wanted="a whole disk: /dev/nvme1n1, /dev/sdb, /dev/disk/by-id/NAME",
            attempt='lsblk --fs on the host; then DataDisk(device="/dev/disk/by-id/NAME")',
        )
    if disk and PARTITION.fullmatch(disk.device):
        yield refuse(
            "data-disk-device",
            f"{disk.device} is a partition, and a data disk is a whole blank disk",
            where="machine.data_disk.device",
            seen=repr(disk.device),
            wanted="an empty disk, by a name that does not change",
            attempt='lsblk --fs on the host; then DataDisk(device="/dev/disk/by-id/NAME")',
        )


def _switches(host: Host) -> Iterator[Refusal]:
    row = declared_card(host.machine)
    if row and host.machine.nvswitch and not row.nvlink:
        yield refuse(
            "nvswitch-without-nvlink",
            f"{row.title} has no NVLink, so no NVSwitch joins these GPUs",
            where="machine.nvswitch",
            seen=f"nvswitch=True, gpu={row.name!r}",
            wanted="nvswitch=True for eight GPUs on a board of SXM modules alone",
            attempt="leave nvswitch out",
        )
    elif row and host.machine.nvswitch and host.machine.gpus == 1:
        yield refuse(
            "nvswitch-of-one-gpu",
            "one GPU has no other to reach over an NVSwitch, and the fabric manager does not start for it",
            where="machine.nvswitch",
            seen="nvswitch=True, gpus=1",
            wanted="the number of GPUs that the host has, or no NVSwitch",
            attempt="gpus=8; or leave nvswitch out",
        )


def missing_switches(host: Host) -> str:
    """A sentence for a board of eight GPUs without its NVSwitches; empty for any other host."""
    row, machine = declared_card(host.machine), host.machine
    is_board = row is not None and machine.gpus == BOARD and any(word in row.title for word in ("SXM", "B200"))
    if row is None or not is_board or machine.nvswitch or machine.mig:
        return ""
    return (
        f"eight {row.title} without nvswitch=True: boards of eight have NVSwitches, and their GPUs need the "
        "fabric manager; preflight asks the host"
    )


def _zones(host: Host) -> Iterator[Refusal]:
    for server in host.servers:
        if "%" in server.address:
            yield refuse(
                "bad-address",
                f"server {server.name}: {server.address} is a link-local address, which clients on other networks "
                "cannot reach",
                where=f'servers["{server.name}"].address',
                seen=repr(server.address),
                wanted="an address of the host without a zone",
                attempt='address="::", protection="firewall"; or address="127.0.0.1"',
            )


def _revisions(host: Host) -> Iterator[Refusal]:
    """A refusal for a commit that the catalog has for another repository."""
    known = {row.revision: row for row in CHECKPOINTS.values()}
    repositories = {row.repository for row in CHECKPOINTS.values()}
    for server, model in host.served_models:
        for part, weights in sources_of(model):
            row = known.get(weights.revision)
            if not row or weights.repository == row.repository:
                continue
            if weights.repository in repositories or _is_slip(weights.repository, row.repository):
                own = next((mine for mine in CHECKPOINTS.values() if mine.repository == weights.repository), row)
                yield refuse(
                    "revision-of-another-repository",
                    f"{model.name}: commit {weights.revision[:12]}… belongs to {row.repository}",
                    where=model_at(server.name, model.name, part, "revision"),
                    seen=f"{weights.repository} at {weights.revision[:12]}…",
                    wanted=f"a commit of {weights.repository}",
                    attempt=f'Weights.hub("{own.repository}", "{own.revision}")',
                )


def _is_slip(text: str, meant: str) -> bool:
    """True for a text that differs from the intended one in letter case, in dashes, or in two letters at most."""
    plain = text.lower().replace("_", "-")
    return plain == meant.lower() or difflib.SequenceMatcher(None, plain, meant.lower()).ratio() > 1 - 2 / len(meant)


def _caches(host: Host) -> Iterator[Refusal]:
    for server, model in host.served_models:
        if isinstance(model, LLM) and model.kv_cache.per_tenant and model.kv_cache.reuse is False:
            yield refuse(
                "tenants-of-no-reuse",
                f"{model.name}: per_tenant has no effect on a cache that reuses no blocks",
                where=model_at(server.name, model.name, "kv_cache", "per_tenant"),
                seen="per_tenant=True, reuse=False",
                wanted="one of the two: each keeps requests from using blocks of others",
                attempt="leave per_tenant out",
            )


def _itself(host: Host) -> Iterator[Refusal]:
    """A refusal for a gateway that names its own host among others, or has mutual TLS without another host."""
    gateway = host.gateway
    if gateway is None:
        return
    if host.name in gateway.others:
        rest = ", ".join(f'"{name}"' for name in gateway.others if name != host.name)
        yield refuse(
            "gateway-to-itself",
            f"{host.name}'s gateway always sends to its own servers, and `others` names the host itself",
            where="gateway.others",
            seen=repr(host.name),
            wanted="other hosts and pools",
            attempt=f"others=({rest},)" if rest else "leave others out",
        )
    if gateway.https and _is_here(gateway.https.address):
        yield refuse(
            "https-on-loopback",
            f"only the host itself can reach HTTPS at {gateway.https.address}",
            where="gateway.https.address",
            seen=repr(gateway.https.address),
            wanted="an address that clients reach; the gateway itself stays on loopback behind it",
            attempt='Https(address="0.0.0.0"), the default',
        )


def _formats(host: Host) -> Iterator[Refusal]:
    for server, model in host.served_models:
        for source in sources(model):
            shape = source.checkpoint
            if isinstance(shape, Checkpoint) and shape.format not in ("", *FORMATS):
                yield refuse(
                    "unknown-choice",
                    f"{model.name}: no format of published files has the name {shortened(shape.format)}",
                    where=model_at(server.name, model.name, *source.checkpoint_at, "format"),
                    seen=shortened(shape.format),
                    wanted=f"one of {', '.join(FORMATS)}, or none for plain weights",
                    attempt=offer(shape.format, FORMATS),
                )
