"""Measures encoder families on a GPU in published shapes, beside sentence-transformers and the limit.

    PYTHONPATH=files python -m benchmarks.encoder_families                       every family, on cuda:0; minutes
    PYTHONPATH=files python -m benchmarks.encoder_families modernbert --runs 3   one of them

Random weights of transformers, texts of log-normal lengths with mean 181 tokens (16 to 512), requests of 8. All sides
have the same texts, the same simple tokenizer and 16-bit numbers:

    ours    the stages that Triton's model runs, without Triton around them
    peer    sentence-transformers over all texts at once, sorted by length; the fastest of its batch sizes.
            Qwen3's reranker, which it does not score: transformers, sorted likewise
    naive   transformers, one padded request after the other, like the backends in guides

The limit is the bf16 matrix product of the same run. Last line: one JSON object. Needs sentence-transformers.
"""

import argparse
import json
import queue
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import sentence_transformers
import torch
import transformers
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from benchmarks import encoder_agreement, gpu, limit
from benchmarks.encoder_agreement import CASES, NO, QUERY, YES, Case
from encoders.batching import Batcher, Job
from encoders.metrics import Meter
from encoders.pipeline import Pipeline
from encoders.settings import Settings

ITEMS = 8
MEAN, DEVIATION, SHORTEST, LONGEST = 5.0, 0.75, 16, 512
COMPARED = 32
BFLOAT16_FAMILIES = ("Gemma", "Qwen")
"""Families that are served in bfloat16, because their states exceed float16."""
PEER_BATCHES = (32, 128, 256)
TOKENIZER = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "model_max_length": LONGEST}
Run = Callable[[], object]


@dataclass
class Scene:
    """A family on a device: its checkpoint, its texts, and the half type that serves it."""

    case: Case
    folder: Path
    device: str
    texts: list[str]
    dtype: str

    @property
    def half(self) -> torch.dtype:
        """Returns the type of every side's weights."""
        return {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}[self.dtype]


