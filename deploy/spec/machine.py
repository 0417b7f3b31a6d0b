"""The VM and its installed software, as an operator declares them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from deploy.spec.sources import Secret


@dataclass(frozen=True, kw_only=True)
class DataDisk:
    """A blank disk to format and mount for weights, images and releases."""

    device: str
    mount: str = "/var/lib/enginehouse"
    file_system: Literal["ext4", "xfs"] = "ext4"


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """The network between hosts that serve one model together: its kind, the speed of a host's link, its interface.

    `interface` is the interface with the host's `peer_address`. It has the same name on every host of a group.
    """

    kind: Literal["infiniband", "roce", "ethernet"]
    gbit: int
    interface: str


@dataclass(frozen=True, kw_only=True)
class GPU:
    """A card that the catalog lacks, as `lspci -nn` and `nvidia-smi` show it. The plan names its untested
    properties."""

    pci_id: str
    """Vendor and device, `10de:2b85`."""
    sm: str
    """Its compute capability without the point: "120"."""
    mib: int
    """Memory as nvidia-smi prints it (MiB)."""
    reserved_mib: int = 640
    """MiB of `mib` that the driver keeps for itself; the default is high, because a declared card was never
    measured."""
    smi: str = ""
    """Its name in nvidia-smi without the vendor's; empty: the name in `Machine.gpu`."""
    nvlink: bool = False
    """Cards of this kind reach each other over NVLink."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The declared VM, which preflight confirms. `os` is a row of catalog.SYSTEMS, `gpu` a row of catalog.GPUS or the
    name of the `card` that is declared beside it."""

    os: str
    gpu: str
    gpus: int = 1
    memory_mib: int = 0
    disk_mib: int = 0
    kernel_flavour: str = "generic"
    secure_boot: bool = False
    nvswitch: bool = False
    confidential: bool = False
    mig: tuple[str, ...] = ()
    """Profiles every GPU is cut into, in order (`("3g.40gb", "3g.40gb")`). A server's `gpus` then count instances:
    those of GPU 0 first. With `Driver(manage=False)` they have to be there already."""
    card: GPU | None = None
    """None: `gpu` is a card of the catalog."""
    data_disk: DataDisk | None = None
    fabric: Fabric | None = None
    """None: no network is declared over which this host could serve a model together with others."""
    notices: Literal["", "aws", "gcp", "azure"] = ""
    """The cloud whose metadata service announces that it reclaims the host; the host then drains in time. Empty: no
    cloud is asked."""
    repair: Literal["none", "reset", "reboot"] = "none"
    """The strongest repair that the host makes itself for a faulty GPU: none, a reset of the GPU, or a reboot."""


@dataclass(frozen=True, kw_only=True)
class Driver:
    """NVIDIA's kernel driver. `manage=False`: another party manages the driver and its GPUs, which are verified and
    never changed, MIG instances included. `source="auto"` follows the OS."""

    branch: str = "580"
    version: str = ""
    source: Literal["auto", "canonical", "nvidia"] = "auto"
    manage: bool = True


@dataclass(frozen=True, kw_only=True)
class Docker:
    """Docker. `source="docker"` is Docker's own repository, `"distribution"` the OS package, if it supports CDI."""

    source: Literal["docker", "distribution"] = "docker"
    data_root: str = ""
    daemon: dict[str, Any] = field(default_factory=dict, hash=False)
    """Further daemon.json keys, merged key by key into the host's own file."""


@dataclass(frozen=True, kw_only=True)
class Toolkit:
    """NVIDIA Container Toolkit: four packages, one version."""

    version: str = "1.20.0-1"


@dataclass(frozen=True, kw_only=True)
class AptMirror:
    """The replacement of an upstream apt repository: its base URL and the file of its signing key on this machine."""

    url: str
    key_file: str


@dataclass(frozen=True, kw_only=True)
class Mirrors:
    """Mirrors of the three upstream apt repositories and the distribution's archive (air gap, company mirror).

    `system` has the folders `debian` and `debian-security`, or `ubuntu`. With it apt on the host reads only these
    mirrors; files of other sources stay unchanged.
    """

    system: AptMirror | None = None
    nvidia: AptMirror | None = None
    docker: AptMirror | None = None
    toolkit: AptMirror | None = None


@dataclass(frozen=True, kw_only=True)
class Registry:
    """The login to the registry of the release's image; pulls without a key are anonymous. `ca_file`: a private CA."""

    key: Secret | None = None
    username: str = "$oauthtoken"
    ca_file: str = ""


@dataclass(frozen=True, kw_only=True)
class Hub:
    """The model hub from which weights are fetched. `ca_file` trusts a private CA."""

    endpoint: str = "https://huggingface.co"
    token: Secret | None = None
    ca_file: str = ""


@dataclass(frozen=True, kw_only=True)
class Release:
    """A custom release, derived from a catalog row (mirror, repair, air gap). Empty fields have the row's values.

    `size_mib` is the image's download size, from which the needed disk space is calculated.
    """

    name: str
    derived_from: str
    image: str = ""
    digest: str = ""
    triton_core: str = ""
    trtllm: str = ""
    size_mib: int = 0
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """The order in which a fleet is updated: canaries first, then shares of the rest, with a gate after each wave.

    Hosts are counted by pool (`Host.pool`); hosts without a pool form one together.
    """

    canary_hosts: int = 1
    """Hosts of each pool in the first wave."""
    wave_percent: int = 25
    """Percent of each pool's hosts per wave after its canaries, rounded up."""
    max_unavailable: int | str = ""
    """Hosts of a pool that may be out at once: a number, or "25%" of the pool, rounded down. A larger wave is split. By
    default it is a quarter of a named pool and at least one host; without named pools only `wave_percent` limits it."""
    may_be_lost: int = 0
    """Number of hosts that a run may lose without a stop. They stay out, so each wave leaves room for them in every
    pool."""
    bake_seconds: int = 0
    """Seconds that the gate waits after a wave with changes, before it asks its hosts."""
    slower_percent: int = 0
    """Percent by which a release may be slower than its predecessor for the same test request; 0 compares nothing."""
    on_failure: Literal["stop", "host", "wave", "all"] = "stop"
    """The hosts that return to their earlier release if a gate stops the run: none, the hosts that failed there, their
    wave, or every host that this run changed. A failed swap restores its own host in every case."""
    interrupt: bool = False
    """True accepts that clients get 503 while every host of a pool is out at once and no balancer holds their
    requests."""
