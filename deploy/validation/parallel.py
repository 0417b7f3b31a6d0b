"""Judges a model's split over the GPUs of its server, and its neighbours there."""

from collections.abc import Iterator

from deploy.models.memory import kv_heads
from deploy.refusals import Refusal, refuse, server_at
from deploy.spec import LLM, Draft
from deploy.validation.placed_llm import Placed

EXPERTS_DIVIDE = "expert parallelism divides the GPUs of tensor parallelism, it does not multiply the GPU count"


def parallel_problems(placed: Placed) -> Iterator[Refusal]:
    """A refusal for each mistake in one LLM's split; sizes first, because a split by 0 has no remainder."""
    sizes = list(_sizes(placed))
    if sizes:
        yield from sizes
        return
    yield from _gpus(placed)
    yield from _heads(placed)
    yield from _layers(placed)
    yield from _experts(placed)
    yield from _beside(placed)


def _sizes(placed: Placed) -> Iterator[Refusal]:
    for name, fewest in (("tensor", 0), ("pipeline", 1), ("expert", 0)):
        value = getattr(placed.model.parallel, name)
        if value < fewest:
            yield placed.no(
                "out-of-range",
                f"{name} parallelism cannot be {value}",
                f"parallel.{name}",
                seen=str(value),
                wanted=f"{fewest} or more",
                attempt=f"leave {name} out",
            )


def _gpus(placed: Placed) -> Iterator[Refusal]:
    layout, gpus, declared = placed.layout, placed.server.gpus, placed.model.parallel
    members = max(len(declared.hosts), 1)
    if not gpus or layout.world == len(gpus) * members:
        return
    product = f"tensor {layout.tensor} x pipeline {layout.pipeline} = {layout.world}"
    if declared.tensor == 0:
        product = f"pipeline {layout.pipeline} of {len(gpus) * members} GPUs"
    if members > 1:
        yield _gpus_of_group(placed, product)
        return
    beyond = layout.world > placed.host.machine.gpus
    hosts = "; hosts=(…) splits a model over hosts" if beyond else ""
    experts = f"; {EXPERTS_DIVIDE}" if declared.expert > 1 else ""
    fitting = [number for number in (8, 4, 2, 1) if len(gpus) % number == 0 and number <= max(layout.pipeline, 1)]
    yield placed.no(
        "parallel-not-gpus",
        f"{product}, and server {placed.server.name} has {len(gpus)} GPU{'s' if len(gpus) > 1 else ''}",
        "parallel",
        seen=f"Parallel(tensor={declared.tensor}, pipeline={declared.pipeline}, expert={declared.expert}), gpus={gpus}",
        wanted=f"tensor x pipeline = the GPUs of the server{hosts}{experts}",
        attempt=f"leave tensor out, pipeline={fitting[-1]}"
        + (f" (or {', '.join(str(number) for number in fitting[:-1])})" if len(fitting) > 1 else ""),
    )


def _gpus_of_group(placed: Placed, product: str) -> Refusal:
    """The refusal of a group whose number of GPUs differs from its number of ranks."""
    declared, each_host = placed.model.parallel, len(placed.server.gpus)
    return placed.no(
        "parallel-not-gpus",
        f"{product}, and {len(declared.hosts)} hosts with {each_host} GPUs each have {each_host * len(declared.hosts)}",
        "parallel",
        seen=f"Parallel(tensor={declared.tensor}, pipeline={declared.pipeline}, hosts=…), gpus={placed.server.gpus}",
        wanted="tensor x pipeline = the GPUs of all hosts of the group",
        attempt=f"tensor={each_host}, pipeline={len(declared.hosts)}: every host is a stage",
    )


def _heads(placed: Placed) -> Iterator[Refusal]:
    tensor, shape = placed.layout.tensor, placed.served.shape
    groups = kv_heads(shape)
    copied = tensor % groups == 0 if groups < tensor else groups % tensor == 0  # fewer heads than GPUs: equal copies
    wrong = "attention heads" if shape.heads % tensor else "" if copied else "key/value heads"
    if tensor < 2 or not wrong:
        return
    count = shape.heads if shape.heads % tensor else groups
    fitting = [n for n in (1, 2, 4, 8) if shape.heads % n == 0 and (groups % n == 0 or n % groups == 0)]
    most = max(number for number in fitting if number <= tensor)
    yield refuse(
        "uneven-split",
        f"{placed.model.name}: {count} {wrong} do not split over {tensor} GPUs",
        where=f'servers["{placed.server.name}"].gpus',
        seen=f"{placed.server.gpus}, so tensor parallel {tensor}",
        wanted=f"{', '.join(str(number) for number in fitting)} GPUs",
        attempt=f"gpus={placed.server.gpus[:most]}"
        + (f", parallel=Parallel(tensor={most})" if placed.model.parallel.tensor else ""),
    )


