"""The operator's own models: preflight reads and judges their directories before Triton loads them.

Triton completes no configuration here (`--disable-auto-complete-config`), so config.pbtxt has to be whole.
"""

import re
from collections.abc import Iterable, Iterator

from deploy.catalog.model_config import FIELDS
from deploy.catalog.releases import RELEASES
from deploy.linter.pbtxt import Message, Unreadable, read
from deploy.refusals import Refusal, shortened
from deploy.slices.host import ServerSlice, Slice
from deploy.slices.own_model import OwnModelSlice
from roles._pyinfra.facts import HostFacts
from roles.preflight.on_host import AS_SERVER, Mistake, Rows, absent, closed, directories_asked, refused, rows_of

MOST_BYTES, MOST_FILES = 65_536, 2000
VERSION = re.compile(r"[1-9][0-9]{0,17}")
IN_THE_IMAGE = ("python",)
"""Backends of the images with TensorRT-LLM besides its own (tensorrtllm_backend issue 401, 23.10; read 2026-11-27)."""
_SCRIPT = "; ".join(
    (
        'cd -P -- "$1" || exit 0',
        'echo "dir $(pwd -P)"',
        f'head -c {MOST_BYTES} config.pbtxt | sed "s/^/pbtxt /"',
        f'find -L . -mindepth 1 -maxdepth 2 -printf "%y %P\\n" | head -n {MOST_FILES}',
        f'find . -maxdepth 3 -type l -exec realpath -- {{}} + | head -n {MOST_FILES} | sed "s/^/link /"',
        f'{AS_SERVER} find -L . -maxdepth 3 ! -readable | head -n 3 | sed "s/^/closed /"',
        f'{AS_SERVER} ls . > /dev/null || echo "closed ."',
    )
)


def declared(mine: Slice) -> list[tuple[ServerSlice, OwnModelSlice]]:
    return [(server, model) for server in mine.servers for model in server.own_models]


def fact_commands(mine: Slice) -> list[str]:
    return directories_asked("own-model", _SCRIPT, [model.directory for _, model in declared(mine)])


def own_models(facts: HostFacts, mine: Slice) -> Iterator[Refusal]:
    """The first mistake of each model, as a refusal."""
    for number, (server, model) in enumerate(declared(mine)):
        rows = rows_of(facts, f"own-model-{number}")
        is_known_image = mine.image.reference in {row.image for row in RELEASES.values()}
        if mistake := _of_directory(model, rows) or _of_text(model, server, rows, is_known_image):
            yield refused(mine, model.directory, mistake, "own-model")


def _of_directory(model: OwnModelSlice, rows: Rows) -> Mistake | None:
    attempt = f"put {model.name}/config.pbtxt and {model.name}/1/model.py into {model.repository}, or mount it"
    if mistake := absent(model.directory, rows, f"the model {model.name}", attempt):
        return mistake
    if "config.pbtxt" not in rows.get("f", []):
        wanted = "config.pbtxt: nothing of it is guessed here"
        return "has no configuration", _few(rows.get("f", [])), wanted, f"write {model.directory}/config.pbtxt"
    attempt = f"cp -rL into {model.directory}: a container sees no other directory"
    return closed(model.directory, rows, "files", attempt)


def _of_text(model: OwnModelSlice, server: ServerSlice, rows: Rows, is_known_image: bool) -> Mistake | None:
    place = f"{model.directory}/config.pbtxt"
    try:
        config = read("\n".join(rows.get("pbtxt", [])))
    except Unreadable as error:
        attempt = f"enginehouse check {place}"
        return "has a configuration that is not protobuf text", f"line {error.line}: {error.what}", "fields", attempt
    unknown = [field.name for field in config.fields if field.name not in FIELDS["ModelConfig"]]
    if unknown:
        attempt = f"remove it, or enginehouse check {place}"
        return (
            "has a configuration with a field that Triton does not have",
            shortened(unknown[0]),
            "Triton's fields",
            attempt,
        )
    name = config.text("name")
    if name not in ("", model.name):
        attempt = f'name: "{model.name}" in {place}'
        return "has the configuration of another model", shortened(name), f"name: {model.name!r}, or none", attempt
    return (
        _backend(config, place, is_known_image)
        or _tensors(config, place)
        or _versions(config, model, rows)
        or _instances(config, model, server, place)
        or _steps(config, server)
    )


