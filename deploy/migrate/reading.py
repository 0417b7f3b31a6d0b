"""Finds the server in pasted text: in a line, a script, a here-document, `docker run`, a compose file or a manifest.

Variables that the same text assigns are replaced by their values. Nothing is run, and an unassigned variable stays as
it is. More than 300 lines: a form of a start may be inside another.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from deploy.linter.calls import LAUNCHERS, call_of
from deploy.linter.config_files import as_script, cells_of, with_values
from deploy.linter.copied import plain, typed_as
from deploy.linter.docker import PROGRAMS as DOCKERS
from deploy.linter.docker import run_words
from deploy.linter.dockerfile import ADDED, RUNS, instructions, is_dockerfile
from deploy.linter.findings import Call
from deploy.linter.fragments import variables
from deploy.linter.manifests import COMPOSE, Container, containers
from deploy.linter.options import Option, argparse_options
from deploy.linter.shells import SHELLS, text_place
from deploy.linter.words import Word, here_documents, pasted, word
from deploy.migrate.code import STARTS, commands_in
from deploy.migrate.engine import Engine
from deploy.migrate.options import NO_PLACE
from deploy.migrate.places import PLACES
from deploy.migrate.servers import ENGINES, NIM
from deploy.migrate.variables import ASSIGNED, all_filled, assignments, used, with_arrays
from deploy.migrate.weights import is_model

SILENT = frozenset(["set", "cd", "echo", "true", "exec", "[", "[[", "then", "fi", "do", "done", "mkdir", "cat", "wait"])
"""Programs of scripts that do not affect a server."""
NO_STARTERS = frozenset(["echo", "printf", "grep", "pgrep", "pkill", "kill", "killall", "pip", "pip3", "which", "man"])
STARTERS = frozenset(
    [
        *("srun", "systemd-run", "torchrun", "accelerate", "ssh", "kubectl", "screen", "tmux", "numactl", "taskset"),
        *("uv", "uvx", "poetry", "conda", "apptainer", "singularity", "enroot"),
    ]
)
"""Programs that start a server; their own words concern the place and way of the start, and have no place."""
SIF = re.compile(r"(?:docker://)?(?:[^\s]*/)?([\w.-]+?)(?:_v?([\w.-]+))?\.sif|docker://(\S+)")
"""An image of Apptainer, by the name that `apptainer pull` gives its file, or by its place."""
FORK = re.compile(r"(^|[\w.])entrypoints\.openai\.api_server$|openai/api_server\.py$")
SETTINGS = re.compile(r"(?<!\S)--(?:yaml-)?config[= ]['\"]?(?:[^\s'\"]{0,300}/)?([^\s'\"/]{1,99}\.ya?ml)['\"]?(?!\S)")
"""An option that names a settings file."""
IMAGE = re.compile(r"[^\s=]+/[^\s=]+")
"""An image with its repository, which the name of a service or a label is not."""
LONGEST_NAME = 300
DEEPEST = 4


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server as the text starts it, with the settings around it."""

    engine: Engine
    args: tuple[Word, ...]
    variables: tuple[tuple[str, str], ...] = ()
    options: tuple[Option, ...] = ()
    """Options of `docker run`."""
    image: str = ""
    container: Container | None = None
    others: tuple[str, ...] = ()
    """Commands of the same script that are not read."""
    files: tuple[str, ...] = ()
    """Names of variables whose values the text reads from another place."""
    assigned: tuple[str, ...] = ()
    """Variables of the script itself, as `NAME=value`."""
    unit: tuple[str, ...] = ()
    """Settings of a unit of systemd, without its variables and commands."""


def servers_of(text: str) -> Iterator[Server]:
    """The servers that a text starts, in its order; of a script the first."""
    text = with_values(typed_as(plain(text)))
    for part in (*(cells_of(text) or (text,)), *(document.body for document in here_documents(text))):
        in_code = list(commands_in(part))
        yield from filter(None, (_of_script(command, {}, 0) for command in in_code))
        if in_code:
            continue
        every = list(containers(part))
        yield from filter(None, map(_of_container, every))
        if every:
            continue
        script, settings = as_script(_with_files(with_arrays(part)))
        server = _of_dockerfile(part) if is_dockerfile(part) else _of_script(script, {}, 0)
        if server:
            yield replace(server, unit=settings)


