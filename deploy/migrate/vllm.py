"""Reads a `vllm serve` out of pasted text, finds a place for each of its words, and writes the inventory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deploy.catalog import ARCHITECTURES, CHECKPOINTS, DEFAULT_RELEASE
from deploy.catalog.known import KnownCheckpoint
from deploy.catalog.names import nearest
from deploy.linter.manifests import containers, is_manifest
from deploy.linter.options import Option, argparse_options
from deploy.linter.words import Word, pasted
from deploy.migrate.inventory import inventory_text
from deploy.migrate.options import FLAGS, NO_PLACE
from deploy.migrate.places import ENVIRONMENT, PLACES, SHORT, Given
from deploy.refusals.refuse import refuse
from deploy.spec import LLM
from deploy.spec.sources import HUB_NAME

IMAGE = re.compile(r"(^|/)vllm-openai(:|@|$)")
MODULE = "vllm.entrypoints.openai.api_server"
ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
SECRET = ("--api-key", "--hf-token")
RERANKS = re.compile(r"rerank|cross-encoder|(^|-)ms-marco-", re.IGNORECASE)
EMBEDS = re.compile(r"embed|(^|-)(bge|e5|gte|minilm|labse|mpnet)(-|$)", re.IGNORECASE)
OF_LLMS = ("max_", "chunked_", "kv_cache", "parallel", "precision", "tool_", "reasoning_", "guided_", "lora")
"""How places begin that only an LLM has."""
KEY = re.compile(r"(KEY|TOKEN)=")


@dataclass(frozen=True)
class Finding:
    """A word of the command line: where the inventory says it, or why it has no place. `is_known` False: nobody read
    what it means."""

    said: str
    place: str = ""
    why: str = ""
    is_known: bool = True


@dataclass(frozen=True)
class Migration:
    """Every word's finding, and an inventory that says what has a place."""

    findings: tuple[Finding, ...]
    inventory: str

    @property
    def is_whole(self) -> bool:
        """True if every word has a place."""
        return all(finding.place for finding in self.findings)


def migrate(text: str) -> Migration:
    """The inventory of the first `vllm serve` in the text, and what it leaves out.

    Raises: a Refusal where there is none, or it names no model.
    """
    before, args = _serve(text)
    call, findings = Given(), list(_of_environment(before))
    for option in _options(args, call):
        findings.append(_finding(option, call))
    if not call.repository:
        raise _refused("it names no model", " ".join(word.text for word in args)[:80] or "no words")
    if call.adapters:
        findings.append(Finding("--lora-modules", why="each adapter's commit and rank: LoRA(adapters=(Adapter(…),))"))
    known = next((row for row in CHECKPOINTS.values() if row.repository.lower() == call.repository.lower()), None)
    kind = ARCHITECTURES[known.shape.architecture].kind if known else call.kind or kind_by_name(call.repository)
    if known is None and HUB_NAME.fullmatch(call.repository):
        findings = [_of_name(finding, call) for finding in findings]
        place = "its name; enginehouse pin FILE locks commit, files and numbers"
        findings.append(Finding(call.repository, place=place))
    elif known is None:
        place = "a directory of this machine; its config.json and the headers of its weights are read"
        findings.append(Finding(call.repository, place=place))
    elif not call.revision:
        findings.append(Finding(call.repository, place=f"weights at the catalog's commit {known.revision[:12]}"))
    findings = (
        [*findings, *_whole_prompts(call, known)] if kind == "llm" else [_of_encoder(finding) for finding in findings]
    )
    return Migration(tuple(findings), inventory_text(call, known, kind, DEFAULT_RELEASE))


def _of_name(finding: Finding, call: Given) -> Finding:
    """The finding of a revision that stands after the model's name, where a branch or a tag may stand too."""
    option, _, revision = finding.said.partition(" ")
    if option != "--revision" or not HUB_NAME.fullmatch(f"{call.repository}@{revision}"):
        return finding
    call.revision = revision
    return Finding(finding.said, place=f"{call.repository}@{revision}; enginehouse pin FILE locks its commit")


def kind_by_name(repository: str) -> str:
    """The kind of a model that nobody has read, by the words in its name; a wrong guess is refused by the plan."""
    name = repository.rsplit("/", 1)[-1]
    return "reranker" if RERANKS.search(name) else "embedder" if EMBEDS.search(name) else "llm"


def _of_encoder(finding: Finding) -> Finding:
    """The finding as it is for an embedder or a reranker, which have none of an LLM's arguments."""
    if finding.said.startswith("--max-model-len"):
        return Finding(finding.said, place=finding.place.replace("max_seq_len", "max_tokens"), why=finding.why)
    if finding.place.startswith(OF_LLMS):
        return Finding(
            finding.said, why="encoders have no such setting: passes are filled by tokens, nothing is cached"
        )
    return finding