def _backend(config: Message, place: str, is_known_image: bool) -> Mistake | None:
    backend, platform = config.text("backend"), config.text("platform")
    if platform == "ensemble" and not backend:
        return None
    if backend == "tensorrtllm":
        wanted = 'LLM(…, path="engine"): the plan splits GPUs and ranks for it'
        return "requires the backend of engines", "backend: tensorrtllm", wanted, "declare it as an LLM of the server"
    if backend in IN_THE_IMAGE or (backend and not is_known_image):
        return None
    seen = f"backend: {backend}" if backend else f"platform: {platform}" if platform else "neither backend nor platform"
    wanted = f"backend: {', '.join(IN_THE_IMAGE)}, which is in the image; or platform: ensemble"
    attempt = f'backend: "python" in {place}, with a model.py that loads it; or Release(image=…) with the backend'
    return "requires a backend that the image does not have", shortened(seen), wanted, attempt


def _tensors(config: Message, place: str) -> Mistake | None:
    missing = [field for field in ("input", "output") if not config.messages(field)]
    if not missing:
        return None
    attempt = f"{missing[0]} [ {{ name: … data_type: … dims: [ … ] }} ] in {place}"
    return "has an unfinished configuration", f"no {missing[0]}", "its inputs and outputs; none are guessed", attempt


def _versions(config: Message, model: OwnModelSlice, rows: Rows) -> Mistake | None:
    """Judges the versions that Triton's policy loads: by default the highest number."""
    present = sorted(int(name) for name in rows.get("d", []) if VERSION.fullmatch(name))
    policy = (config.messages("version_policy") or [Message()])[0]
    versions = [str(number) for message in policy.messages("specific") for number in message.all("versions")]
    counts = [message.text("num_versions") for message in policy.messages("latest")]
    latest = next((int(number) for number in counts if VERSION.fullmatch(number)), 1)
    loaded = [int(number) for number in versions if VERSION.fullmatch(number)]
    loaded = loaded or (present if policy.messages("all") else present[-latest:])
    file = config.text("default_model_filename") or "model.py"
    for version in loaded or [1]:
        if version not in present:
            attempt = f"{model.directory}/{version}/, with {file} in it"
            return f"lacks version {version}", f"versions {_few(map(str, present))}", f"directory {version}", attempt
        if config.text("platform") != "ensemble" and f"{version}/{file}" not in rows.get("f", []):
            attempt = f"{model.directory}/{version}/{file}"
            return f"lacks {version}/{file}", _few(rows.get("f", [])), "the model of each loaded version", attempt
    return None


def _instances(config: Message, model: OwnModelSlice, server: ServerSlice, place: str) -> Mistake | None:
    if config.text("platform") == "ensemble":
        return None
    groups = config.messages("instance_group")
    kinds = [group.text("kind") or "KIND_AUTO" for group in groups] or ["KIND_AUTO"]
    if not model.mib and set(kinds) != {"KIND_CPU"}:
        attempt = f"instance_group [ {{ kind: KIND_CPU }} ] in {place}; or OwnModel(…, mib=…)"
        return "would be placed on a GPU without planned memory", f"mib=0, {kinds[0]}", "mib, or KIND_CPU", attempt
    gpus = [str(value) for group in groups for value in group.all("gpus")]
    last = len(server.gpus) - 1
    foreign = [number for number in gpus if not number.isdecimal() or int(number) > last]
    if foreign:
        wanted = f"0 to {last}: a container counts its own GPUs" if last else "0: a container counts its own GPUs"
        attempt = f"gpus: [ 0 ] in {place}"
        return "names a GPU that the server does not have", f"gpus: {shortened(foreign[0])}", wanted, attempt
    return None


def _steps(config: Message, server: ServerSlice) -> Mistake | None:
    """Judges an ensemble's steps: Triton would load whatever they name."""
    known = {model.name for model in server.in_triton} | {model.name for model in server.own_models}
    steps = [step for message in config.messages("ensemble_scheduling") for step in message.messages("step")]
    foreign = [step.text("model_name") for step in steps if step.text("model_name") not in known]
    if foreign:
        attempt = f'OwnModel(name="{foreign[0]}", …) in the same server' if foreign[0] else "model_name in each step"
        return "has a step that the server does not serve", shortened(foreign[0]), ", ".join(sorted(known)), attempt
    return None


def _few(names: Iterable[object]) -> str:
    listed = [shortened(str(name)) for name in names]
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "") or "nothing"