def _layers(placed: Placed) -> Iterator[Refusal]:
    layout, layers = placed.layout, placed.served.shape.layers
    if layout.pipeline > layers:
        yield placed.no(
            "pipeline-beyond-layers",
            f"{layers} layers are too few for {layout.pipeline} stages",
            "parallel.pipeline",
            seen=str(layout.pipeline),
            wanted=f"at most {layers}, preferably a divisor of it",
            attempt="leave pipeline out: tensor parallelism is faster inside a machine",
        )
    elif layout.pipeline > 1 and placed.model.speculative:
        yield placed.no(
            "pipeline-with-speculation",
            "drafted tokens are confirmed by all layers at once, which pipeline stages do not have",
            "parallel.pipeline",
            seen=f"pipeline={layout.pipeline}, speculative={type(placed.model.speculative).__name__}(…)",
            wanted="pipeline=1 with speculation",
            attempt="leave pipeline out: the GPUs then split every layer (tensor parallel)",
        )


def _experts(placed: Placed) -> Iterator[Refusal]:
    expert, tensor, experts = placed.layout.expert, placed.layout.tensor, placed.served.shape.experts
    if expert < 2:
        return
    if not experts:
        yield placed.no(
            "experts-of-dense-model",
            f"a dense model has no experts to split; {EXPERTS_DIVIDE}",
            "parallel.expert",
            seen=f"expert={expert}, 0 experts",
            wanted="0",
            attempt="leave expert out",
        )
    elif tensor % expert or experts % expert:
        fitting = [str(number) for number in range(1, tensor + 1) if tensor % number == 0 and experts % number == 0]
        yield placed.no(
            "uneven-experts",
            f"expert={expert} does not divide tensor={tensor} and {experts} experts; {EXPERTS_DIVIDE}",
            "parallel.expert",
            seen=f"expert={expert}, tensor={tensor}, {experts} experts",
            wanted=f"one of {', '.join(fitting)}",
            attempt=f"expert={fitting[-1]}",
        )


def _beside(placed: Placed) -> Iterator[Refusal]:
    """Refusals of models that cannot share a tritonserver with this engine."""
    if not placed.is_engine:
        return
    model, others = placed.model, [neighbour for neighbour in placed.server.models if neighbour is not placed.model]
    encoders = [neighbour.name for neighbour in others if not isinstance(neighbour, LLM)]
    llms = [neighbour for neighbour in others if isinstance(neighbour, LLM)]
    if placed.layout.world > 1 and encoders:
        yield _of_its_own(
            placed,
            "encoders-beside-ranks",
            f"an engine of {placed.layout.world} ranks needs a server of its own: under mpirun tritonserver hangs at "
            '"Starting Python backend stub" when a model imports torch (tensorrtllm_backend 553)',
            seen=f"{placed.layout.world} ranks beside {', '.join(encoders)}",
        )
    compiled = [llm.name for llm in llms if llm.path == "engine"]
    if llms and (placed.layout.world > 1 or compiled):
        yield _of_its_own(
            placed,
            "two-engines",
            "the C++ backend serves several engines from one server in orchestrator mode only, with one rank each and "
            "processes of its own (TensorRT-LLM 984)",
            seen=", ".join([model.name, *(llm.name for llm in llms)]),
        )
    if placed.layout.world > 1 and isinstance(model.speculative, Draft):
        yield placed.no(
            "draft-beside-ranks",
            "target and draft are two engines in one server, which works with one rank each (TensorRT-LLM 984)",
            "speculative",
            seen=f"Draft(…) with {placed.layout.world} ranks",
            wanted="one GPU, or speculation that is part of the target's engine",
            attempt='Eagle(…), Medusa(…) or Lookahead(), or path="pytorch"',
        )


def _of_its_own(placed: Placed, kind: str, problem: str, *, seen: str) -> Refusal:
    free = next((index for index in range(placed.host.machine.gpus) if index not in placed.server.gpus), None)
    placement = f", gpus=({free},)" if free is not None else " on another GPU"
    return refuse(
        kind,
        f"{placed.model.name}: {problem}",
        where=server_at(placed.server.name, "models"),
        seen=seen,
        wanted="only this LLM in its server",
        attempt=f'a second Server(name="{placed.server.name}-2"{placement}, …) for the others',
    )


def slow_links(placed: Placed) -> Iterator[str]:
    if placed.gpu and placed.layout.tensor > 1 and not placed.gpu.nvlink:
        yield (
            f"{placed.model.name} is split over {placed.layout.tensor} {placed.gpu.title}, which no NVLink joins: "
            "every layer waits for PCIe twice; replicas (one_per_gpu) or pipeline parallelism suffer less"
        )
