"""Bodies that a tenant with a valid key may send to stop the gateway for all others: a load is a list of them.

Sizes go from the gateway's own limit of a body downwards, so that a smaller limit refuses some and reads the others.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

KIB, MIB = 2**10, 2**20
FULL = 16 * MIB - KIB
"""Bytes of the largest bodies: just below `Limits.body_bytes` of 2026-11-25."""
SIZES = (FULL, 4 * MIB, MIB, 256 * KIB)
CHAT, TOKENIZE = "/v1/chat/completions", "/tokenize"
HEAD = b'{"model":"llama","max_tokens":1,"messages":['
ENOUGH_SCHEMA = 60_000
"""Characters of a schema: `MOST_SCHEMA` of the gateway is 65,536."""


@dataclass(frozen=True)
class Body:
    """A request's path and content, and its name in the result."""

    name: str
    path: str
    content: bytes


def repeated(head: bytes, piece: bytes, tail: bytes, size: int) -> bytes:
    """Returns a body of at most `size` bytes: the piece, repeated between head and tail, without the last comma."""
    count = (size - len(head) - len(tail)) // len(piece)
    return head + (piece * count).removesuffix(b",") + tail


def sized(size: int) -> str:
    """Returns the size in words."""
    return f"{round(size / MIB)} MiB" if size >= MIB else f"{size // KIB} KiB"


def chat(*texts: str, **more: Any) -> bytes:
    """Returns a chat of messages of one user."""
    messages = [{"role": "user", "content": text} for text in texts]
    return json.dumps({"model": "llama", "max_tokens": 1, "messages": messages, **more}, ensure_ascii=False).encode()


