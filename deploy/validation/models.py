"""The models of each server: known, servable by this release on this GPU, and within their own limits."""

import re
from collections.abc import Iterator

from deploy.catalog import ARCHITECTURES, CHECKPOINTS, kind_of
from deploy.catalog.architectures import NOMIC_TASKS
from deploy.catalog.names import offer
from deploy.models.cards import declared_card
from deploy.models.resolve import Served, published_files, serve, shape_of
from deploy.refusals import Refusal, model_at, refuse, server_at
from deploy.spec import LLM, Embedder, Encoder, Host, Model, Reranker, Server
from deploy.spec.surroundings import LocalWeights, Surroundings
from deploy.validation.generation import llm_problems
from deploy.validation.names import unknown_checkpoint
from deploy.validation.published import other_kind, published_problems
from deploy.validation.runtimes import beside_problems, path_problems
from deploy.validation.shapes import shape_problems

MODEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")

FP8_FIRST_SM = 89
LEAST_PAIR_TOKENS = 17
"""Fewest tokens of a reranker's pair: four special tokens, one token of the passage, and a query of up to three
quarters of the pair (files/encoders)."""
PREFIXES_EXAMPLE = 'prefixes={"search_query": "query: ", "search_document": "passage: "}'
OUTPUTS = (
    ("ForMaskedLM", "a number for each word of its vocabulary, as sparse retrieval uses them, and no vector"),
    ("ColBERT", "a vector for each token, and none for the text"),
    ("ForTokenClassification", "a label for each token"),
    ("RewardModel", "rewards of answers"),
    ("Eagle3", "drafts for another model, which takes it as speculative=Eagle(weights=…, tokens=3)"),
    ("DraftModel", "drafts for another model, by a method that no program here takes"),
    ("ForRanking", "scores of passages that it reads together, by a head that is not computed here"),
    ("StaticModel", "the mean of a table's rows for the tokens, without a network"),
    ("ForSequenceClassification", "classes, rewards or scores, by a head on a network that is not computed here"),
)
"""Ends of class strings, and the outputs of such a network instead of the expected ones."""
KINDS = {"llm": "LLM", "embedder": "Embedder", "reranker": "Reranker"}


def model_problems(host: Host, surroundings: Surroundings) -> Iterator[Refusal]:
    for server in host.servers:
        yield from _same_names(server)
        yield from beside_problems(server, host)
        for model in server.models:
            yield from _any_model(server, model)
            served = serve(model, surroundings)
            if served is None:
                yield from _unknown(server, model, published_files(model.weights, surroundings))
                continue  # numbers of another network's config.json have other meanings
            yield from _servable(host, server, served)
            yield from shape_problems(server, model)


def _same_names(server: Server) -> Iterator[Refusal]:
    names = [model.name for model in server.models]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield refuse(
            "duplicate-model",
            f"server {server.name} has {names.count(name)} models with the name {name}",
            where=server_at(server.name, "models"),
            seen=", ".join(names),
            wanted="a different name for each model: clients ask for a model by its name",
            attempt=f'rename one, for example "{name}-2"',
        )


def _any_model(server: Server, model: Model) -> Iterator[Refusal]:
    if not MODEL_NAME.fullmatch(model.name):
        yield refuse(
            "bad-name",
            f"{model.name!r} cannot name a model and a directory",
            where=model_at(server.name, model.name, "name"),
            seen=repr(model.name),
            wanted="letters, digits, inner dots, hyphens and underscores, 64 at most",
            attempt="rename it; clients ask for the model by this name",
        )
    if model.trust_remote_code:
        yield refuse(
            "remote-code",
            f"{model.name}: trust_remote_code runs whatever Python the model hub sends that day",
            where=model_at(server.name, model.name, "trust_remote_code"),
            seen="True",
            wanted="False; pinned weights do not pin the code, which comes from another repository",
            attempt="leave it out: the encoders here are this project's own code, and llmapi knows its models",
        )


def _unknown(server: Server, model: Model, files: LocalWeights | None) -> Iterator[Refusal]:
    shape = shape_of(model)
    place = model_at(server.name, model.name, "checkpoint")
    if shape is None:
        yield unknown_checkpoint(model, place)
    elif files and files.config.get("modalities"):
        yield other_kind(model, shape.architecture, "multi-modal", place)
    else:
        yield _unknown_architecture(model, shape.architecture, place, bool(files and files.config.get("auto_map")))


