"""Reads the first server out of pasted text, finds a place for each of its words, and writes the inventory."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace

from deploy.catalog import ARCHITECTURES, CHECKPOINTS, DEFAULT_RELEASE
from deploy.catalog.known import KnownCheckpoint
from deploy.catalog.names import nearest
from deploy.linter.findings import SECRET_NAME, masked
from deploy.linter.options import Option, argparse_options
from deploy.linter.words import Word, word
from deploy.migrate.around import VARIABLES, of_docker, of_variables
from deploy.migrate.around_files import of_container
from deploy.migrate.counterparts import COUNTERPARTS
from deploy.migrate.findings import Finding, Migration
from deploy.migrate.inventory import inventory_text
from deploy.migrate.options import NO_PLACE
from deploy.migrate.places import PLACES, Given
from deploy.migrate.reading import Server, server_of
from deploy.migrate.servers import NIM
from deploy.migrate.weights import Source, is_model, source_of
from deploy.refusals.refuse import refuse
from deploy.spec import LLM
from deploy.spec.sources import HUB_NAME

SECRET = ("--api-key", "--hf-token")
OF_LLMS = ("max_", "chunked_", "kv_cache", "parallel", "precision", "tool_", "reasoning_", "guided_", "lora")
"""How places begin that only an LLM has."""
STORED = {"fp8": ("fp8",), "int4_awq": ("awq",), "int4_gptq": ("gptq",)}
"""Precisions that a checkpoint is published in, by the words of its name or its shape."""
OF_ENCODERS = ("max_batch_tokens", "max_items")
EVERY = {**PLACES, **COUNTERPARTS}
NAMED_LIKE = {
    "reranker": re.compile(r"rerank|cross-encoder|(?:^|-)ms-marco-", re.IGNORECASE),
    "embedder": re.compile(r"embed|(?:^|[/-])(?:bge|e5|gte|minilm|labse|mpnet|sentence-t5)(?:-|$)", re.IGNORECASE),
}
"""How models that are no LLMs are usually named, if the catalog does not have them."""
TASKS = ("embed", "embedding", "pooling", "score", "generate", "classify")


def migrate(text: str) -> Migration:
    """The inventory of the first server in the text, and what it leaves out.

    Raises: a Refusal where there is none, or it names no model.
    """
    server = server_of(text)
    if server is None:
        raise _refused("no server was found that is known here", _first_line(text))
    call = Given(port=server.engine.port, kind=server.engine.kind)
    findings = [*_of_args(server, call), *_of_variables(server, call)]
    listening = str(call.port)
    findings += of_docker(server, call, listening)
    if server.container:
        findings += of_container(server.container, call, listening)
        _storage(server, call)
    findings += [Finding(name, why=VARIABLES.get(name, "its value was not seen")) for name in server.files]
    findings += [_assigned(text) for text in server.assigned]
    findings += [
        Finding(f"command {name}", why="not read here", is_known=False) for name in dict.fromkeys(server.others)
    ]
    if not call.repository and server.engine is NIM:
        findings.append(_of_nim(server.image, call))
    if not call.repository:
        raise _refused("it names no model", masked(" ".join(word.text for word in server.args))[:80] or "no words")
    return _written(call, findings)


def _written(call: Given, findings: list[Finding]) -> Migration:
    source = source_of(call.repository, call.mounts)
    known = _known(source)
    kind = ARCHITECTURES[known.shape.architecture].kind if known else call.kind or _kind_by_name(source)
    if known is None and HUB_NAME.fullmatch(source.repository):
        findings = [_of_branch(finding, source, call) for finding in findings]
    if call.adapters:
        findings.append(Finding("--lora-modules", why="each adapter's commit and rank: LoRA(adapters=(Adapter(…),))"))
    findings += _of_source(source, known, call)
    if kind == "llm":
        findings = [_as_published(finding, source, known, call) for finding in findings]
        findings = [*(_of_llm(finding) for finding in findings), *_whole_prompts(call, known)]
    else:
        findings = [_of_encoder(finding) for finding in findings]
        if not known and not call.kind:
            findings.append(
                Finding(call.repository, place=f"{kind.capitalize()}(…), by its name: LLM(…) if it is none")
            )
    return Migration(tuple(findings), inventory_text(call, source, known, kind, DEFAULT_RELEASE))


def _known(source: Source) -> KnownCheckpoint | None:
    name = source.repository.lower()
    return next((row for row in CHECKPOINTS.values() if name and row.repository.lower() == name), None)


def _kind_by_name(source: Source) -> str:
    return next((kind for kind, form in NAMED_LIKE.items() if form.search(source.repository or source.tail)), "llm")


def _of_source(source: Source, known: KnownCheckpoint | None, call: Given) -> Iterator[Finding]:
    """The place of the weights in the inventory, and what about them is the operator's to do."""
    if source.why:
        yield Finding(call.repository, why=source.why)
    elif source.directory:
        yield Finding(call.repository, place=f"weights from {source.directory}, on the machine where plan is typed")
    elif call.repository != source.repository and known:
        at = f" at {source.revision[:12]}" if source.revision else ""
        yield Finding(call.repository, place=f"weights of {source.repository}{at}")
    elif known is None and "/" in source.repository:
        yield Finding(
            source.repository, place="a model by its hub name: enginehouse pin FILE asks for its commit and shape"
        )
    elif known is None:
        yield Finding(source.repository, why="no repository of a hub is named like this: OWNER/NAME")
    elif not (call.revision or source.revision):
        yield Finding(source.repository, place=f"weights at the catalog's commit {known.revision[:12]}")


