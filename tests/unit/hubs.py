"""A model hub for tests: the rehearsal's stand-in over small folders, with a count of requests and a busy time."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.io.hub import Access
from rehearsal.hub import Handler, Hub
from rehearsal.hub_repository import Repository, repositories
from rehearsal.web import Server

TOKEN, STRANGER = "hf_good", "hf_without_access"
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 16,
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 8192,
    "vocab_size": 128_256,
    "max_position_embeddings": 131_072,
}
"""Llama-3.2-1B's own numbers."""


@dataclass
class Heard:
    """Requests to a hub, as (path without its query, Range), and the answers that it gives first."""

    requests: list[tuple[str, str]] = field(default_factory=list)
    busy: list[tuple[int, str]] = field(default_factory=list)
    """(status, Retry-After) of the next answers; a text in quotes is the header RateLimit."""
    moved: dict[str, str] = field(default_factory=dict)
    """Beginnings or parts of paths that are redirected, each with the text for its place."""
    bodies: dict[str, bytes] = field(default_factory=dict)
    """Answers by the end of their path, in the place of the right ones."""


@dataclass(frozen=True)
class Standing:
    """A listening hub: its address and its state."""

    endpoint: str
    heard: Heard
    state: Path
    repositories: Mapping[str, Repository]

    def access(self, token: str = "") -> Access:
        return Access(endpoint=self.endpoint, token=token)


def repository(folder: Path, config: Mapping[str, Any] | None = None, files: Mapping[str, bytes] | None = None) -> None:
    """A folder like a published repository: config.json, and other files unchanged."""
    texts = {"config.json": json.dumps(config).encode()} if config else {}
    for name, content in {**texts, **(files or {})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def weights(header_bytes: int = 0, **tensors: tuple[str, list[int]]) -> bytes:
    """A safetensors file with this header, padded to a least length, and some data that must not be requested."""
    described: dict[str, Any] = {
        name: {"dtype": kind, "shape": shape, "data_offsets": [0, 0]} for name, (kind, shape) in tensors.items()
    }
    text = json.dumps(described | {"__metadata__": {"made": "x" * header_bytes}}).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" * 4096


def llama_files(header_bytes: int = 0) -> dict[str, bytes]:
    """Files beside config.json: two shards that add up to Llama-3.2-1B, a tokenizer, and files that are not fetched."""
    return {
        "model-00001-of-00002.safetensors": weights(header_bytes, a=("BF16", [1, 1_000_000_000])),
        "model-00002-of-00002.safetensors": weights(b=("BF16", [1, 235_814_400])),
        "model.safetensors.index.json": b"{}",
        "tokenizer.json": b"{}",
        "tokenizer_config.json": b"{}",
        "modeling_own.py": b"raise SystemExit('this code ran')",
        "original/consolidated.00.pth": b"pickle",
    }


@contextmanager
def standing(folder: Path, state: Path) -> Iterator[Standing]:
    """A hub over the repositories below `folder`, large files on another host, until the block ends."""
    heard, known = Heard(), repositories(folder)
    state.mkdir(exist_ok=True)
    (state / "large-bytes-per-second").write_text("0")
    hub = Hub(known, TOKEN, STRANGER, "", state)

    class Counting(Handler):
        """Records every request, and is busy first if the test says so."""

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            heard.requests.append((path, self.headers.get("Range", "")))
            body = next((body for end, body in heard.bodies.items() if path.endswith(end)), None)
            if heard.busy:
                status, wait = heard.busy.pop(0)
                name = "RateLimit" if wait.startswith('"') else "Retry-After"
                self._send(status, b"busy", {name: wait} if wait else {})
            elif place := next((old for old in heard.moved if old in path), ""):
                self._send(307, b"", {"Location": self.path.replace(place, heard.moved[place], 1)})
            elif body is not None:
                self._send(200, body, {})
            else:
                super().do_GET()

        def log_message(self, *_: object) -> None:
            """Writes no log line."""

    front, storage = (Server(("127.0.0.1", 0), type("Of", (Counting,), {"hub": hub})) for _ in range(2))
    hub.cdn = f"http://localhost:{storage.server_address[1]}"
    threads = [threading.Thread(target=server.serve_forever, daemon=True) for server in (front, storage)]
    for thread in threads:
        thread.start()
    yield Standing(f"http://127.0.0.1:{front.server_address[1]}", heard, state, known)
    for server, thread in zip((front, storage), threads, strict=True):
        server.shutdown()
        server.server_close()
        thread.join()