def _unknown_architecture(model: Model, name: str, place: str, is_code: bool) -> Refusal:
    """The refusal of a network that no program here has; `is_code`: the repository brings its own Python for it."""
    kind = next(name for name, declared in KINDS.items() if declared == type(model).__name__)
    served = sorted(row.name for row in ARCHITECTURES.values() if row.kind == kind)
    slip = next((known for known in served if known.lower() == name.lower()), "")
    outputs = OUTPUTS[1:] if is_code else OUTPUTS  # code may pool the states of a class with a head for words
    output = next((text for ending, text in outputs if ending in name), "")
    known = ", ".join(served) if kind != "llm" else f"the {len(served)} decoders of catalog.ARCHITECTURES"
    return refuse(
        "unknown-architecture",
        f"{model.name}: {name} is not served here" + (f": it gives {output}" if output and not slip else ""),
        where=f"{place}.architecture",
        seen=repr(name) + (", whose network is code of its repository: it has auto_map" if is_code else ""),
        wanted=f"the class string of config.json, one of {known}",
        attempt=f"did you mean `{slip}`?" if slip else f"{_alternative(model)}; a similar name is a different network",
    )


def _servable(host: Host, server: Server, served: Served) -> Iterator[Refusal]:
    model, architecture = served.model, served.architecture
    place = model_at(server.name, model.name, "checkpoint")
    if states := architecture.note if architecture.kind == "unserved" else served.uncounted_cache:
        yield refuse(
            "unknown-cache",
            f"{model.name}: {architecture.name} is unknown to the planner, which cannot count its cache",
            where=place,
            seen=f"{architecture.name}: {states}",
            wanted="a model that caches keys and values of every layer, or DeepSeek-V3's latent",
            attempt="another model; under a similar architecture's name the cache would be counted wrongly",
        )
        return
    if architecture.kind not in KINDS:
        yield other_kind(model, architecture.name, architecture.kind, place)
        return
    if files := list(published_problems(server, served)):
        yield from files
        return
    if KINDS[architecture.kind] != type(model).__name__:
        model_words = _shown(model) if model.source else f'name="{model.name}", …'
        model_words += "" if isinstance(model, Encoder) or architecture.fits_float16 else ', dtype="bfloat16"'
        yield refuse(
            "wrong-kind",
            f"{model.name}: {architecture.name} is no {type(model).__name__.lower()}",
            where=place,
            seen=f"{type(model).__name__}({_shown(model)})",
            wanted=f"{KINDS[architecture.kind]}(…) for this architecture",
            attempt=f"{KINDS[architecture.kind]}({model_words}), or {_alternative(model)}",
        )
        return
    yield from path_problems(host, server, served)
    if isinstance(model, LLM):
        yield from llm_problems(host, server, served, model)
    else:
        yield from encoder_problems(host, server, served, model)


def _shown(model: Model) -> str:
    if model.source:
        return f'"{model.source}"'
    return f"checkpoint={model.checkpoint!r}" if isinstance(model.checkpoint, str) else "checkpoint=Checkpoint(…)"


def _alternative(model: Model) -> str:
    kind = {"LLM": "llm", "Embedder": "embedder"}.get(type(model).__name__, "reranker")
    rows = [row.name for row in CHECKPOINTS.values() if kind_of(row) == kind]
    return f"a checkpoint of that kind: {', '.join(rows)}"


def encoder_problems(host: Host, server: Server, served: Served, model: Encoder) -> Iterator[Refusal]:
    """A refusal for each mistake in an encoder's own limits."""
    place = model_at(server.name, model.name, "max_tokens")
    if not 1 <= model.max_tokens <= served.usable_positions:
        yield refuse(
            "beyond-positions",
            f"{model.name}: {model.max_tokens} tokens exceed the length that the model was trained for",
            where=place,
            seen=str(model.max_tokens),
            wanted=f"1 to {served.usable_positions}; the model cuts longer texts, or the client splits them",
            attempt=f"max_tokens={served.usable_positions}",
        )
    elif isinstance(model, Reranker) and model.max_tokens < LEAST_PAIR_TOKENS:
        yield refuse(
            "below-one-pair",
            f"{model.name}: a query may fill all {model.max_tokens} tokens and leave none for the passage",
            where=place,
            seen=str(model.max_tokens),
            wanted=f"at least {LEAST_PAIR_TOKENS}; the model was trained for {served.usable_positions}",
            attempt=f"max_tokens={served.usable_positions}",
        )
    if model.max_batch_tokens < model.max_tokens or model.max_items < 1:
        yield refuse(
            "batch-below-one-text",
            f"{model.name}: one batch of {model.max_batch_tokens} tokens does not hold one text",
            where=model_at(server.name, model.name, "max_batch_tokens"),
            seen=f"max_batch_tokens={model.max_batch_tokens}, max_items={model.max_items}",
            wanted=f"at least {model.max_tokens} tokens and 1 item",
            attempt="max_batch_tokens=16384, max_items=1024",
        )
    yield from _encoder_choices(host, server, served, model)


