"""Judges whether the program that serves an LLM can read the format of its published weights."""

from collections.abc import Iterator

from deploy.catalog.formats import FORMATS, FP8_BLOCK, Format
from deploy.catalog.gpus import GPU
from deploy.catalog.names import offer
from deploy.catalog.runtimes import SERVE, TRITON, VLLM, VLLM_ARCHITECTURES
from deploy.models.formats import format_by_name, format_of, stored_of
from deploy.models.names import shape_published
from deploy.models.paths import has_engine
from deploy.models.runtimes import row_of_image
from deploy.refusals import Refusal, shortened
from deploy.spec import Checkpoint
from deploy.validation.placed_llm import Placed
from deploy.validation.try_lines import beside_triton, engine_path, or_else

OF_OLD_WORDS = {"gptq": "gptq"}
"""Formats that the `quantisation` of a declared checkpoint already implies."""


def format_problems(placed: Placed) -> Iterator[Refusal]:
    """A refusal for weights that this path of this release cannot read, or cannot split over these GPUs."""
    shape = placed.served.shape
    name = shape.format or _of_files(placed) or OF_OLD_WORDS.get(shape.quantisation, "")
    if not name:
        return
    row = FORMATS.get(name)
    if row is None:
        yield placed.no(
            "unknown-format",
            f"{name!r} is not a format of published weights",
            "checkpoint.format",
            seen=repr(name),
            wanted="a row of catalog.FORMATS, or nothing",
            attempt=offer(name, FORMATS),
        )
    elif placed.is_engine:
        if not row.engine and placed.model.engine.checkpoint == "hub":
            yield _not_read(placed, row, "the convert scripts of the engine path read plain weights and GPTQ")
    elif not _reads(placed, row):
        if placed.model.runtime == VLLM:
            yield _not_read(placed, row, row.vllm_why)
        else:
            yield _not_read(placed, row, row.why or f"its loader reads it since {row.pytorch_since}")
    elif placed.gpu and not _runs(placed, row, int(placed.gpu.sm)):
        yield _not_run(placed, row, placed.gpu)
    elif name == "fp8-blocks":
        yield from _split_blocks(placed)


def _reads(placed: Placed, row: Format) -> bool:
    """True if the program that serves the model, and the path in it, read weights in this format."""
    if placed.model.runtime == VLLM:
        return row.vllm
    if placed.is_engine:
        return row.engine
    return row.is_read(_trtllm(placed))


def _runs(placed: Placed, row: Format, sm: int) -> bool:
    """True if the program that reads the format has kernels for it on this SM; `precision` judges other programs."""
    if placed.model.runtime == VLLM:
        return sm >= row.vllm_sm
    return not (placed.served.shape.experts and sm in row.experts_lack_sm)


def _not_run(placed: Placed, row: Format, gpu: GPU) -> Refusal:
    is_vllm = placed.model.runtime == VLLM
    attempts = [] if is_vllm else [offer_of_vllm(placed, row)]
    return placed.no(
        "wrong-sm",
        f"{_reader(placed)} has no kernels for {row.title}{'' if is_vllm else ' of experts'} on SM {gpu.sm}",
        "checkpoint",
        seen=f"{gpu.title}, SM {gpu.sm}",
        wanted=f"SM {row.vllm_sm} or later" if is_vllm else "Hopper, or a model without experts",
        attempt=or_else(*attempts, "another GPU, or the same model in 16 bit"),
    )


def offer_of_vllm(placed: Placed, row: Format) -> str:
    """vLLM with its image, if it reads this format of this architecture on this card; else ""."""
    architecture = placed.served.architecture
    is_read = row.vllm and placed.gpu is not None and int(placed.gpu.sm) >= row.vllm_sm
    if not is_read or placed.model.runtime != TRITON or architecture.name not in VLLM_ARCHITECTURES:
        return ""
    return beside_triton(VLLM, architecture, placed.host)


def _trtllm(placed: Placed) -> str:
    """The TensorRT-LLM that serves the model: its own image's beside Triton, else the release's."""
    own = row_of_image(placed.model) if placed.model.runtime == SERVE else None
    return own.version if own else placed.trtllm