def _with_files(text: str) -> str:
    """The text with the options of a settings file, which it writes itself, in the place of `--config FILE`."""
    used = {match[1] for match in SETTINGS.finditer(text)}
    written: dict[str, str] = {}
    for document in here_documents(text) if used else ():
        file = re.search(r"[>\s](?:[^\s<>|&'\"]*/)?([^\s<>|&'\"/]+\.ya?ml)['\"]?(?:\s|$)", document.head)
        if file and file[1] in used and file[1] not in written:
            command = next(commands_in(document.body), "")
            written[file[1]] = command.removeprefix("vllm serve ").removeprefix("trtllm-serve ")
    return SETTINGS.sub(lambda match: written.get(match[1]) or match[0], text)


def _of_dockerfile(text: str) -> Server | None:
    """The server of a Dockerfile's last stage: its entry point with the words of CMD, or the image's own program."""
    steps = list(instructions(text))
    image, stage = steps[-1].image, steps[-1].stage
    exported, others = list[tuple[str, str]](), list[str]()
    arguments = dict(assignments([word(part) for step in steps if step.name == "ARG" for part in [step.text]]) or [])
    server = None
    for step in steps:
        if step.stage != stage or step.name not in ("ENV", *RUNS):
            others += [step.name] if step.name not in ("FROM", "ARG", *RUNS, "ENV") else []
            continue
        for line in pasted(f"ENV {step.text}" if step.name == "ENV" else step.text.replace(ADDED, "")):
            for command in line.commands:
                words = all_filled(command, dict(exported) | arguments)
                pairs = assignments(words)
                exported += pairs or []
                if step.name in ("CMD", "ENTRYPOINT") and pairs is None:
                    server = _in_image(image, words, dict(exported), 0, has_entry=step.name == "ENTRYPOINT") or server
                elif pairs is None:
                    others.append(step.name)
    server = server or _in_image(image, [], {}, 0, has_entry=False)
    if server is None:
        return None
    return replace(server, image=image, variables=(*exported, *server.variables), others=(*others, *server.others))


def _of_script(text: str, assigned: Mapping[str, str], depth: int) -> Server | None:
    """The first server of a shell's text."""
    known, exported, own, others = dict(assigned), list[tuple[str, str]](), list[str](), list[str]()
    first: Server | None = None
    for line in pasted(text):
        for command in line.commands:
            words = all_filled(command, known)
            pairs = assignments(words)
            if pairs is not None:
                known |= dict(pairs)
                is_local = ASSIGNED.match(words[0].text) is not None
                own += [f"{name}={value}" for name, value in pairs] if is_local else []
                exported += [] if is_local else pairs
                continue
            call = call_of(words)
            server = _of_command(words, call, known, depth)
            if first:
                others += [f"{call.program} with another server"] if server and call else []
            elif server:
                put_in = used(exported, command)
                assigned_here = (*own, *(f"{name}={value}" for name, value in put_in), *server.assigned)
                around = tuple(pair for pair in exported if pair not in put_in)
                first = replace(server, variables=(*around, *server.variables), assigned=assigned_here)
            else:
                others += [call.program] if call and call.program not in SILENT else []
    return replace(first, others=(*others, *first.others)) if first else None


def _of_command(words: Sequence[Word], call: Call | None, known: Mapping[str, str], depth: int) -> Server | None:
    """The server that one command starts, directly, in a container, or in a shell."""
    if call is None or depth > DEEPEST:
        return None
    before = [part.text.partition("=") for part in call.before if ASSIGNED.match(part.text)]
    server = _inside(call, words, known, depth)
    pairs = tuple((name, value) for name, _, value in before)
    if server is None:
        return None
    starters = [part.text for part in call.before if part.text in STARTERS]
    own = (*server.engine.programs, *server.engine.modules, *SHELLS, *DOCKERS)
    is_starter = call.program in STARTERS or (depth == 0 and call.program not in own and not call.script)
    starters += [call.program] if is_starter else []
    return replace(server, variables=(*pairs, *server.variables), others=(*starters, *server.others))


