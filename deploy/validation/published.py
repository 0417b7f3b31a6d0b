"""Judges requirements of published files beyond their architecture: code, additional layers, another purpose.

Files are known for a model declared by name, and for a directory; encoders here are this project's own networks, so a
repository with its own code would be served wrongly.
"""

import re
from collections.abc import Iterator
from functools import partial

from deploy.catalog import architecture_as
from deploy.catalog.architectures import ALSO_ENCODERS
from deploy.catalog.encoder_settings import STEPS
from deploy.models.resolve import Served
from deploy.models.sentence_steps import uncomputed
from deploy.refusals import Refusal, model_at, refuse
from deploy.spec import Encoder, Model, Reranker, Server
from deploy.spec.surroundings import LocalWeights

ENCODES = re.compile(r"(^|[^a-z])(embed|embedding|embeddings|rerank|reranker)([^a-z]|$)", re.IGNORECASE)
REWARDS = re.compile(r"(^|[^a-z])reward([^a-z]|$)", re.IGNORECASE)
"""Names of models that give an answer a number: their class is that of a chat model or of a reranker."""
ALTERNATIVES = 'Embedder("intfloat/multilingual-e5-large"), or Reranker("BAAI/bge-reranker-v2-m3")'
STEP = re.compile(r"\d+_([A-Za-z]+)/config\.json")
OF_RERANKERS = ("LogitScore",)
"""The step of a reranker on a decoder (sentence-transformers 6.2.0): the yes/no score that files/encoders computes."""
TOKENIZER = "tokenizer.json"
OWN_CODE = ("NomicBertModel",)
"""Architectures whose published code is replaced by a network of this project."""


def published_problems(server: Server, served: Served) -> Iterator[Refusal]:
    """A refusal for the first mistake in the files of one model."""
    files, weights = served.local, served.model.weights
    source = weights.repository or weights.directory
    if served.architecture.kind in ("llm", "reranker") and REWARDS.search(source.rstrip("/").rsplit("/", 1)[-1]):
        yield _no(
            server,
            served,
            "wrong-kind",
            f"{source} was trained to reward answers, and no program here serves rewards",
            seen=f"its name, {source}",
            wanted="a model that generates text, or one that scores the relevance of passages",
            attempt="another project for this model; or, for a generative judge, ./DIRECTORY without that word",
        )
    elif files and files.repository and files.files and TOKENIZER not in files.files:
        yield _no(
            server,
            served,
            "no-tokenizer",
            f"its repository has no {TOKENIZER}, and nothing here reads another form of a tokenizer",
            seen=f"{len(files.fetched)} files that a host fetches, without {TOKENIZER}",
            wanted=f"{TOKENIZER}, as `save_pretrained` of a fast tokenizer writes it",
            attempt="a repository that has it; or ./DIRECTORY with these files and that one",
        )
    elif served.architecture.kind == "llm":
        yield from _encodes(server, served)
    elif served.local and served.local.config and served.is_encoder:
        yield from _encoder(server, served, served.local)


def other_kind(model: Model, architecture: str, kind: str, place: str) -> Refusal:
    """The refusal of an architecture of a kind that no program here serves."""
    article = "a" if kind == "multi-modal" else "an"
    return refuse(
        kind,
        f"{model.name}: {architecture} is {article} {kind} model, which is not served here",
        where=place,
        seen=architecture,
        wanted="a text-only decoder, or an encoder that embeds or reranks",
        attempt="use another project for this model",
    )


def _encodes(server: Server, served: Served) -> Iterator[Refusal]:
    """A refusal for a decoder trained to embed or to rerank: as an LLM it would seem to work, but chat badly.

    sentence-transformers' own files show this; else the name does.
    """
    weights, files = served.model.weights, served.local.files if served.local else ()
    source = weights.repository or weights.directory
    named = ENCODES.search(source.rstrip("/").rsplit("/", 1)[-1])
    marks = [name for name in files if name in ("modules.json", "config_sentence_transformers.json")]
    if served.architecture.kind != "llm" or (not named and not marks):
        return
    no = partial(_no, server, served)
    encoder = architecture_as(served.architecture.name, "embedder")
    encodes = encoder is not served.architecture
    dtype = "" if encoder is None or encoder.fits_float16 else ', dtype="bfloat16"'
    if isinstance(served.model, Encoder):
        yield no(
            "wrong-kind",
            f"the encoders here do not compute {served.architecture.name}, a decoder",
            seen=f"{served.architecture.name} of {source}",
            wanted="an architecture of an encoder, or Qwen3, the decoder that is computed here",
            attempt=ALTERNATIVES,
        )
        return
    yield no(
        "encoder-as-llm",
        f"{source} is a decoder for embedding or reranking, not for chat",
        seen=marks[0] if marks else f"its name, {source}",
        wanted="a decoder that generates text, or an encoder",
        attempt=", or ".join(f'{kind}("{source}"{dtype})' for kind in _kinds_by_name(source))
        if encodes
        else ALTERNATIVES,
    )


