"""Cohere's `/v1/embed`, `/v2/embed`, `/v1/tokenize` and `/v1/detokenize`; `cohere_chat` and `rerank` have the rest."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.cohere_chat import SAME_PRIORITY, TEXT
from gateway.completions import ids as prompt_ids
from gateway.dialects import text_parts
from gateway.embeddings import embedded, vectors_of
from gateway.exchange import compact
from gateway.fields import FieldError, Fields
from gateway.load import PIECE_SECONDS
from gateway.parts import Options
from gateway.request import Request
from gateway.tokens import Tokens

TASKS = ("search_document", "search_query", "classification", "clustering")
FORMS = ("float", "base64")
MOST_IDS = 8192
"""Ids to be spelled in one request: 3 ms of the event loop's time."""


async def embed_v1(request: Request) -> None:
    await _embed(request, "1")


async def embed_v2(request: Request) -> None:
    await _embed(request, "2")


async def _embed(request: Request, version: str) -> None:
    fields = request.fields()
    name = fields.text("model")
    model, alias = request.model(name, "embedder")
    most = request.exchange.limits.inputs
    fields.only("images", [], because="this model reads text only")
    texts = _inputs(fields, most) if version == "2" and fields.has("inputs") else fields.texts("texts", most)
    default = (alias.task or "") if version == "1" else None
    task = fields.text("input_type", default, choices=("", *TASKS) if version == "1" else TASKS)
    is_by_type = version == "2" or fields.has("embedding_types")
    forms = fields.texts("embedding_types", len(FORMS)) if fields.has("embedding_types") else ["float"]
    if set(forms) - set(FORMS):
        reason = f"{' and '.join(FORMS)} are supported; vectors of fewer bits are not"
        raise FieldError("embedding_types", f"`embedding_types`: {reason}", "unsupported")
    cut = fields.text("truncate", "END", choices=("NONE", "START", "END"))
    if cut == "START":
        raise FieldError("truncate", "`truncate`: texts can only be cut at their end", "unsupported")
    options: Options = {"truncate": cut == "END"}
    if dimensions := fields.maybe_whole("output_dimension", 1, model.dimensions):
        options["dimensions"] = dimensions
    if fields.whole("max_tokens", 1, 2**31 - 1, model.max_tokens) < model.max_tokens:
        reason = f"texts are cut at {model.max_tokens} tokens; other lengths are not supported"
        raise FieldError("max_tokens", f"`max_tokens`: {reason}", "unsupported")
    fields.only("priority", 0, because=SAME_PRIORITY)
    fields.close()
    options |= {"task": task} if task in model.tasks else {}
    request.hold_answer(sum(map(len, texts)))  # which the answer repeats
    outputs, tokens = await embedded(request, model, texts, options, *set(forms))
    meta: Mapping[str, Any] = {"api_version": {"version": version}, "billed_units": {"input_tokens": tokens}}
    kind = "embeddings_by_type" if is_by_type else "embeddings_floats"
    head = compact({"id": request.exchange.identity, "response_type": kind})[:-1]
    tail = compact({"texts": texts, "meta": meta})[1:]
    if not is_by_type:
        return await request.exchange.json_of_many(f'{head},"embeddings":', vectors_of(outputs, "float"), f",{tail}")
    lists = [(f'"{form}":', vectors_of(outputs, form)) for form in sorted(set(forms))]
    return await request.exchange.json_of_lists(f'{head},"embeddings":{{', lists, f"}},{tail}")


def _inputs(fields: Fields, most: int) -> list[str]:
    """The texts of `inputs`, each of which is an object of parts."""
    texts = []
    for entry in fields.objects("inputs", most):
        texts.append("\n".join(text_parts(entry, "content", TEXT)))
        entry.close()
    return texts


async def tokenize(request: Request) -> None:
    """Answers the ids of a text, with the text of each, in the model's tokenizer."""
    fields = request.fields()
    model, _ = request.model(fields.text("model"), "llm")
    prompter = request.gateway.prompters[model.name]
    request.pay_for(request.size)
    tokens = await prompt_ids(request, fields.text("text"), model, "text")
    fields.close()
    request.let_go()
    request.exchange.record.read_tokens = len(tokens)
    texts = await spelled(request, prompter, tokens)
    head = compact({"tokens": list(tokens), "meta": {"api_version": {"version": "1"}}})[:-1]
    await request.exchange.json_of_many(f'{head},"token_strings":', texts, "}")


async def spelled(request: Request, prompter: Tokens, ids: Sequence[int]) -> list[str]:
    """The text of each id. Other requests get turns meanwhile."""
    texts, began = list[str](), time.monotonic()
    for identity in ids:
        texts.append(prompter.spelled(identity).decode("utf-8", "replace"))
        if time.monotonic() - began > PIECE_SECONDS:
            await request.gateway.pauses.pause()
            began = time.monotonic()
    return texts


async def detokenize(request: Request) -> None:
    await request.exchange.json({"text": text_of_ids(request), "meta": {"api_version": {"version": "1"}}})


def text_of_ids(request: Request) -> str:
    """The text of the request's ids, without the tokens that only mark its beginning. The ids are charged to the key.

    Raises: FieldError, ApiError.
    """
    fields = request.fields()
    model, _ = request.model(fields.text("model"), "llm")
    prompter = request.gateway.prompters[model.name]
    tokens = fields.items("tokens", MOST_IDS)
    if not all(type(token) is int and 0 <= token < prompter.vocabulary for token in tokens):
        raise fields.wrong("tokens", f"a list of ids from 0 to {prompter.vocabulary - 1}")
    fields.close()
    request.pay_for(request.size)
    request.let_go()
    request.exchange.record.read_tokens = len(tokens)
    return prompter.text(tokens)
