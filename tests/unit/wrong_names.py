"""Wrong models by name: their names, their files, and requirements of their files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deploy.spec import LLM, Checkpoint, Embedder, Model, Parallel, Reranker, Weights
from tests.unit.published import COMMIT, locked
from tests.unit.samples import AROUND, main
from tests.unit.wrong import Wrong, machine, own


def place(name: str, *fields: str) -> str:
    """The place of a refusal in the server of these tests."""
    return ".".join([f'servers["main"].models["{name}"]', *fields])


def named(model: Model, kind: str, where: str, **data: Any) -> Wrong:
    """An inventory with this one model, and a lock with the model's repository, if the case has one."""
    name = model.source.rpartition("/")[2].partition("@")[0]
    try:
        around = replace(AROUND, inventory="inventories/mine.py", locked={model.source: locked(name)})
    except KeyError:
        around = replace(AROUND, inventory="inventories/mine.py")
    return Wrong(main(model) | data, kind, where, around=around)


def published(name: str, kind: str, declared: type[Model] = LLM, field: str = "checkpoint", **data: Any) -> Wrong:
    """An inventory that names one of the published repositories."""
    return named(declared(f"x/{name}"), kind, place(name, field) if field else place(name), **data)


def typed(shape: Checkpoint, repository: str, name: str) -> Wrong:
    """Numbers typed by hand, for a repository that is locked at the same commit."""
    model = LLM(name="mine", checkpoint=shape, weights=Weights.hub(repository, COMMIT))
    return Wrong(
        main(model), "numbers-of-other-files", place("mine", "checkpoint"),
        around=replace(AROUND, locked={f"{repository}@{COMMIT}": locked(name)}),
    )  # fmt: skip


ALL = {
    "a name that is not locked says what to type": named(
        LLM("Qwen/Qwen3-32B"), "unpinned-model", place("qwen3-32b", "source")
    ),
    "a page of the hub is no name and is offered as one": named(
        LLM("https://example.com/Qwen/Qwen3-32B/tree/v2/README.md"), "no-hub-name", place("readme.md", "source")
    ),
    "a name of the catalog is offered as its repository": named(
        LLM("gpt-oss-20b"), "no-hub-name", place("gpt-oss-20b", "source")
    ),
    "a dash of a word processor is offered as a hyphen": named(
        LLM("meta-llama/Llama-3.2-1B‑Instruct"), "no-hub-name", place("llama-3.2-1b-instruct", "source")
    ),
    "a model without any name is named for its server": named(LLM(), "no-model", 'servers["main"].models'),
    "a source and a checkpoint are two models": named(
        LLM("Qwen/Qwen3-8B", checkpoint="gpt-oss-20b"), "two-checkpoints", place("qwen3-8b", "checkpoint")
    ),
    "a directory without weights is no model": named(
        LLM("./weights/mine"), "no-local-weights", place("mine", "source")
    ),
    "a locked reranker is no embedder": published("bge-reranker-v2-m3", "wrong-kind", Embedder),
    "Gemma 3 with pictures is named as such": published("gemma-3-27b-it", "multi-modal"),
    "MiniMax is offered vLLM": published("minimax-m2", "no-pytorch", field="path"),
    "jina is offered as no XLM-R": published(
        "jina-embeddings-v3", "unknown-architecture", Embedder, "checkpoint.architecture"
    ),
    "states beside a cache are not counted as a cache": published("qwen3-next-80b", "unknown-cache"),
    "Nemotron's blocks are code of its repository": published("nemotron-super-49b", "unknown-cache"),
    "published AWQ is not read as 16 bit": published("llama-3.3-70b-awq", "format-not-read"),
    "published GPTQ is an engine's": published(
        "qwen2.5-coder-32b-gptq-int4", "format-not-read", **machine(gpu="a100-80")
    ),
    "compressed-tensors waits for a release": published("llama-3.3-70b-redhat-fp8", "format-not-read"),
    "bitsandbytes is not read": published("llama-8b-bnb-4bit", "format-not-read"),
    "a decoder that embeds does not chat": published("qwen3-embedding-0.6b", "encoder-as-llm", field="source"),
    "a decoder that embeds does not chat by typed numbers either": Wrong(
        main(
            LLM(name="mine", checkpoint=own("Qwen3ForCausalLM"), weights=Weights.hub("me/Qwen3-Embedding-8B", COMMIT))
        ),
        "encoder-as-llm",
        place("mine", "weights"),
    ),
    "code of a repository is not run for an encoder": published(
        "jina-reranker-v2", "code-of-a-repository", Reranker, "source"
    ),
    "typed numbers are those of the locked files": typed(own("Qwen3ForCausalLM"), "x/qwen3-32b", "qwen3-32b"),
    "GLM is no Llama when its files are known": typed(
        own("LlamaForCausalLM", layers=46), "x/glm-4.5-air", "glm-4.5-air"
    ),
    "blocks of FP8 are not cut": Wrong(
        machine(gpus=8, nvswitch=True)
        | main(LLM("x/qwen3-235b-a22b-fp8", parallel=Parallel(tensor=8)), gpus=tuple(range(8))),
        "blocks-cut",
        place("qwen3-235b-a22b-fp8", "parallel"),
        around=replace(AROUND, locked={"x/qwen3-235b-a22b-fp8": locked("qwen3-235b-a22b-fp8")}),
    ),
}
