"""The LLM beside a Triton server as files of the server's release: `llm/run`, and the settings that it names.

The release has both containers, so that a swap, a rollback and a clean-up treat them as one.
"""

import shlex

import yaml

from deploy.models.files import ROOT, weights_path
from deploy.models.runtimes import OF_THE_RELEASE, SETTINGS_FILE
from deploy.planning.mpi import RANKS
from deploy.slices.container import ContainerSlice
from deploy.slices.group import GroupSlice
from deploy.slices.host import ModelSlice, ServerSlice
from deploy.slices.runtime import RuntimeSlice
from roles._shipping.places import PROGRAMS, UNITS, program
from roles._shipping.templates import template
from roles._shipping.texts import HERE, Text
from roles.triton.defaults import Defaults
from roles.triton.times import docker_stop_seconds, unit_settings
from roles.triton.waiting import awaited, wait_settings

UNIT = HERE / "files" / "units" / "llm@.service"
RUN = "llm/run"
CACHE = "/var/cache/enginehouse"
ENVIRONMENT = {
    "HOME": CACHE,
    "USER": "triton-server",
    "XDG_CACHE_HOME": CACHE,
    "CUDA_CACHE_PATH": f"{CACHE}/cuda",
    "TRITON_CACHE_DIR": f"{CACHE}/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{CACHE}/inductor",
    "FLASHINFER_WORKSPACE_BASE": CACHE,
    "HF_HOME": f"{CACHE}/huggingface",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""Environment: compilers keep their results in the release's cache; no hub is asked, and no usage is reported."""
FABRIC_DEVICES = ("/dev/infiniband",)
"""Directory of the devices of InfiniBand and RoCE; memory may be locked by the container's own limit."""
OF_RUNTIME = {
    "vllm": {"VLLM_NO_USAGE_STATS": "1", "VLLM_CACHE_ROOT": f"{CACHE}/vllm", "VLLM_CONFIG_ROOT": f"{CACHE}/config"},
    # Its Responses API would keep prompts and answers in memory.
    "trtllm-serve": {"TRTLLM_RESPONSES_API_DISABLE_STORE": "1"},
}


def render(
    server: ServerSlice, model: ModelSlice, runtime: RuntimeSlice, settings: Defaults, uid: int, network: str
) -> dict[str, bytes]:
    """The files of the LLM by their path inside the release."""
    described = container(server, model, runtime, settings, uid)
    run = template("llm", "run.j2").render(
        server=server,
        model=model,
        runtime=runtime,
        root=ROOT,
        uid=uid,
        network=network,
        tmp_mib=described.tmp_mib,
        pids_limit=described.pids_limit,
        shm_mib=described.shm_mib,
        directories=described.directories,
        environment=described.environment,
        docker_stop_seconds=described.stop_seconds,
        lines=lines(runtime.arguments),
        programs=PROGRAMS,
        fabric_devices=FABRIC_DEVICES if runtime.group and runtime.group.fabric != "ethernet" else (),
    )
    files = {RUN: run.encode()}
    if f"{OF_THE_RELEASE}/{RANKS}" in runtime.arguments:
        files[RANKS] = (HERE / "files" / "launch" / "ranks.py").read_bytes()
    if runtime.configuration:
        files[SETTINGS_FILE] = yaml.safe_dump(runtime.configuration, sort_keys=False).encode()
    return files


def container(
    server: ServerSlice, model: ModelSlice, runtime: RuntimeSlice, settings: Defaults, uid: int
) -> ContainerSlice:
    return ContainerSlice(
        name=f"llm-{server.name}",
        image=runtime.image.pull_reference,
        program=runtime.program,
        arguments=runtime.arguments,
        uid=uid,
        address="127.0.0.1",
        ports=((runtime.port, runtime.port),),
        devices=server.devices,
        directories=tuple(weights_path(files) for files in (model.weights, *model.adapters)),
        environment=tuple(sorted((ENVIRONMENT | OF_RUNTIME[runtime.name] | dict(runtime.environment)).items())),
        tmp_mib=settings.tmp_mib,
        pids_limit=settings.pids_limit,
        shm_mib=max(server.shm_mib, 1024 * len(server.gpus)),
        stop_seconds=docker_stop_seconds(server),
    )


def lines(arguments: tuple[str, ...]) -> list[str]:
    """The arguments as lines of a shell command: each flag with its value."""
    rows: list[list[str]] = []
    for word in arguments:
        if word.startswith("--") or not rows:
            rows.append([])
        rows[-1].append(_quoted(word))
    return [" ".join(row) for row in rows]


def _quoted(word: str) -> str:
    if word.startswith(f"{OF_THE_RELEASE}/"):
        return f'"$release"/{shlex.quote(word.removeprefix(f"{OF_THE_RELEASE}/"))}'
    return shlex.quote(word)


def known_to_host(model: ModelSlice, runtime: RuntimeSlice, stop_seconds: int) -> dict[str, object]:
    return {
        "llm_port": runtime.port,
        "llm": {
            "name": model.name,
            "runtime": runtime.name,
            "version": runtime.version,
            "image": runtime.image.pull_reference,
            "metrics_path": runtime.metrics_path,
            "answers_metric": runtime.answers_metric,
            "tokens_metric": runtime.tokens_metric,
        },
        **({"group": _group(runtime.group, stop_seconds)} if runtime.group else {}),
    }


def _group(group: GroupSlice, stop_seconds: int) -> dict[str, object]:
    return {
        "identity": group.identity,
        "number": group.number,
        "members": [{"host": member.host, "address": member.address} for member in group.members],
        "port": group.port,
        "stop_seconds": stop_seconds,
    }


OF_GROUP = f"""# Ranks have chosen their ports by now; users of this host are kept from those on loopback, too.
ExecStartPost=-/bin/bash {program("guard.sh")}
# A group stops in its own order: the leader's program first, and then every rank (`host group`).
KillMode=mixed
ExecStop=
ExecStop=-/usr/bin/python3 -B /usr/local/lib/enginehouse/host traffic drained %i
"""


def drop_in(server: ServerSlice, drain_seconds: int) -> Text:
    """The time limits of the LLM's unit, equal to the limits of its server's unit."""
    text = unit_settings(server, drain_seconds).replace("Triton's exit timeout", "the program's shutdown time")
    text += wait_settings(server, awaited([server.standalone_llm[0]] if server.standalone_llm else []))
    group = server.standalone_llm[1].group if server.standalone_llm else None
    return Text(f"{UNITS}/llm@{server.name}.service.d/enginehouse.conf", text + (OF_GROUP if group else ""))
