"""The container of a server as a job starts it: the host's start line, under Docker or under pyxis."""

import re
import shlex

from deploy.exports.served import ServedServer
from deploy.exports.slurm.jobs import ranks
from deploy.models.files import ROOT
from deploy.models.runtimes import OF_THE_RELEASE
from deploy.slices.container import ContainerSlice

CACHE = "/var/cache/enginehouse"
KEY = "/run/enginehouse/key"
NETWORK = "enginehouse-jobs"


def image_of(server: ServedServer) -> str:
    """The image as its registry names it; hosts that share files would pull from their own loopback instead."""
    own = server.triton.image
    return server.slice.image.origin_reference if own.startswith("127.0.0.1:") else own


def enroot_image(reference: str) -> str:
    """`nvcr.io#nvidia/tritonserver:sha256:…`: enroot writes `#` after a registry, and takes a digest as a tag.

    Read in enroot's src/docker.sh at 067079e, 2026-11-27.
    """
    first, _, rest = reference.partition("/")
    is_registry = rest and re.search(r"[.:]|^localhost$", first)
    return f"{first}#{rest}".replace("@", ":") if is_registry else reference.replace("@", ":")


def start_line(server: ServedServer, runtime: str) -> str:
    """The file `run`: its arguments are the job's and the cluster's directory; it runs until the container ends."""
    words = shlex.join(word.replace(OF_THE_RELEASE, server.path) for word in server.triton.arguments)
    head = (
        "#!/bin/bash\n"
        f"# Runs the Triton server {server.slice.name} of this node's host in the foreground: run JOB_DIRECTORY ROOT.\n"
        "# Image, words, ports, devices, mounts and limits are those of the host's own start line.\n"
        "set -euo pipefail\n"
        "work=$1 root=$2\n"
    )
    return head + (_docker(server, words) if runtime == "docker" else _pyxis(server, words))


def _docker(server: ServedServer, words: str) -> str:
    box = server.triton
    address = f"[{box.address}]" if ":" in box.address else box.address
    lines = [
        f"--rm --name enginehouse-{server.slice.name} --pull never",
        f'--label enginehouse.job="$SLURM_JOB_ID" --label enginehouse.release={server.release}',
        '--user "$(id -u):$(id -g)" --read-only --cap-drop ALL --security-opt no-new-privileges',
        f"--tmpfs /tmp:rw,exec,nosuid,nodev,size={box.tmp_mib}m",
        f"--pids-limit {box.pids_limit} --shm-size {box.shm_mib}m",
        "$LIMITS --ulimit stack=67108864 --ulimit core=0",
        f"--network {NETWORK} --dns 127.0.0.1",
        *(f"--publish {address}:{outside}:{inside}" for outside, inside in box.ports),
        *(f"--device {device}" for device in box.devices),
        *(f'--mount type=bind,source="{source}",target={target}{mode}' for source, target, mode in _mounts(server)),
        *(f"--env {name}={value}" for name, value in _environment(box, server.path)),
        f"--stop-timeout {box.stop_seconds}",
    ]
    options = "".join(f"  {line}\n" for line in lines)
    return f'options=(\n{options})\nexec docker run "${{options[@]}}" {image_of(server)} {words}\n'


def _pyxis(server: ServedServer, words: str) -> str:
    """A task for each rank: the first runs Triton, the others hold their part of the LLM and wait for the first."""
    count = ranks(server)
    mounts = [f"{source}:{target}{':ro' if mode else ''}" for source, target, mode in _mounts(server)]
    listed = "".join(f'  "{mount}"\n' for mount in [*mounts, "$work/tmp:/tmp"])
    lines = [
        f"--overlap --nodes=1 --ntasks={count} {'--mpi=pmix' if count > 1 else '--mpi=none'} --kill-on-bad-exit=1",
        f"--cpu-bind=none --job-name=enginehouse-{server.slice.name}",
        f"--container-image={enroot_image(image_of(server))}",
        "--no-container-mount-home --no-container-entrypoint --container-workdir=/tmp",
        '--container-mounts="$(IFS=,; echo "${mounts[*]}")"',
    ]
    options = "".join(f"  {line}\n" for line in lines)
    environment = " ".join(f"{name}={value}" for name, value in _environment(server.triton, server.path))
    launched = f"trtllm-llmapi-launch {words}" if count > 1 else words
    return (
        f'mounts=(\n{listed})\noptions=(\n{options})\nexec srun "${{options[@]}}" env {environment} \\\n  {launched}\n'
    )


def _mounts(server: ServedServer) -> list[tuple[str, str, str]]:
    """(source, target, ",readonly" or empty)"""
    name, readonly = server.slice.name, ",readonly"
    weights = [(f"$root{path.removeprefix(ROOT)}", path, readonly) for path in server.triton.directories]
    return [
        (f"$work/releases/{server.release}", server.path, readonly),
        *weights,
        (f"$work/passwd-{name}", "/etc/passwd", readonly),
        (f"$work/run/triton-{name}/key", KEY, readonly),
        (f"$work/cache-{name}", CACHE, ""),
    ]


def _environment(box: ContainerSlice, release: str) -> list[tuple[str, str]]:
    return [(name, shlex.quote(value.replace(OF_THE_RELEASE, release))) for name, value in box.environment]
