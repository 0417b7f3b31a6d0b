"""The pages to try a chat, vectors and a ranking: a form becomes the request that an API client would send.

From there on the request is like any other: key, limits, budgets, usage and audit are those of the endpoint. Its answer
or refusal becomes a page. The page repeats the typed text, but never the key. Earlier turns of a chat are in the form
itself, because the gateway stores no text.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any

from gateway.errors import ApiError
from gateway.exchange import Exchange, compact
from gateway.gateway import Gateway
from gateway.json_body import Bounds, JsonError, parsed
from gateway.keys import NOBODY, Key
from gateway.models import usable
from gateway.page_frame import first, holder, key_of, refuse_another_site, rendered

TRIAL_BYTES = 65_536
"""Largest form in bytes, because it is read before its sender is known."""
MOST_TEXTS = {"input": 16, "documents": 100}
"""Most texts that a page accepts; the endpoints accept more."""
MOST_TURNS = 200
ANSWER_TOKENS = 512
TASKS = ("search_query", "search_document", "classification", "clustering")
SHOWN_NUMBERS = 6

Form = Mapping[str, str]
Values = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """A page with a form: the endpoint that answers it, the kind of its models, and its template."""

    endpoint: str
    kind: str
    template: str
    body: Callable[[Form], Values]
    """Makes the endpoint's body of the form, without the model. Raises: ApiError."""
    result: Callable[[Form, Any], Values]
    """Makes the template's values of the endpoint's answer."""


async def translate(gateway: Gateway, exchange: Exchange, trial: Trial) -> None:
    """Replaces the form by the endpoint's request, whose answer or refusal becomes a page.

    Raises: ApiError for a form that is too large, from another site or incomplete; ClientLeft.
    """
    form: dict[str, str] = {}

    def view(content: bytes, status: int) -> bytes:
        return page_of_answer(gateway, exchange, trial, form, content, status)

    exchange.view = view
    refuse_another_site(gateway, exchange)
    exchange.held = gateway.held_by(NOBODY.tenant)
    try:
        form |= await exchange.form(TRIAL_BYTES)
    finally:
        exchange.held.release()
        exchange.held = None
    if authorization := key_of(form):
        exchange.headers[b"authorization"] = authorization
        del form["key"]
    key, _problem = holder(gateway, exchange, {})
    named = usable(gateway.settings, key) if key else {}
    body = {"model": form.get("model", "").strip() or first(named, trial.kind), **trial.body(form)}
    exchange.content = compact({name: value for name, value in body.items() if value != ""}).encode()


def trial_page(gateway: Gateway, exchange: Exchange, key: Key | None, problem: str) -> bytes:
    return _rendered(gateway, exchange, key, {}, {"problem": problem})


def page_of_answer(
    gateway: Gateway, exchange: Exchange, trial: Trial, form: Form, content: bytes, status: int
) -> bytes:
    """The page of the endpoint's answer, or of its refusal."""
    answer = json.loads(content)
    key, _problem = holder(gateway, exchange, {})
    values = {"problem": answer["error"]["message"]} if status >= 400 else trial.result(form, answer)
    return _rendered(gateway, exchange, key, form, values)


def _rendered(gateway: Gateway, exchange: Exchange, key: Key | None, form: Form, values: Values) -> bytes:
    trial = TRIALS[exchange.path]
    named = usable(gateway.settings, key) if key else {}
    typed = {name: form.get(name, default) for name, default in DEFAULTS.items()}
    shown: Values = {
        "path": exchange.path,
        "asks": bool(gateway.keys.path),
        "models": sorted(name for name in named if named[name].kind == trial.kind),
        "tasks": TASKS,
        "most": MOST_TEXTS,
        "request": exchange.identity,
        "chosen": exchange.record.model,
        "seconds": f"{time.monotonic() - exchange.record.began:.2f}",
        "problem": "",
        "result": None,
        "turns": earlier_turns(form, is_lenient=True),
        **typed,
    }
    return rendered(trial.template, **(shown | values))


DEFAULTS = {
    "model": "",
    "system": "",
    "message": "",
    "earlier": "[]",
    "max_tokens": str(ANSWER_TOKENS),
    "temperature": "",
    "input": "",
    "task": "",
    "query": "",
    "documents": "",
}
"""Fields of the forms, beside the key, and their initial values."""