def words(size: int) -> str:
    """Returns words that are in no vocabulary; equal at each call."""
    generator = random.Random(size)
    letters = "".join(generator.choices(string.ascii_lowercase, k=size // 16))
    text = " ".join(letters[start : start + 7] for start in range(0, len(letters), 7))
    return (text * 16)[:size]


def large_chats() -> Iterator[Body]:
    """Yields chats of 64 messages just below each size."""
    for size in SIZES:
        text = words((size - 8 * KIB) // 64)
        yield Body(f"{sized(size)} in 64 messages", CHAT, chat(*[text] * 64))


def deep_json() -> Iterator[Body]:
    """Yields brackets: too many, as many as allowed, and beside unclosed quotes."""
    yield Body("8 MiB of brackets", CHAT, b"[" * (8 * MIB))
    nested = b"[" * 60 + b"]" * 60 + b","
    for size in SIZES[1:]:
        yield Body(f"{sized(size)} nested 60 deep", CHAT, repeated(HEAD, nested, b"]}", size))
    for size in (64 * KIB, MIB):
        quotes = b'\\"' * (size // 2)
        yield Body(f"{sized(size)} of escaped quotes without a string", CHAT, b"[" * 65 + quotes)


def many_values() -> Iterator[Body]:
    """Yields millions of small values."""
    for size in SIZES[:2]:
        for piece in (b'{"":0},', b"0.1,", b'"",'):
            yield Body(f"{sized(size)} of {piece.decode()}", CHAT, repeated(HEAD, piece, b"]}", size))


def empty_messages() -> Iterator[Body]:
    """Yields lists and objects without content in place of messages."""
    for size in SIZES[:2]:
        for piece in (b"[],", b"{},"):
            yield Body(f"{sized(size)} of {piece.decode()}", CHAT, repeated(HEAD, piece, b"]}", size))


def slow_bodies() -> Iterator[Body]:
    """Yields a large body whose last bytes come slowly."""
    yield Body("16 MiB, dripping", CHAT, repeated(b"", b" ", b"", FULL))


def slow_smaller_bodies() -> Iterator[Body]:
    """Yields a smaller slow body, for gateways that refuse a chat of 16 MiB."""
    yield Body("4 MiB, dripping", CHAT, repeated(b"", b" ", b"", 4 * MIB))


def schemas() -> Iterator[Body]:
    """Yields JSON schemas for an answer."""
    chained = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(1500)}
    for name, text in {
        "minLength 1e999": '{"type":"string","minLength":1e999}',
        "1,500 references in a chain": json.dumps({"$defs": chained, "$ref": "#/$defs/d0"}),
        "an enum of 7,000 values": json.dumps({"enum": [f"v{number}" for number in range(7000)]}),
        "a reference to a file": '{"$ref":"file:///etc/passwd"}',
        "a pattern of open brackets": json.dumps({"type": "string", "pattern": "[" * ENOUGH_SCHEMA}),
        "a pattern of open groups": json.dumps({"type": "string", "pattern": "(" * ENOUGH_SCHEMA}),
        "repetitions that multiply": '{"type":"string","pattern":"((((a{999}){999}){999}){999})"}',
        "60 levels of properties": '{"properties":{"a":' * 12 + "{}" + "}}" * 12,
    }.items():
        form = f'{{"type":"json_schema","json_schema":{{"name":"a","schema":{text}}}}}'
        head = b'{"model":"llama","max_tokens":1,"messages":[{"role":"user","content":"a"}],"response_format":'
        yield Body(name, CHAT, head + form.encode() + b"}")
    wide = json.dumps({"enum": ["x" * 15] * (FULL // 20)})
    form = f'{{"type":"json_schema","json_schema":{{"name":"a","schema":{wide}}}}}'
    yield Body("an enum of 13 MiB", CHAT, HEAD + b'],"response_format":' + form.encode() + b"}")


def templates() -> Iterator[Body]:
    """Yields much work for a chat template, and texts that spell the template's control tokens."""
    yield Body("4,096 messages", CHAT, chat(*["a b c"] * 4096))
    yield Body("4,096 messages of 3 KiB", CHAT, chat(*[words(3 * KIB)] * 4096))
    fields = {f"field_{number}": {"type": "string", "description": words(200)} for number in range(60)}
    for count in (128, 16):
        tools = [tool(f"tool_{number}", fields) for number in range(count)]
        yield Body(f"{count} tools of 60 fields", CHAT, chat("a", tools=tools))
    for spelled in ("<|im_start|>", "<|im_end|>\n<|im_start|>system\n", "<think>"):
        for size in (MIB, 64 * KIB):
            text = spelled * (size // len(spelled))
            yield Body(f"{sized(size)} of {json.dumps(spelled)}", CHAT, chat(text))


def tool(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Returns a tool in a client's form."""
    parameters = {"type": "object", "properties": fields}
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}}


def tokenize() -> Iterator[Body]:
    """Yields texts of 3 MiB for tokenisation only, as a prompt and as a chat, and of a size that fits the context."""
    for size in (3 * MIB, 300 * KIB):
        text = words(size)
        yield Body(f"{sized(size)} as a prompt", TOKENIZE, json.dumps({"model": "llama", "prompt": text}).encode())
        messages = [{"role": "user", "content": text}]
        yield Body(f"{sized(size)} as a chat", TOKENIZE, json.dumps({"model": "llama", "messages": messages}).encode())


def long_lists() -> Iterator[Body]:
    """Yields lists for encoders: the largest allowed number of texts, long and short, and far more."""
    for count, size in ((2048, 7 * KIB), (2048, 16), (1_000_000, 1)):
        body = {"model": "nomic", "input": ["a" * size] * count}
        yield Body(f"embeddings, {count:,} texts of {size} bytes", "/v1/embeddings", json.dumps(body).encode())
    for count, size in ((10_000, 1500), (10_000, 1), (1_000_000, 1)):
        body = {"model": "bge", "query": "q" * KIB, "documents": ["a" * size] * count}
        yield Body(f"rerank, {count:,} documents of {size} bytes", "/v2/rerank", json.dumps(body).encode())


def escapes() -> Iterator[Body]:
    """Yields texts that are slow to read: escapes, and words without an end."""
    for piece in (b"\\u0041", b"\\n", b"\\ud83d\\ude00"):
        for size in (FULL, MIB):
            content = repeated(HEAD + b'{"role":"user","content":"', piece, b'"}]}', size)
            yield Body(f"{sized(size)} of {piece.decode()}", CHAT, content)
    for text in ("a", "\u00e9\u0301\u0302\u0303", "\u4e2d", "    "):
        whole = text * (MIB // len(text.encode()))
        yield Body(f"1 MiB of {json.dumps(text)}", CHAT, chat(whole))


def plain() -> Iterator[Body]:
    """Yields a single text of 16 MiB."""
    yield Body("one text of 16 MiB", CHAT, chat(words(FULL - KIB)))


LOADS: dict[str, Callable[[], Iterator[Body]]] = {
    "large-chats": large_chats,
    "deep-json": deep_json,
    "many-values": many_values,
    "empty-messages": empty_messages,
    "slow-bodies": slow_bodies,
    "slow-smaller-bodies": slow_smaller_bodies,
    "schemas": schemas,
    "templates": templates,
    "tokenize": tokenize,
    "long-lists": long_lists,
    "escapes": escapes,
    "plain": plain,
}
