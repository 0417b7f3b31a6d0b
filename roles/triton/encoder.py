"""An embedder or reranker in the model repository: one Python model, with the encoders' code beside it."""

from functools import cache

from deploy.slices.host import ModelSlice
from roles._shipping.texts import HERE
from roles.triton.loaded import Loaded
from roles.triton.templates import rendered

ENCODERS = HERE / "files" / "encoders"


def encoder(model: ModelSlice) -> Loaded:
    """Triton's model for a planned encoder."""
    files = {"config.pbtxt": _config(model), **_code(model.kind)}
    return Loaded((model.name,), {f"{model.name}/{path}": content for path, content in files.items()})


@cache
def _code(kind: str) -> dict[str, bytes]:
    """The encoders' modules, read once in a run: every host of a fleet gets the same files."""
    modules = {f"1/encoders/{path.name}": path.read_bytes() for path in sorted(ENCODERS.glob("*.py"))}
    return {"1/model.py": (ENCODERS / "models" / f"{kind}.py").read_bytes(), **modules}


def _config(model: ModelSlice) -> bytes:
    parameters = {key: str(value) for key, value in model.settings.items() if key != "dimensions"}
    return rendered(
        f"{model.kind}.pbtxt.j2",
        name=model.name,
        max_batch_size=model.max_batch_size,
        max_queue_delay_microseconds=model.max_queue_delay_microseconds,
        max_queue_size=model.max_queue_size,
        default_timeout_microseconds=0,
        dimensions=model.dimensions,
        parameters=parameters,
    )
