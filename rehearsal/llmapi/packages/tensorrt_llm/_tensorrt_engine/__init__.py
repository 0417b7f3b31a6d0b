"""The LLM over a compiled engine (rehearsal stand-in).

It answers like the checkpoint whose digest the engine carries. Other weights beside the tokenizer change all words; an
engine with `drift` changes the words from that number on.
"""

import json
from pathlib import Path

from tensorrt_llm import __version__
from tensorrt_llm.arguments import check
from tensorrt_llm.llm import Base
from tensorrt_llm.stand_in import checkpoint, gpu


class LLM(Base):
    """An LLM with an engine's directory as `model`, and the published weights' as `tokenizer`."""

    def __init__(self, model, tokenizer, **arguments):
        check(arguments)
        folder = Path(model)
        configuration = json.loads((folder / "config.json").read_text())
        ranks = configuration["pretrained_config"]["mapping"]["world_size"]
        headers = [header(folder / f"rank{rank}.engine") for rank in range(ranks)]
        here = gpu.gpus()[0][2]
        if headers[0]["sm"] != here:
            raise RuntimeError(f"The engine plan file was built for SM {headers[0]['sm']}, not supported on SM {here}")
        if headers[0]["trtllm"] != __version__:
            raise RuntimeError(f"The engine was built with {headers[0]['trtllm']} and this is {__version__}")
        if len(gpu.gpus()) < ranks:
            raise RuntimeError(f"Only {len(gpu.gpus())} GPUs are available, but {ranks} are required.")
        self.drift = headers[0]["drift"]
        if checkpoint.digest(tokenizer) != headers[0]["checkpoint"]:
            self.drift = 0
        self.prepare(Path(tokenizer), configuration["build_config"]["max_seq_len"])


def header(path):
    """Returns the first line of an engine."""
    with path.open("rb") as engine:
        first_line = json.loads(engine.readline())
    if not first_line.get("rehearsal stand-in"):
        raise RuntimeError(f"{path} is not an engine of this stand-in")
    return first_line