def _of_branch(finding: Finding, source: Source, call: Given) -> Finding:
    """The finding of a revision that stands after the model's name, where a branch or a tag may stand too."""
    option, _, revision = finding.said.partition(" ")
    if option not in ("--revision", "--model-revision") or not HUB_NAME.fullmatch(f"{source.repository}@{revision}"):
        return finding
    call.revision = revision
    return Finding(finding.said, place=f"{source.repository}@{revision}; enginehouse pin FILE locks its commit")


def _of_nim(image: str, call: Given) -> Finding:
    """The model that an image of NIM is named after, where the catalog has it."""
    name = image.partition("@")[0].partition(":")[0].rsplit("/", 1)[-1]
    row = next((row for row in CHECKPOINTS.values() if row.name == name), None)
    owner = image.partition("nvcr.io/nim/")[2].partition("/")[0]
    call.repository = row.repository if row else f"{owner}/{name}"
    if row:
        return Finding(image, place=f"weights of {row.repository}")
    return Finding(
        image, why=f"the hub's name of this model was not found; {call.repository} is a guess from the image"
    )


def _as_published(finding: Finding, source: Source, known: KnownCheckpoint | None, call: Given) -> Finding:
    """The finding about a setting that the published weights decide: how they are stored, and prompts in parts."""
    if finding.place.startswith("precision=") and (word := call.model.get("precision", "").strip('"')) in STORED:
        name = f"{source.repository} {source.directory}".lower()
        is_stored = known.shape.quantisation in STORED[word] if known else any(part in name for part in STORED[word])
        call.model.pop("precision")
        if is_stored:
            return Finding(finding.said, place="precision left out: what the checkpoint holds")
        why = f'weights are served as they are stored; path="engine" with precision="{word}" builds an engine of them'
        return Finding(finding.said, why=why)
    takes_parts = known is None or ARCHITECTURES[known.shape.architecture].chunked_prefill
    if "chunked_prefill=True" in finding.place and not takes_parts:
        call.model.pop("chunked_prefill", None)
        rest = finding.place.replace("chunked_prefill=True", "").strip(", ")
        return Finding(finding.said, place=rest, why="" if rest else "TensorRT-LLM takes this model's prompts whole")
    return finding


def _of_encoder(finding: Finding) -> Finding:
    """The finding as it is for an embedder or a reranker, which have none of an LLM's arguments."""
    if finding.said.startswith(("--max-model-len", "--context-length", "NIM_MAX_MODEL_LEN")):
        return Finding(finding.said, place=finding.place.replace("max_seq_len", "max_tokens"), why=finding.why)
    if finding.place.startswith(OF_LLMS) and not finding.place.startswith(OF_ENCODERS):
        why = "encoders have no such setting: passes are filled by tokens, nothing is cached"
        return Finding(finding.said, why=why)
    return finding


def _of_llm(finding: Finding) -> Finding:
    """The finding as it is for an LLM, which has none of an encoder's arguments."""
    if finding.place.startswith(OF_ENCODERS):
        return Finding(finding.said, why="an LLM has max_num_tokens and max_batch_size instead")
    return finding


def _whole_prompts(call: Given, known: KnownCheckpoint | None) -> list[Finding]:
    """Other servers take a long prompt in parts unasked; here an iteration has to have room, or is told to."""
    length = int(call.model.get("max_seq_len", LLM.max_seq_len))
    room = int(call.model.get("max_num_tokens", LLM.max_num_tokens))
    if length <= room or "chunked_prefill" in call.model:
        return []
    if known and not ARCHITECTURES[known.shape.architecture].chunked_prefill:
        call.model["max_num_tokens"] = str(length)
        return [Finding("prompts in parts", place=f"max_num_tokens={length:,}: this model takes a prompt whole")]
    call.model["chunked_prefill"] = "True"
    return [Finding("prompts in parts", place="chunked_prefill=True: the other server does so unasked")]


