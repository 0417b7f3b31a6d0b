"""Model repositories of the two sides: ours with the settings that the plan of an H100 writes, and the naive one."""

import json
import shutil
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from deploy.catalog import GPUS
from deploy.models.budget import ServerBudget, server_budget
from deploy.models.memory import SERVER_MIB
from deploy.models.resolve import serve
from deploy.models.settings import settings_of
from deploy.spec import Embedder, Reranker, Server, Weights
from deploy.spec.surroundings import Surroundings
from tests.encoders import real_triton

NAIVE = Path(__file__).parent / "naive"
GPU = "h100-80"
__all__ = ["SERVER_MIB", "Planned", "naive", "ours", "plan"]
COMMIT = "0" * 40  # a placeholder: random weights have no commit


@dataclass(frozen=True)
class Planned:
    """An encoder in the plan: parameters of config.pbtxt, limits of its queue, and MiB on the GPU."""

    kind: str
    parameters: dict[str, str]
    dimensions: int
    limits: dict[str, int]
    memory_mib: int


def plan() -> tuple[dict[str, Planned], int]:
    """Returns both encoders as planned for one H100, and the MiB of that server in total."""
    reranker = Reranker(
        name="reranker", checkpoint="bge-reranker-large", weights=Weights.hub("BAAI/bge-reranker-large", COMMIT)
    )
    embedder = Embedder(
        name="embedder",
        checkpoint="nomic-embed-text-v2-moe",
        weights=Weights.hub("nomic-ai/nomic-embed-text-v2-moe", COMMIT),
        default_task="search_document",
    )
    models = (reranker, embedder)
    surroundings = Surroundings(today=date(2026, 11, 21))
    served = [model for model in (serve(spec, surroundings) for spec in models) if model]
    budget: ServerBudget = server_budget(Server(name="main", models=models), served, GPUS[GPU])
    planned = {}
    for encoder, share in zip(served, budget.shares, strict=True):
        model = encoder.model
        limits = {
            "max_batch_size": model.max_batch_size,
            "max_queue_delay_microseconds": model.max_queue_delay_microseconds,
            "max_queue_size": model.max_queue_size,
            "default_timeout_microseconds": 0,
        }
        parameters = {key: str(value) for key, value in settings_of(encoder, share, "").items()}
        planned[model.name] = Planned(model.name, parameters, encoder.dimensions, limits, share.memory.total_mib)
    return planned, budget.needed_mib


def ours(
    repository: Path, checkpoints: dict[str, Path], kinds: list[str], device: str, changes: dict[str, str]
) -> None:
    """Writes the shipped models of `kinds` to `repository`; without an H100, without memory cap and in float32."""
    planned, _ = plan()
    for kind in kinds:
        parameters = planned[kind].parameters | {"model_path": str(checkpoints[kind])}
        config = json.loads((checkpoints[kind] / "config.json").read_text())
        dimensions = {"dimensions": config["n_embd"]} if kind == "embedder" else {}
        parameters.pop("dimensions")
        parameters.pop("least_dimensions", None)  # that of the published model; a smaller one has fewer dimensions
        if kind == "reranker":
            parameters.pop("default_task")
        if device == "cpu":
            parameters |= {"device": "cpu", "dtype": "fp32", "memory_mib": "0"}
        parameters = {key: value for key, value in (parameters | changes).items() if value}
        real_triton.add_model(repository, kind, kind, parameters=parameters, **planned[kind].limits, **dimensions)


def naive(repository: Path, checkpoints: dict[str, Path], kinds: list[str], device: str) -> None:
    """Writes the naive models of `kinds` to `repository`, under the same names."""
    for kind in kinds:
        source = NAIVE / kind
        version = repository / kind / "1"
        shutil.copytree(source, version, ignore=shutil.ignore_patterns("__pycache__", "*.pbtxt"))
        text = (source / "config.pbtxt").read_text()
        for word, value in (("NAME", kind), ("MODEL_PATH", str(checkpoints[kind])), ("DEVICE", device)):
            text = text.replace(f'"{word}"', f'"{value}"')
        (repository / kind / "config.pbtxt").write_text(text)
