"""Facts about the weights that a text names: kind, commit, and settings that the published files decide."""

import re
from collections.abc import Iterator

from deploy.catalog import ARCHITECTURES, CHECKPOINTS
from deploy.catalog.checkpoint_rows import KnownCheckpoint
from deploy.migrate.findings import Finding
from deploy.migrate.places import Settings
from deploy.migrate.weights import Source
from deploy.spec.sources import HUB_NAME

NAMED_LIKE = {
    "reranker": re.compile(r"rerank|cross-encoder|(?:^|-)ms-marco-", re.IGNORECASE),
    "embedder": re.compile(r"embed|(?:^|[/-])(?:bge|e5|gte|minilm|labse|mpnet|sentence-t5)(?:-|$)", re.IGNORECASE),
}
"""Usual name patterns of models that are not LLMs, for models outside the catalog."""
STORED = {"fp8": ("fp8",), "int4_awq": ("awq",), "int4_gptq": ("gptq",)}
"""Precisions that a checkpoint is published in, by the words of its name or its shape."""


def known_checkpoint(source: Source) -> KnownCheckpoint | None:
    """The catalog's checkpoint of a repository; None for an unknown repository."""
    name = source.repository.lower()
    return next((row for row in CHECKPOINTS.values() if name and row.repository.lower() == name), None)


def kind_by_name(source: Source) -> str:
    return next((kind for kind, form in NAMED_LIKE.items() if form.search(source.repository or source.tail)), "llm")


def of_source(source: Source, known: KnownCheckpoint | None, call: Settings) -> Iterator[Finding]:
    if source.tail.lower().endswith(".gguf"):
        why = "GGUF is not served here: name the hub's repository of the model's safetensors"
        yield Finding(call.repository, why=why)
    elif source.why:
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


def of_branch(finding: Finding, source: Source, call: Settings) -> Finding:
    """The finding about a revision after the model's name, which may be a branch or a tag."""
    option, _, revision = finding.words.partition(" ")
    if option not in ("--revision", "--model-revision") or not HUB_NAME.fullmatch(f"{source.repository}@{revision}"):
        return finding
    call.revision = revision
    return Finding(finding.words, place=f"{source.repository}@{revision}; enginehouse pin FILE locks its commit")


def of_nim(image: str, call: Settings) -> Finding:
    """The model that gives an image of NIM its name, if the catalog has it."""
    name = image.partition("@")[0].partition(":")[0].rsplit("/", 1)[-1]
    row = next((row for row in CHECKPOINTS.values() if row.name == name), None)
    owner = image.partition("nvcr.io/nim/")[2].partition("/")[0]
    call.repository = row.repository if row else f"{owner}/{name}"
    if row:
        return Finding(image, place=f"weights of {row.repository}")
    return Finding(
        image, why=f"the hub's name of this model was not found; {call.repository} is a guess from the image"
    )


def as_published(finding: Finding, source: Source, known: KnownCheckpoint | None, call: Settings) -> Finding:
    """The finding about a setting that the published weights decide: their format, and chunked prompts."""
    if finding.place.startswith("precision=") and (word := call.model.get("precision", "").strip('"')) in STORED:
        name = f"{source.repository} {source.directory}".lower()
        is_stored = known.shape.quantisation in STORED[word] if known else any(part in name for part in STORED[word])
        call.model.pop("precision")
        if is_stored:
            return Finding(finding.words, place="precision left out: the checkpoint's own")
        why = f'weights are served as they are stored; path="engine" with precision="{word}" builds an engine of them'
        return Finding(finding.words, why=why)
    if finding.place.startswith("precision=") and "auto" not in finding.place and "precision" not in call.model:
        return Finding(finding.words, place="precision left out: the checkpoint's own")
    takes_parts = known is None or ARCHITECTURES[known.shape.architecture].chunked_prefill
    if "chunked_prefill=True" in finding.place and not takes_parts:
        call.model.pop("chunked_prefill", None)
        rest = finding.place.replace("chunked_prefill=True", "").strip(", ")
        return Finding(finding.words, place=rest, why="" if rest else "TensorRT-LLM takes this model's prompts whole")
    return finding