def _whole_prompts(call: Given, known: KnownCheckpoint | None) -> list[Finding]:
    """vLLM takes a long prompt in parts without being asked; here an iteration has to have room, or is told to."""
    length = int(call.model.get("max_seq_len", LLM.max_seq_len))
    room = int(call.model.get("max_num_tokens", LLM.max_num_tokens))
    if length <= room or "chunked_prefill" in call.model:
        return []
    if known and not ARCHITECTURES[known.shape.architecture].chunked_prefill:
        call.model["max_num_tokens"] = str(length)
        return [Finding("prompts in parts", place=f"max_num_tokens={length:,}: this model takes a prompt whole")]
    call.model["chunked_prefill"] = "True"
    return [Finding("prompts in parts", place="chunked_prefill=True: vLLM does so unasked")]


def _serve(text: str) -> tuple[list[Word], list[Word]]:
    """The words before the server's own arguments, and those arguments."""
    if is_manifest(text):
        for container in containers(text):
            words = [word for line in pasted(container.words) for command in line.commands for word in command]
            place = _place(words)
            if place is not None:
                return words[: place[0]], words[place[1] :]
            if IMAGE.search(container.image.split("@")[0]):
                return [], words
    for line in pasted(text):
        for command in line.commands:
            place = _place(command)
            if place is not None:
                return list(command[: place[0]]), list(command[place[1] :])
    raise _refused("no vllm serve was found", text.strip().splitlines()[0][:80] if text.strip() else "nothing")


def _place(words: Sequence[Word]) -> tuple[int, int] | None:
    """The place of the server's program, and the place at which its own words begin."""
    for place, word in enumerate(words):
        follows = words[place + 1].text if place + 1 < len(words) else ""
        if word.text.rsplit("/", 1)[-1] == "vllm" and follows == "serve":
            return place, place + 2
        if word.text == MODULE or word.text.endswith("openai/api_server.py"):
            return place, place + 1
        if IMAGE.search(word.text) and not word.text.startswith("-"):
            return place, place + (3 if follows == "vllm" else 1)
    return None


def _options(args: Sequence[Word], call: Given) -> Iterator[Option]:
    """Every option with its values under its long name; the words that are the model's are taken out."""
    for option in argparse_options(args):
        name = SHORT.get(option.name, option.name)
        name = name.replace("_", "-") if name.startswith("--") else name
        values = option.values
        if not name or (name in FLAGS and values and not option.is_attached):
            call.repository = call.repository or (values[0].text if values else "")
            values = ()
        if name:
            yield Option(name, values, option.raw, option.is_attached)


def _finding(option: Option, call: Given) -> Finding:
    word = option.name if option.name in SECRET else " ".join([option.name, *(value.text for value in option.values)])
    if any(value.varies for value in option.values) and option.name not in SECRET:
        return Finding(word, why="its value is known only when the shell runs it")
    if option.name in PLACES:
        place, why = PLACES[option.name](call, option)
        return Finding(word, place, why)
    base = option.name.split(".")[0]
    why = NO_PLACE.get(base) or NO_PLACE.get(base.replace("--no-", "--", 1)) or ""
    if why or base in ("--speculative-config", "--structured-outputs-config"):
        return Finding(word, why=why or f"only {base} as JSON was read")
    close = nearest(option.name, [*PLACES, *NO_PLACE])
    return Finding(word, why=f"not read here{f'; near {close}' if close else ''}", is_known=False)


def _of_environment(words: Sequence[Word]) -> Iterator[Finding]:
    """Variables that the line sets; Docker's own options are the role's matter."""
    for word in words:
        name = word.text.partition("=")[0]
        if ASSIGNED.match(word.text):
            masked = name if KEY.search(word.text) else word.text
            yield Finding(masked, why=ENVIRONMENT.get(name, "no variable of another server is set"))
    if any(word.text in ("docker", "podman") for word in words):
        yield Finding("docker run", place="the role triton writes the container: GPUs, ports, shared memory, restarts")


def _refused(problem: str, seen: str) -> Exception:
    return refuse(
        "no-vllm",
        problem,
        where="enginehouse migrate",
        seen=seen,
        wanted="vllm serve MODEL …, docker run … vllm/vllm-openai …, a compose file or a manifest with one of them",
        attempt="enginehouse migrate 'vllm serve Qwen/Qwen3-8B --max-model-len 32k'",
    )