def _inside(call: Call, words: Sequence[Word], known: Mapping[str, str], depth: int) -> Server | None:
    if call.program in DOCKERS and call.args and call.args[0].text in ("run", "create", "container", "service"):
        return _of_docker(call, known, depth)
    if call.program in ("kubectl", "gcloud", "oc") and (server := _of_cloud(call, known, depth)):
        return server
    if call.program in SHELLS and (place := text_place(call)) is not None:
        return _of_script(call.args[place].text, known, depth + 1)
    if call.program in ("apptainer", "singularity"):
        for place, part in enumerate(call.args):
            if len(part.text) < LONGEST_NAME and (image := SIF.fullmatch(part.text)):
                after = call.args[place + (2 if call.args[0].text == "instance" else 1) :]
                entry = call.args[0].text == "exec"
                server = _in_image(image[3] or f"{image[1]}:{image[2]}", after, known, depth, has_entry=entry)
                return replace(server, others=(*server.others, call.program)) if server else None
    if call.program in LAUNCHERS or call.program in NO_STARTERS:
        return None
    engine, args = _started(words)
    if engine:
        return Server(engine=engine, args=tuple(args))
    for part in call.args:
        if " " in part.text and STARTS.search(part.text):
            server = _of_script(part.text, known, depth + 1)
            if server:
                return server
    return None


def _started(words: Sequence[Word]) -> tuple[Engine | None, list[Word]]:
    """The server whose program is among the words, and the words after it."""
    for place, part in enumerate(words):
        name = part.text.rsplit("/", 1)[-1]
        follows = words[place + 1].text if place + 1 < len(words) else ""
        is_fork = "api_server" in part.text and FORK.search(part.text)
        for engine in ENGINES:
            if name in engine.programs and (not engine.verbs or follows in engine.verbs or not engine.needs_verb):
                rest = list(words[place + (2 if follows in engine.verbs else 1) :])
                return engine, rest[1:] if rest and rest[0].text in engine.second_verbs else rest
            if part.text in engine.modules or (is_fork and engine.modules):
                return engine, list(words[place + 1 :])
    return None, []


def _of_docker(call: Call, known: Mapping[str, str], depth: int) -> Server | None:
    """The server of a `docker run`, by the command inside or by the image."""
    start = 2 if call.args[0].text in ("container", "service") else 1
    args = call.args[start:]
    if call.args[0].text == "service":  # whose own options are not docker run's, so the image is found by its name
        at_image = (at for at, part in enumerate(args) if IMAGE.fullmatch(part.text) and _engine_of(part.text))
        place = next(at_image, len(args))
        options, left = [*argparse_options(args[:place])], [*args[place:]]
    else:
        options, left = run_words(args)
    entry = [option.values[0] for option in options if option.name == "--entrypoint" and option.values]
    server = _in_image(left[0].text if left else "", [*entry, *left[1:]], known, depth, has_entry=bool(entry))
    if server is None and len(left) == 1 and any(option.value.startswith("NIM_MODEL_") for option in options):
        server = Server(engine=NIM, args=())
    if server is None:
        return None
    pairs = tuple(
        (name, value)
        for option in options
        if option.name in ("-e", "--env")
        for name, _, value in [option.value.partition("=")]
    )
    return replace(server, options=tuple(options), image=left[0].text, variables=(*pairs, *server.variables))