def main() -> None:
    """Prints a line for each family, then the JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.encoder_families", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=list(CASES))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--documents", type=int, default=4096)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--dtype", default="", choices=["", "fp32", "fp16", "bf16"], help="of every side; the family's")
    parser.add_argument("--alone", action="store_true", help="without the peer and the naive side")
    parser.add_argument("--small", action="store_true", help="two layers and few words, for a CPU")
    options = parser.parse_args()
    limits = limit.measured(options.device)
    rows: dict[str, Any] = {}
    for name in options.names:
        with tempfile.TemporaryDirectory() as folder:
            rows[name] = family(name, Path(folder), options, limits)
        print(f"{name}: {json.dumps(rows[name])}", flush=True)
    head = {"benchmark": "encoder_families", "date": datetime.now(UTC).date().isoformat()}
    head |= {"machine": gpu.machine(options.device), "limit_tflops": limits, "runs": options.runs}
    head |= {"documents": options.documents, "sentence_transformers": sentence_transformers.__version__}
    print(json.dumps(head | {"transformers": transformers.__version__, "families": rows}))


def family(name: str, folder: Path, options: argparse.Namespace, limits: dict[str, float]) -> dict[str, Any]:
    """Returns the row of one family: documents a second of every side, the share of the limit, and the difference."""
    case = CASES[name]
    if options.small:
        case.config.update(num_hidden_layers=2, vocab_size=2048)
    theirs = encoder_agreement.write(case, folder)
    (folder / "tokenizer_config.json").write_text(json.dumps(TOKENIZER))
    half = "fp32" if options.device == "cpu" else "bf16" if case.kind.startswith(BFLOAT16_FAMILIES) else "fp16"
    half = options.dtype or half
    scene = Scene(case, folder, options.device, texts_of(options.documents), half)
    ours = encoder_agreement.encoder(case, Settings(model_path=str(folder), device=scene.device, dtype=half))
    row: dict[str, Any] = {"dtype": half, "notes": ours.notes}
    row |= difference(scene, ours, theirs.to(scene.device))
    flop = flop_per_document(theirs, ours, scene)
    del theirs
    sides: dict[str, Run] = {"ours": lambda: through_stages(scene, ours)}
    if not options.alone:
        sides |= {**peers(scene), "naive": naive(scene)}
    best = {}
    for label, run in sides.items():
        times = 1 if label == "naive" else options.runs
        if times > 1:
            run()
        best[label] = statistics.median(timed(run, options.device) for _ in range(times))
    row["documents_per_second"] = {label: round(len(scene.texts) / seconds, 1) for label, seconds in best.items()}
    row["share_of_bf16_limit"] = round(len(scene.texts) / best["ours"] * flop / (limits["bf16"] * 1e12), 4)
    return row | {"gflop_per_document": round(flop / 1e9, 2)}


def texts_of(count: int) -> list[str]:
    """Returns texts of log-normal lengths, each word a token."""
    generator = random.Random(11)
    lengths = (min(LONGEST, max(SHORTEST, round(generator.lognormvariate(MEAN, DEVIATION)))) - 8 for _ in range(count))
    return [" ".join(f"w{generator.randrange(900)}" for _ in range(length)) for length in lengths]


def timed(run: Run, device: str) -> float:
    """Returns seconds of one run on a device that is idle before and after."""
    _wait(device)
    began = time.perf_counter()
    run()
    _wait(device)
    return time.perf_counter() - began


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize(device)


def through_stages(scene: Scene, ours: Any) -> None:
    """Sends all texts through the threads of a served model, in requests of ITEMS."""
    replies: queue.SimpleQueue[Job] = queue.SimpleQueue()
    meter = Meter(None, "benchmark", ours.budget, ours.runner.peak_bytes, print)
    batcher = Batcher(ours.runner.launch, ours.budget, ours.runner.streams)
    stages = Pipeline(ours.encode, batcher, replies.put, meter)
    starts = range(0, len(scene.texts), ITEMS)
    for start in starts:
        stages.submit([encoder_agreement.job_of(scene.case, ours, scene.texts[start : start + ITEMS])])
    for _ in starts:
        job = replies.get()
        if job.error:
            raise job.error
        encoder_agreement.values(scene.case, ours, job)
    stages.close()


def peers(scene: Scene) -> dict[str, Run]:
    """Returns the peers by batch size: sentence-transformers, or transformers for a family that
    sentence-transformers cannot score."""
    by_batch = _sorted_logits(scene) if scene.case.kind == "Qwen3ForCausalLM" else _sentence_transformers(scene)
    return {f"peer, {size} a batch": (lambda size=size: by_batch(size)) for size in PEER_BATCHES}


def _sentence_transformers(scene: Scene) -> Callable[[int], object]:
    kwargs = {"dtype": scene.half}
    if scene.case.scores:
        scorer = sentence_transformers.CrossEncoder(
            str(scene.folder), num_labels=1, max_length=LONGEST, device=scene.device, model_kwargs=kwargs
        )
        pairs = [(QUERY, text) for text in scene.texts]
        return lambda size: scorer.predict(pairs, batch_size=size, show_progress_bar=False)
    network = Transformer(str(scene.folder), model_kwargs=kwargs, max_seq_length=LONGEST)
    pooling = Pooling(network.get_embedding_dimension(), "lasttoken" if scene.case.last else "mean")
    model = sentence_transformers.SentenceTransformer(modules=[network, pooling], device=scene.device)
    return lambda size: model.encode(scene.texts, batch_size=size, show_progress_bar=False)


def _sorted_logits(scene: Scene) -> Callable[[int], object]:
    model, tokenizer = _loaded(scene)
    tokenizer.padding_side = "left"
    texts = sorted((f"{QUERY} {text}" for text in scene.texts), key=len)

    def run(size: int) -> None:
        for start in range(0, len(texts), size):
            batch = tokenizer(texts[start : start + size], padding=True, return_tensors="pt").to(scene.device)
            with torch.inference_mode():
                logits = model(**batch, logits_to_keep=1).logits[:, -1]
            (logits[:, YES] - logits[:, NO]).float().cpu()

    return run


def naive(scene: Scene) -> Run:
    """Runs requests of ITEMS texts in sequence, padded, each answer copied immediately."""
    model, tokenizer = _loaded(scene)
    rows = [(QUERY, text) if scene.case.scores else (text, None) for text in scene.texts]
    more = {"logits_to_keep": 1} if scene.case.kind == "Qwen3ForCausalLM" else {}

    def run() -> None:
        for start in range(0, len(rows), ITEMS):
            first, second = zip(*rows[start : start + ITEMS], strict=True)
            pairs = (list(first), list(second)) if scene.case.scores else (list(first),)
            batch = tokenizer(*pairs, padding=True, truncation=True, return_tensors="pt").to(scene.device)
            with torch.inference_mode():
                answer = model(**batch, **more)
            (answer.logits if scene.case.scores else answer.last_hidden_state.mean(1)).float().cpu()

    return run


def _loaded(scene: Scene) -> tuple[Any, Any]:
    model = getattr(transformers, scene.case.kind).from_pretrained(scene.folder, dtype=scene.half)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(scene.folder / "tokenizer.json"), pad_token="<pad>", model_max_length=LONGEST
    )
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    return model.to(scene.device).eval(), tokenizer


def difference(scene: Scene, ours: Any, theirs: Any) -> dict[str, float]:
    """Returns the largest difference from transformers in float32 on this device, and for vectors the least cosine."""
    job = encoder_agreement.job_of(scene.case, ours, scene.texts[:COMPARED])
    ours.work([job])
    mine, wanted = encoder_agreement.values(scene.case, ours, job), encoder_agreement.reference(scene.case, theirs, job)
    largest = {"largest_difference": float(f"{np.abs(mine - wanted).max():.2e}")}
    if scene.case.scores:
        return largest | {"spread_of_scores": round(float(wanted.std()), 4)}
    return largest | {"least_cosine": round(float((mine * wanted).sum(1).min()), 6)}


def flop_per_document(theirs: Any, ours: Any, scene: Scene) -> float:
    """Returns operations of the matrix products of a text of mean length, attention included.

    It counts a reranker's whole last layer, and no head, whose rows are few.
    """
    config = theirs.config
    layers = [
        part for name, part in theirs.named_modules() if isinstance(part, torch.nn.Linear) and ".layer" in f".{name}"
    ]
    weights = sum(part.weight.numel() for part in layers)
    job = encoder_agreement.job_of(scene.case, ours, scene.texts)
    ours.encode([job])
    lengths = np.array([len(ids) for ids in job.sequences], np.float64)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    width, pairs = config.num_attention_heads * head, lengths**2
    if scene.case.kind.startswith("Qwen3"):
        pairs = lengths * (lengths + 1) / 2
    windowed = np.minimum(pairs, lengths * (getattr(config, "local_attention", 0) + 1 or 1))
    everywhere = getattr(config, "global_attn_every_n_layers", 1)
    seen = pairs / everywhere + windowed * (everywhere - 1) / everywhere
    if buckets := getattr(config, "position_buckets", 0):  # two additional products, for the distances in use
        seen = seen + 2 * lengths * np.minimum(lengths, buckets)
    return float(2 * weights * lengths.mean() + 4 * config.num_hidden_layers * width * seen.mean())


if __name__ == "__main__":
    main()