def _of_files(placed: Placed) -> str:
    """The format in the model's files if they are locked or local; else the format in the repository's name."""
    files, weights = placed.served.local, placed.model.weights
    if files is None or not files.config:
        return format_by_name(weights.repository) if placed.model.engine.checkpoint == "hub" else ""
    return format_of(stored_of(files.config), files.files)


def _not_read(placed: Placed, row: Format, why: str) -> Refusal:
    is_planned = "is not planned with" if placed.model.runtime == VLLM else "does not read"
    files = placed.served.local
    method = stored_of(files.config).get("quant_method") if files else ""
    named = f", quant_method={shortened(str(method))}" if row.name == "unknown" and method else ""
    return placed.no(
        "format-not-read",
        f"{_reader(placed)} {is_planned} {row.title}: {why}",
        "checkpoint",
        seen=f'weights published as {row.title}{named}, runtime="{placed.model.runtime}", {placed.release}',
        wanted=f"16-bit weights, or one of {', '.join(row.title for row in FORMATS.values() if _reads(placed, row))}",
        attempt=_attempt(placed, row),
    )


def _reader(placed: Placed) -> str:
    if placed.model.runtime == VLLM:
        own = row_of_image(placed.model)
        return f"vLLM {own.version}" if own else "vLLM"
    return f"the {'engine path' if placed.is_engine else 'PyTorch backend'} of TensorRT-LLM {_trtllm(placed)}"


def _attempt(placed: Placed, row: Format) -> str:
    """Text of a `try` line: a program or path that reads the same files, or else a kind of repository to look for."""
    architecture, attempts = placed.served.architecture, list[str]()
    if placed.is_engine and row.is_read(placed.trtllm):
        return 'path="pytorch", which reads these as they are'
    if offered := offer_of_vllm(placed, row):
        attempts.append(f"{offered}: vLLM reads these as they are")
    if row.engine and has_engine(architecture, placed.trtllm):
        attempts.append(f"{engine_path(placed, precision='auto')}: trtllm-build reads {row.title} of this family")
    return "; or ".join(attempts) or (
        "the same model in FP8 by NVIDIA (nvidia/…-FP8) or by its maker (…-FP8), or its 16-bit repository"
    )


def _split_blocks(placed: Placed) -> Iterator[Refusal]:
    """A refusal if a GPU would get part of a block: weights and their scales are cut separately."""
    shape, layout = _published_shape(placed), placed.layout
    is_vllm = placed.model.runtime == VLLM
    of_experts = layout.tensor // max(layout.expert, 1)
    widths = {"experts": (shape.intermediate, of_experts)} if shape.experts else {}
    dense = shape.dense_intermediate if shape.experts else shape.intermediate
    widths |= {"layers": (dense, layout.tensor)} if dense else {}
    for part, (width, gpus) in widths.items():
        if width % FP8_BLOCK or not width % (FP8_BLOCK * gpus):
            continue
        blocks, whole = width // FP8_BLOCK, [n for n in (1, 2, 4, 8) if not width // FP8_BLOCK % n]
        yield placed.no(
            "blocks-cut",
            f"its {part} are {width:,} wide, {blocks} blocks of {FP8_BLOCK}, and {gpus} GPUs would cut through blocks",
            "parallel",
            seen=f"{width:,} / {gpus} = {width / gpus:g} a GPU; "
            + ("vLLM takes whole blocks" if is_vllm else "TensorRT-LLM cuts weights and scales separately"),
            wanted=f"whole blocks: {', '.join(map(str, whole))} GPUs"
            + (", or whole experts" if part == "experts" and not is_vllm else ""),
            attempt=_whole_experts(placed)
            if part == "experts" and not is_vllm and not shape.experts % layout.tensor
            else _fewer_gpus(max(n for n in whole if n <= layout.tensor)),
        )


def _published_shape(placed: Placed) -> Checkpoint:
    """The shape with the widths in the files if known: a typed width may be the dense layers' width."""
    files = placed.served.local
    try:
        return shape_published(files, placed.model.name) if files and files.config else placed.served.shape
    except Refusal:
        return placed.served.shape


def _whole_experts(placed: Placed) -> str:
    gpus = placed.layout.tensor
    return f"Parallel(expert={gpus}), which gives each GPU whole experts (--ep {gpus} of `enginehouse fit`)"


def _fewer_gpus(count: int) -> str:
    return f"Server(…, gpus={tuple(range(count))!r}) (--tp {count} of `enginehouse fit`)"
