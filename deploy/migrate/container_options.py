"""Finds a place for the settings around a server's own words: variables, ports, GPUs, volumes and others.

Every option of `docker run` gets a finding, so that none is silently skipped; `deploy.migrate.container_keys` does the
same for keys of files.
"""

import re
from collections.abc import Iterator

from deploy.linter.findings import SECRET_NAME, SECRET_VALUE, masked
from deploy.linter.gpus import CDI
from deploy.linter.limits import PORT
from deploy.linter.options import Option
from deploy.linter.words import varies
from deploy.migrate.findings import Finding
from deploy.migrate.options import LOADING, MEMORY, words_of
from deploy.migrate.places import MOST_GPUS, Settings, port_place
from deploy.migrate.reading import Server

CONTAINER = "the role triton writes the container: its user, network, shared memory, limits and restarts"
HEALTH = "the unit, a watchdog and the gateway ask every server"
STORE = "the role model_store keeps weights on the host"
HOST = "the server has the whole host; other services stand on hosts of their own"
KEYS = 'Gateway(keys="file"): make one a client with `enginehouse key new`; the one here stays unsaid'
TOKEN = 'a secret stands in no command line: Hub(token=Secret.env("HF_TOKEN")), or a vault'
REGISTRY = 'Registry(key=Secret.env("NGC_API_KEY"))'
IMAGE = "release=…: the image of that release, by its digest"
PROXY = 'the way out of a host is "proxy": Proxy(url="http://HOST:PORT"), beside its machine'
VARIABLES = {
    "CUDA_VISIBLE_DEVICES": "Server(gpus=…) says which GPUs a server has",
    "NVIDIA_VISIBLE_DEVICES": "Server(gpus=…) says which GPUs a server has",
    **dict.fromkeys(("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN", "HF_API_TOKEN"), TOKEN),
    **dict.fromkeys(("VLLM_API_KEY", "API_KEY"), KEYS),
    **dict.fromkeys(("NGC_API_KEY", "NGC_CLI_API_KEY"), f"{REGISTRY}: only the registry is asked with it"),
    **dict.fromkeys(("PYTORCH_CUDA_ALLOC_CONF", "NIM_KVCACHE_PERCENT"), MEMORY),
    **dict.fromkeys(
        (
            *("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "HF_HUB_ENABLE_HF_TRANSFER"),
            *("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "NIM_CACHE_PATH", "HF_ENDPOINT"),
        ),
        LOADING,
    ),
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"), PROXY),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "Proxy(direct=(…)) names places that are reached without it"),
    "NIM_MODEL_PROFILE": "precision=… and parallel=… say it; enginehouse fit says which precisions a model has",
}
PLAIN = words_of(
    """
    --ipc --shm-size --ulimit --restart --rm --name -d --detach -it -i -t --interactive --tty --init --network
    --net --privileged --cap-add --security-opt --user -u --runtime --pull --platform --memory --cpus --hostname
    -h --log-driver --log-opt --stop-timeout --entrypoint --workdir -w --pid --device-cgroup-rule --group-add
    --read-only --add-host --label -l --health-cmd --health-interval --health-retries --health-timeout -dit -itd
    -ti -tid -dti -tdi -idt
    -td
    """
)
"""Options of `docker run` for which the role has its own value."""
SHELL_PLACE = re.compile(r"^(?:\$\(pwd\)|`pwd`|\$\{?(?:PWD|HOME)\}?)(?=[/:]|$)")
"""Beginnings of a volume's path that a shell replaces by the current or the home directory."""
CACHE_DIRECTORY = re.compile(r"(?:/root|/home/[^/]+|/data|/cache|/opt/nim)?/?\.?cache\b|huggingface|/dev/shm|^/data$")
"""Directories of a container that hold a cache of the hub or shared memory."""


def of_variables(pairs: tuple[tuple[str, str], ...]) -> Iterator[Finding]:
    for name, value in dict(pairs).items():
        is_secret = SECRET_NAME.search(name) or SECRET_VALUE.search(value)
        written = name if is_secret or not value else f"{name}={masked(value)}"
        yield Finding(written, why=VARIABLES.get(name, "no variable of another server is set"))


def publish(call: Settings, text: str, listening: str) -> Finding:
    """The finding about a published port; the gateway takes over the host's port if the server listens there."""
    match = PORT.fullmatch(text)
    outside, inside = (match["outside"] or match["inside"], match["inside"]) if match else ("", "")
    if varies(text) or "{{" in text:
        return Finding(f"port {text}", why="its value is known only when it is filled")
    if inside != listening or not outside.isdecimal():
        return Finding(f"port {text}", why=f"clients ask the gateway alone; this server listens on {listening}")
    call.port = int(outside)
    return Finding(f"port {text}", place=port_place(call.port))


def of_docker(server: Server, call: Settings, listening: str) -> Iterator[Finding]:
    """A finding for the image of `docker run`, and for every option."""
    if server.options or (server.image and not server.container):
        yield Finding(f"image {server.image}", place=IMAGE)
    for option in server.options:
        yield from _of_option(option, call, listening)


def _of_option(option: Option, call: Settings, listening: str) -> Iterator[Finding]:
    name = option.name
    written = " ".join([name, *(value.text for value in option.values)])
    if name in ("-e", "--env"):
        return
    if name in ("-p", "--publish"):
        yield publish(call, option.value, listening)
    elif name == "--gpus" or (name == "--device" and CDI in option.value):
        yield gpus_of(call, written, option.value.rpartition(CDI)[2] if name == "--device" else option.value)
    elif name in ("-v", "--volume", "--mount"):
        yield volume_of(call, written, option.value)
    elif name == "--env-file":
        yield Finding(written, why="the file was not read: give its variables as words")
    elif name in PLAIN:
        yield Finding(written, place=CONTAINER)
    else:
        yield Finding(written, why="not read here", is_known=False)


def gpus_of(call: Settings, written: str, value: str) -> Finding:
    """The finding about a container's GPUs, which are listed by number or by name."""
    devices = re.fullmatch(r"['\"]*(?:device=)?([\d,]+)['\"]*", value)
    by_name = "device=" in value or "--device" in written
    if value == "all":
        return Finding(written, place="Machine(gpus=…) and Server(gpus=…): all that the model is split over")
    if devices and by_name:
        numbers = tuple(int(number) for number in devices[1].split(",") if number)
        call.devices = tuple(number for number in (*call.devices, *numbers) if number < MOST_GPUS)
        return Finding(written, place=f"Server(gpus={call.devices!r})")
    if value.isdecimal() and 0 < int(value) < MOST_GPUS:
        call.host_gpus = int(value)
        return Finding(written, place=f"Machine(gpus={value})")
    return Finding(written, why="Machine(gpus=…) says how many GPUs a host has; this was not read as a number")


def volume_of(call: Settings, written: str, value: str) -> Finding:
    """The finding about a volume; a directory of the host is named, because it may hold weights."""
    parts = dict(part.partition("=")[::2] for part in value.split(",")) if "=" in value else {}
    outside, _, rest = SHELL_PLACE.sub(lambda match: "~" if "HOME" in match[0] else ".", value).partition(":")
    inside = rest.partition(":")[0]
    if parts:
        outside, inside = parts.get("source") or parts.get("src", ""), parts.get("target") or parts.get("dst", "")
    is_directory = bool(inside) and re.match(r"[/~.]", outside) is not None and not varies(outside)
    if is_directory:
        call.mounts[inside] = outside
    if inside and CACHE_DIRECTORY.search(inside):
        return Finding(written, place=STORE)
    if is_directory:
        return Finding(written, place=f"Weights.local({outside!r}), if the weights lie there")
    return Finding(written, why="only the weights are brought to a host")