def _of_args(server: Server, call: Given) -> Iterator[Finding]:
    """A finding for every word of the server's own."""
    for option in argparse_options(server.args):
        name = option.name.replace("_", "-") if option.name.startswith("--") else option.name
        alone = server.engine.stands_alone(server.engine.renamed.get(name, name)) or server.engine.stands_alone(name)
        values = option.values
        if not name or (alone and values and not option.is_attached):
            yield from _of_words(server, call, values)
            values = ()
        if name:
            kept = Option(name, values, option.raw, option.is_attached)
            yield _finding(server, kept, name, call)


def _of_words(server: Server, call: Given, words: tuple[Word, ...]) -> Iterator[Finding]:
    """The model, if the server takes a word for one; words behind it belong to nothing."""
    for place, value in enumerate(words):
        if (
            place == 0
            and server.engine.takes_a_word
            and not call.repository
            and is_model(value.text)
            and not value.varies
        ):
            call.repository = value.text
        elif value.varies:
            yield Finding(value.text, why="its value is known only when the shell runs it")
        else:
            yield Finding(masked(value.text), why="belongs to no option", is_known=False)


def _finding(server: Server, option: Option, written: str, call: Given) -> Finding:
    """The finding about an option; `written` is how the text says it."""
    name = server.engine.place_of(option.name)
    is_secret = name in SECRET or SECRET_NAME.search(written) is not None
    text = written if is_secret else " ".join([written, *(masked(value.text) for value in option.values)])
    if option.varies and not is_secret:
        return Finding(text, why="its value is known only when the shell runs it")
    why = server.engine.reason(name) or server.engine.reason(option.name)
    if name in EVERY and not server.engine.no_place.get(name):
        place, missing = EVERY[name](call, _translated(server, option, name))
        return Finding(text, place, missing)
    base = name.split(".")[0]
    if why or base in ("--speculative-config", "--structured-outputs-config"):
        return Finding(text, why=why or f"only {base} as JSON was read")
    known = [*server.engine.renamed, *server.engine.no_place] or [*PLACES, *NO_PLACE]
    close = nearest(option.name, known)
    return Finding(text, why=f"not read here{f'; near {close}' if close else ''}", is_known=False)


def _translated(server: Server, option: Option, name: str) -> Option:
    """The option under its name of vLLM, with the value that vLLM has for it."""
    values = tuple(
        Word(text, text) if (text := server.engine.values.get((name, value.text))) else value for value in option.values
    )
    return Option(name, values, option.raw, option.is_attached)


def _of_variables(server: Server, call: Given) -> Iterator[Finding]:
    """Variables: those that say an option, as that option, and the others."""
    others: list[tuple[str, str]] = []
    for name, value in dict(server.variables).items():
        flag = _flag_of(server, name)
        if not flag or not value:
            others.append((name, value))
        elif flag == "--passthrough":
            inner = Server(engine=server.engine, args=tuple(word(shlex.quote(part)) for part in value.split()))
            yield from _of_args(inner, call)
        else:
            typed = Word(value, value) if "$" in value else word(shlex.quote(value))
            finding = _finding(server, Option(flag, (typed,), ()), name, call)
            yield replace(finding, said=finding.said.replace(f"{name} ", f"{name}=", 1))
    yield from of_variables(tuple(others))


def _flag_of(server: Server, name: str) -> str:
    """The option that a variable stands for; empty where it stands for none."""
    if name == "NIM_PASSTHROUGH_ARGS":
        return "--passthrough"
    if name in server.engine.variables:
        return server.engine.variables[name]
    flag = "--" + name.lower().replace("_", "-")
    is_option = flag in server.engine.renamed or flag in server.engine.no_place
    return flag if server.engine.says_options_in_variables and is_option and flag not in SECRET else ""


def _assigned(text: str) -> Finding:
    """The finding about a variable of the script, which was put in where the script uses it."""
    name, _, value = text.partition("=")
    shown = name if SECRET_NAME.search(name) else masked(text)
    return Finding(shown, place=f"put in for ${name}") if value else Finding(shown, why="it is empty")


def _storage(server: Server, call: Given) -> None:
    """The model that KServe takes from a storage, if no option names one."""
    uri = server.container.settings.get("storageUri") if server.container else None
    if isinstance(uri, str) and uri and not call.repository:
        call.repository = uri


def _first_line(text: str) -> str:
    return masked(text.strip().splitlines()[0])[:80] if text.strip() else "nothing"


def _refused(problem: str, seen: str) -> Exception:
    return refuse(
        "no-server",
        problem,
        where="enginehouse migrate",
        seen=seen,
        wanted="a command, docker run, script, compose file or manifest that starts vLLM, SGLang, TGI, TEI or NIM",
        attempt="enginehouse migrate 'vllm serve Qwen/Qwen3-8B --max-model-len 32k'",
    )