def _encoder(server: Server, served: Served, files: LocalWeights) -> Iterator[Refusal]:
    name, no = served.architecture.name, partial(_no, server, served)
    known = (*STEPS, *OF_RERANKERS) if isinstance(served.model, Reranker) else STEPS
    steps = [match for path in files.files if (match := STEP.fullmatch(path)) and match[1] not in known]
    problem, seen, wanted = uncomputed(files.config, name, embeds=not isinstance(served.model, Reranker))
    pools = isinstance(served.model, Reranker) or any("_Pooling/" in path for path in files.files)
    if meant := _kind_by_name(served):
        source = served.model.weights.repository or served.model.weights.directory
        yield no(
            "wrong-kind",
            f"{source} was trained for {meant}(…), and its numbers as {type(served.model).__name__}(…) mean nothing",
            seen=f'{type(served.model).__name__}("{source}")',
            wanted=f"{meant}(…): the {name} of both is the same, and the name says which one it is",
            attempt=f'{meant}("{source}", dtype="bfloat16")',
        )
    elif files.config.get("auto_map") and name not in OWN_CODE:
        yield no(
            "code-of-a-repository",
            f"its network is Python code of the repository and not the {name} of transformers",
            seen=f"auto_map in config.json, architecture {name}",
            wanted=f"{name} without its own code; code of a repository is never run",
            attempt='Reranker("BAAI/bge-reranker-v2-m3") or Embedder("intfloat/multilingual-e5-large")',
        )
    elif files.config.get("labels", 1) != 1:
        yield no(
            "several-labels",
            "it sorts a pair into classes, as models of natural-language inference do, and scores no relevance",
            seen=f"{files.config['labels']} labels in id2label of config.json",
            wanted="a head of one label",
            attempt='Reranker("BAAI/bge-reranker-v2-m3"), or a checkpoint that was trained to rank',
        )
    elif "modules.json" in files.files and not pools:
        yield no(
            "step-not-computed",
            "it pools no tokens, as models of late interaction (ColBERT): it gives a vector for each, none for a text",
            seen="modules.json, and no directory of a Pooling step",
            wanted=f"{', '.join(STEPS[:2])}, and Dense or Normalize behind them",
            attempt='Embedder("intfloat/multilingual-e5-large"), or a repository with that step',
        )
    elif steps:
        yield no(
            "step-not-computed",
            f"it has the step {steps[0][1]}, which the encoders here do not compute: every vector would be wrong",
            seen=steps[0][0],
            wanted=f"{', '.join(STEPS)} alone",
            attempt='Embedder("intfloat/multilingual-e5-large"), or a repository without that step',
        )
    elif problem:
        yield no(
            "step-not-computed",
            f"{problem}: every number would be wrong",
            seen=seen,
            wanted=wanted,
            attempt=f"{ALTERNATIVES}; or a repository that asks for what is computed here",
        )


def _kind_by_name(served: Served) -> str:
    """The other encoder's class, if the name of a decoder that may be either contains only that kind; else ""."""
    weights, declared = served.model.weights, type(served.model).__name__
    kinds = _kinds_by_name(weights.repository or weights.directory)
    may_be_both = served.architecture.name in {name for name, _kind in ALSO_ENCODERS}
    return "" if not may_be_both or declared in kinds else kinds[0]


def _kinds_by_name(source: str) -> tuple[str, ...]:
    """The encoder's class that a name contains; both classes if the name contains no class or both."""
    last = source.rstrip("/").rsplit("/", 1)[-1].lower()
    kinds = tuple(kind for kind, word in (("Embedder", "embed"), ("Reranker", "rerank")) if word in last)
    return kinds or ("Embedder", "Reranker")


def _no(server: Server, served: Served, kind: str, problem: str, *, seen: str, wanted: str, attempt: str) -> Refusal:
    model = served.model
    place = model_at(server.name, model.name, "source" if model.source else "weights")
    return refuse(kind, f"{model.name}: {problem}", where=place, seen=seen, wanted=wanted, attempt=attempt)