def chat_body(form: Form) -> Values:
    """A chat of the earlier turns and the new message."""
    system = [{"role": "system", "content": form["system"]}] if form.get("system") else []
    turns = [*earlier_turns(form), form.get("message", "")]
    messages = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(turns)]
    return {
        "messages": [*system, *messages],
        "max_tokens": number(form.get("max_tokens", "")),
        "temperature": number(form.get("temperature", "")),
    }


def earlier_turns(form: Form, is_lenient: bool = False) -> list[str]:
    """Texts of a person and the model in turn, as the page before wrote them.

    Raises: ApiError 400 for anything else, if not `is_lenient`.
    """
    with contextlib.suppress(JsonError):
        turns = parsed(form.get("earlier", "[]").encode(), Bounds(1, 1, MOST_TURNS + 1))
        if isinstance(turns, list) and len(turns) % 2 == 0 and all(isinstance(text, str) for text in turns):
            return turns
    if is_lenient:
        return []
    raise ApiError(400, f"this chat has more than {MOST_TURNS} turns, or is not from this page: begin a new chat")


def chat_result(form: Form, answer: Any) -> Values:
    """The chat with its new turn; the field for the next message is empty."""
    (choice,) = answer["choices"]
    turns = [*earlier_turns(form), form.get("message", ""), choice["message"]["content"] or ""]
    return {
        "turns": turns,
        "earlier": compact(turns),
        "message": "",
        "result": {
            "reasoning": choice["message"].get("reasoning_content", ""),
            "finish": choice["finish_reason"],
            "usage": answer["usage"],
        },
    }


def number(text: str) -> int | float | str:
    """The typed number; any other text unchanged, so that the endpoint refuses it by its field's name."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            if text.isascii() and re.fullmatch(r"[0-9.]{1,20}", text.strip()):
                return kind(text)
    return text.strip()


def lines(form: Form, name: str) -> list[str]:
    """The texts of a field, each on a line.

    Raises: ApiError 400 for more texts than the page takes.
    """
    texts = [text.strip() for text in form.get(name, "").split("\n") if text.strip()]
    if len(texts) > MOST_TEXTS[name]:
        raise ApiError(400, f"this page takes up to {MOST_TEXTS[name]} texts; these are {len(texts)}", param=name)
    return texts


def embed_body(form: Form) -> Values:
    """The request for vectors of the texts; base64, which is quicker to read than numbers."""
    return {"input": lines(form, "input"), "encoding_format": "base64", "task": form.get("task", "")}


def embed_result(form: Form, answer: Any) -> Values:
    """A row for each text: length of its vector, first numbers, and cosine with the first text's vector."""
    vectors = [memoryview(b64decode(item["embedding"])).cast("f").tolist() for item in answer["data"]]
    rows = [
        {
            "text": text,
            "length": len(vector),
            "start": ", ".join(f"{value:.4f}" for value in vector[:SHOWN_NUMBERS]),
            "cosine": f"{cosine(vectors[0], vector):.4f}",
        }
        for text, vector in zip(lines(form, "input"), vectors, strict=True)
    ]
    return {"result": {"rows": rows, "usage": answer["usage"]}}


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Cosine of the angle between two vectors; 0.0 if either has length 0."""
    lengths = (sum(map(mul, left, left)) * sum(map(mul, right, right))) ** 0.5
    return sum(map(mul, left, right)) / lengths if lengths else 0.0


def rerank_body(form: Form) -> Values:
    return {"query": form.get("query", ""), "documents": lines(form, "documents")}


def rerank_result(form: Form, answer: Any) -> Values:
    """A row of the page for each passage, the best first."""
    documents = lines(form, "documents")
    rows = [{"score": item["relevance_score"], "text": documents[item["index"]]} for item in answer["results"]]
    return {"result": {"rows": rows, "usage": answer["usage"]}}


TRIALS = {
    "/try": Trial("/v1/chat/completions", "llm", "try.html.j2", chat_body, chat_result),
    "/try/embed": Trial("/v1/embeddings", "embedder", "try_embed.html.j2", embed_body, embed_result),
    "/try/rerank": Trial("/v2/rerank", "reranker", "try_rerank.html.j2", rerank_body, rerank_result),
}
