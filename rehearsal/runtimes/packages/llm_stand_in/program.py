"""The command lines: options of the release, required files, and the exit codes for errors."""

from __future__ import annotations

import json
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from llm_stand_in.ranks import Ranks, joined
from llm_stand_in.server import ROUNDED, WORDS, Engine, serve

RELEASES = {"vllm": "0.26.0", "trtllm-serve": "1.2.1"}
OPTIONS = Path(__file__).with_name("options.json")
USAGE = 2


class Refused(Exception):
    """A command line that the program refuses; the text is its output."""


@dataclass(frozen=True)
class Chosen:
    """The parsed start line."""

    model: Path
    options: dict[str, str]


def main(runtime: str, words: list[str]) -> int:
    """Serves until stopped; returns 0 after SIGTERM, 2 for a wrong command line, 1 for a model that cannot load."""
    print(f"rehearsal stand-in of {runtime} {RELEASES[runtime]}: no model runs here", flush=True)
    try:
        chosen = read(runtime, words)
        engine = load(runtime, chosen)
    except Refused as problem:
        print(problem, file=sys.stderr)
        return USAGE
    except (OSError, ValueError, KeyError) as problem:
        print(f"RuntimeError: Engine core initialization failed: {problem}", file=sys.stderr)
        return 1
    try:
        ranks = joined(chosen.options)
    except (OSError, ValueError) as problem:
        print(f"RuntimeError: Engine core initialization failed: {problem}", file=sys.stderr)
        return 1
    if "--headless" in chosen.options:
        return ranks.follow() if isinstance(ranks, Ranks) else 1
    engine.ranks = ranks
    host, port = chosen.options.get("--host", "localhost"), int(chosen.options.get("--port", "8000"))
    server = serve(engine, host, port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"Uvicorn running on http://{host}:{port}", flush=True)
    server.serve_forever(poll_interval=0.1)
    return 0


def read(runtime: str, words: list[str]) -> Chosen:
    """Parses the words after `vllm serve` or `trtllm-serve serve`.

    Raises: Refused, in the words of argparse or click.
    """
    known = json.loads(OPTIONS.read_text())[f"{runtime} {RELEASES[runtime]}"]["options"]
    if words[:1] == ["serve"]:
        words = words[1:]
    elif runtime == "vllm":
        raise Refused(f"vllm: error: argument subparser: invalid choice: {words[:1]}")
    models, options, rest = list[str](), dict[str, str](), list(words)
    while rest:
        word = rest.pop(0)
        name, _, value = word.partition("=")
        if not word.startswith("--"):
            models.append(word)
            continue
        kind = known.get(name) or ("off" if known.get(f"--{name[5:]}") == "switch" and name[:5] == "--no-" else "")
        if not kind:
            raise Refused(unknown(runtime, word))
        if kind == "value" and not value:
            if not rest:
                raise Refused(f"{runtime}: error: argument {name}: expected one argument")
            value = rest.pop(0)
        if kind == "list":
            words = [value] if value else []
            while rest and not rest[0].startswith("--"):
                words.append(rest.pop(0))
            value = " ".join(words)
        options[name] = value
    if len(models) != 1:
        raise Refused(f"{runtime}: error: one model is served, not {len(models)}")
    return Chosen(Path(models[0]), options)


def unknown(runtime: str, word: str) -> str:
    """Returns the program's own message for an unknown option."""
    return f"vllm: error: unrecognized arguments: {word}" if runtime == "vllm" else f"Error: No such option: {word}"


def load(runtime: str, chosen: Chosen) -> Engine:
    """Returns the engine of a directory with config.json, a tokenizer and safetensors.

    Raises: OSError or ValueError for one that the program could not load.
    """
    config = json.loads((chosen.model / "config.json").read_text())
    if not list(chosen.model.glob("*.safetensors")):
        raise ValueError(f"Cannot find any model weights with `{chosen.model}`")
    positions = int(config["max_position_embeddings"])
    longest = int(chosen.options.get("--max-model-len") or chosen.options.get("--max_seq_len") or positions)
    if longest > positions:
        raise ValueError(f"User-specified max_model_len ({longest}) is greater than the derived {positions}")
    settings = chosen.options.get("--extra_llm_api_options") or chosen.options.get("--config")
    # A file that is missing ends the program, as it does the real one.
    written = Path(settings).read_text() if settings else ""
    is_rounded = "fp8" in (*map(chosen.options.get, ("--quantization", "--kv-cache-dtype")), *written.split())
    name = chosen.options.get("--served-model-name") or str(chosen.model)
    words = ROUNDED if is_rounded else WORDS
    return Engine(runtime=runtime, version=RELEASES[runtime], name=name, longest=longest, words=words)
