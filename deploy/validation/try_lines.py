"""Texts of `try` lines for settings that need others; complete, so that no further refusal follows."""

from deploy.catalog import CHECKPOINTS, PRECISIONS, Architecture
from deploy.catalog.names import offer
from deploy.catalog.runtimes import TRITON
from deploy.models.resolve import image_of, precision_of, release_row
from deploy.models.runtimes import image_for, path_of
from deploy.spec import LLM, Host
from deploy.validation.placed_llm import Placed

CALIBRATION = 'calibration=Calibration(directory="calibration/cnn_dailymail", samples=512)'
TRUST = '"engine_trust": EngineTrust(key="keys/engines")'
DEFAULT_PORT = LLM(name="").port


def engine_path(placed: Placed, *fields: str, precision: str = "") -> str:
    """The engine path with `fields`, and the other settings of an engine that the model or its host lacks."""
    model = placed.model
    words = ['path="engine"', *([f'precision="{precision}"'] if precision else []), *fields]
    row = PRECISIONS.get(precision) or PRECISIONS[precision_of(placed.served)]
    calibrated = row.calibrated or model.kv_cache.dtype in ("fp8", "int8")
    if calibrated and not model.calibration:
        words.append(CALIBRATION)
    if model.replay is None:
        words.append('replay=Replay.none(reason="…")')
    if placed.host.engine_trust is None:
        words.append(TRUST)
    return ", ".join(words)


def draft_offer(placed: Placed, word: str) -> str:
    """The nearest checkpoint of the catalog that can draft for the model: its tokens, and fewer parameters."""
    target = placed.served.shape
    fit = [
        name
        for name, row in CHECKPOINTS.items()
        if (row.shape.vocabulary, row.shape.architecture) == (target.vocabulary, target.architecture)
        and row.shape.parameters < target.parameters
    ]
    own = "a Checkpoint(…) of a smaller model of its family"
    return f"{offer(word, fit)}; or {own}" if fit else f"{own}, or leave speculative out"


def on_triton(placed: Placed) -> str:
    """Triton instead of a program beside it, without that program's image and port; "" if Triton cannot serve it."""
    model, row = placed.model, release_row(placed.host.release)
    trtllm = image_of(placed.host, row).trtllm if row else ""
    choice = path_of(LLM(name=model.name, path=model.path), placed.served.architecture, trtllm)
    if not choice.path or (model.lora and choice.path != "engine"):
        return ""
    words = [f'runtime="{TRITON}"', *(['image=""'] if model.image else [])]
    words += [f"port={DEFAULT_PORT}"] if model.port != DEFAULT_PORT else []
    if choice.path == "engine":
        words.append(engine_path(placed))
    return ", ".join(words)


def beside_triton(runtime: str, architecture: Architecture, host: Host) -> str:
    """A program beside Triton, with its image and with the gateway that it needs; "" for no program."""
    gateway = "" if host.gateway else ', "gateway": Gateway()'
    return f'runtime="{runtime}", image="{image_for(runtime, architecture)}"{gateway}' if runtime else ""


def or_else(*offers: str) -> str:
    return "; or ".join(offer for offer in offers if offer)