def _encoder_choices(host: Host, server: Server, served: Served, model: Encoder) -> Iterator[Refusal]:
    """A refusal for each mistake in an encoder's task and number formats."""
    if isinstance(model, Embedder):
        yield from _task_problems(server, served, model)
    gpu = declared_card(host.machine)
    if gpu and model.device == "gpu" and model.dtype == "bfloat16" and int(gpu.sm) < 80:
        yield refuse(
            "wrong-sm",
            f"{model.name}: SM {gpu.sm} has no bfloat16",
            where=model_at(server.name, model.name, "dtype"),
            seen="bfloat16",
            wanted="float16",
            attempt='dtype="float16"',
        )
    if model.dtype == "float16" and not served.architecture.fits_float16:
        yield refuse(
            "states-beyond-float16",
            f"{model.name}: float16 ends at 65,504, and the hidden states of {served.architecture.name} exceed it",
            where=model_at(server.name, model.name, "dtype"),
            seen="float16",
            wanted="bfloat16, in which it was trained, or float32",
            attempt='dtype="bfloat16"',
        )
    if model.products == "fp8":
        yield from _fp8_problems(host, server, served, model)


def _task_problems(server: Server, served: Served, model: Embedder) -> Iterator[Refusal]:
    tasks = served.tasks
    if model.default_task not in ("", *tasks):
        yield refuse(
            "unknown-task",
            f"{model.name}: no prefix is known for the task {model.default_task!r}",
            where=model_at(server.name, model.name, "default_task"),
            seen=repr(model.default_task),
            wanted=f"one of {', '.join(tasks)}" if tasks else "no task, or the prefixes of the model's card",
            attempt=offer(model.default_task, tasks) if tasks else f"leave default_task out, or {PREFIXES_EXAMPLE}",
        )
    for task in model.prefixes:
        if task not in NOMIC_TASKS:
            yield refuse(
                "unknown-task",
                f"{model.name}: clients cannot ask for the task {task!r}",
                where=model_at(server.name, model.name, "prefixes"),
                seen=repr(task),
                wanted=f"one of {', '.join(NOMIC_TASKS)}",
                attempt=offer(task, NOMIC_TASKS),
            )


def _fp8_problems(host: Host, server: Server, served: Served, model: Encoder) -> Iterator[Refusal]:
    gpu = declared_card(host.machine)
    place, attempt = model_at(server.name, model.name, "products"), "leave products out"
    if served.architecture.float32_residuals or served.architecture.relative_positions:
        yield refuse(
            "no-fp8-of-this-family",
            f"{model.name}: the encoders here have no 8-bit matrix products for {served.architecture.name}",
            where=place,
            seen='products="fp8"',
            wanted="products of its dtype",
            attempt=attempt,
        )
    elif model.device == "cpu" or model.dtype == "float32":
        yield refuse(
            "fp8-beside-float32",
            f"{model.name}: 8-bit matrix products need a GPU and a 16-bit dtype",
            where=place,
            seen=f'products="fp8", device="{model.device}", dtype="{model.dtype}"',
            wanted='device="gpu" and dtype="float16" or "bfloat16"',
            attempt=attempt,
        )
    elif gpu and int(gpu.sm) < FP8_FIRST_SM:
        yield refuse(
            "wrong-sm",
            f"{model.name}: SM {gpu.sm} has no FP8",
            where=place,
            seen=f'products="fp8" on {gpu.title}',
            wanted=f"SM {FP8_FIRST_SM} or later (Ada, Hopper, Blackwell)",
            attempt=attempt,
        )