def _of_cloud(call: Call, known: Mapping[str, str], depth: int) -> Server | None:
    """The server of `kubectl run` or `gcloud run deploy`: its image, and its words behind `--` or in `--args`."""
    place = next((at for at, part in enumerate(call.args) if part.text == "--"), len(call.args))
    options = [*argparse_options(call.args[:place])]
    image = next((option.value for option in options if option.name == "--image"), "")
    words = [word(text) for option in options if option.name == "--args" for text in _listed(option.value)]
    server = _in_image(image, [*words, *call.args[place + 1 :]], known, depth, has_entry=False) if image else None
    if server is None:
        return None
    texts = [option.value for option in options if option.name == "--env"]
    texts += [text for option in options if option.name == "--set-env-vars" for text in _listed(option.value)]
    pairs = tuple((name, value) for text in texts for name, _, value in [text.partition("=")])
    return replace(server, image=image, variables=(*pairs, *server.variables))


def _listed(value: str) -> list[str]:
    """The items of a list of gcloud's, at commas or at the separator that it begins with (`^;^a;b`)."""
    separator, text = match.groups() if (match := re.fullmatch(r"\^([^^]+)\^(.*)", value, re.DOTALL)) else (",", value)
    return text.split(separator)


def _engine_of(image: str) -> Engine | None:
    return next((engine for engine in ENGINES if engine.image.search(image)), None)


def _in_image(
    image: str, words: Sequence[Word], known: Mapping[str, str], depth: int, *, has_entry: bool
) -> Server | None:
    """The server that runs in an image: the command's, or the image's own."""
    server = _of_command(words, call_of(words), known, depth + 1)
    engine = _engine_of(image)
    if engine is None and words and words[0].text.startswith("--"):
        engine = _by_options(words)
    if server or engine is None:
        return server
    first = words[0].text if words else ""
    is_weights = engine.takes_a_word and is_model(first) and all(part.text.startswith("-") for part in words[1:2])
    is_program = first in SHELLS or (first.startswith("/") and not is_weights) or (engine is NIM and first)
    if has_entry or is_program:
        return None
    return Server(engine=engine, args=tuple(words[1:] if first in engine.verbs else words))


def _by_options(words: Sequence[Word]) -> Engine | None:
    """The server of an operator's own image, by its options: at least four, all but one known, one of them unique."""
    names = {part.text.partition("=")[0].replace("_", "-") for part in words if part.text.startswith("--")}
    counts = [len(names & (engine.renamed.keys() or PLACES.keys())) for engine in ENGINES]
    best = max(range(len(ENGINES)), key=counts.__getitem__)
    known = names & {*ENGINES[best].renamed, *ENGINES[best].no_place, *PLACES, *NO_PLACE}
    is_sure = counts[best] >= 4 and counts.count(counts[best]) == 1 and len(names) - len(known) < 2
    return ENGINES[best] if is_sure else None


def _of_container(container: Container) -> Server | None:
    """The server of a service or of a pod's container."""
    key = "environment" if container.kind == COMPOSE else "env"
    pairs = tuple((name, value) for name, value, is_written in variables(container.settings.get(key)) if is_written)
    names = tuple(name for name, _, is_written in variables(container.settings.get(key)) if not is_written)
    known = dict(pairs)
    entry = "entrypoint" if container.kind == COMPOSE else "command"
    has_entry = bool(container.settings.get(entry))
    server = None
    script: list[str] = []
    for line in pasted(container.words):
        for command in line.commands:
            words = all_filled(command, known)
            server = server or _in_image(container.image, words, known, 0, has_entry=has_entry)
            script += [] if server else [part.text for part in words[:1]]
    if not container.words:
        server = _in_image(container.image, [], known, 0, has_entry=has_entry)
    if server is None and _is_kserve(container):
        lines = pasted(container.words)
        words = [part for line in lines for command in line.commands for part in all_filled(command, known)]
        server, script = Server(engine=ENGINES[-1], args=tuple(words)), []
    if server is None:
        return None
    return replace(
        server,
        container=container,
        image=container.image,
        variables=(*pairs, *server.variables),
        others=(*script, *server.others),
        files=names,
    )


def _is_kserve(container: Container) -> bool:
    """True for a model that KServe serves with its runtime for Hugging Face."""
    form = container.settings.get("modelFormat")
    name = form.get("name") if isinstance(form, Mapping) else ""
    return (
        str(name).lower() in ("huggingface", "vllm") or container.settings.get("runtime") == "kserve-huggingfaceserver"
    )
