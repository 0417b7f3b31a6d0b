"""Shares of the GPUs' seconds by model, and of a model by tenant. The caller provides the counters."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from deploy.planning.plan import Plan
from deploy.slices.host import ModelSlice, ServerSlice, Slice

RULES = (  # the printing caller fills in {output_weight}
    "Servers that share a GPU are paid its whole time. An encoder is counted the seconds that its passes ran on the "
    "device. The LLMs beside it are counted the seconds that the GPU worked beyond those; several LLMs divide them by "
    "weighted tokens. Idle time is carried in the same proportion.",
    "Where no dcgm-exporter says how long a GPU worked, its LLMs are counted all time that encoders leave, idle time "
    "included.",
    "An output token weighs {output_weight:g} input tokens (--output-weight), within a model and between tenants.",
)


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Counters of one model on one host over the window; seconds are of GPU work, and only encoders have them."""

    prompt_tokens: float = 0.0
    completion_tokens: float = 0.0
    cached_tokens: float = 0.0
    documents: float = 0.0
    device_seconds: float = 0.0

    def weighted(self, output_weight: float) -> float:
        return self.prompt_tokens + output_weight * self.completion_tokens


NOTHING = Counted()


@dataclass(frozen=True, kw_only=True)
class Window:
    """Counters of `seconds`: by (host, model), and the seconds that each GPU (host, number) worked, if known."""

    seconds: float
    counted: Mapping[tuple[str, str], Counted] = field(default_factory=dict)
    worked: Mapping[tuple[str, int], float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Share:
    """The use of one model of one host. `gpu_seconds` were spent on it; `paid_seconds` add its part of the idle time.

    The paid seconds of all shares of a host are its GPUs times the window. `model` is "" for unused GPUs.
    """

    host: str
    model: str
    kind: str
    engine: str
    card: str
    gpu_seconds: float
    paid_seconds: float
    counted: Counted
    is_busy_known: bool


def shares(plan: Plan, window: Window, output_weight: float) -> tuple[Share, ...]:
    """The seconds of every GPU of the plan, divided among its models; seconds of unused GPUs have no model."""
    return tuple(share for slice_ in plan.slices for share in _of_host(slice_, window, output_weight))


def engine_of(model: ModelSlice) -> str:
    return model.engines[0].name if model.engines else f"{model.path}, {model.precision}"


def _of_host(slice_: Slice, window: Window, output_weight: float) -> Iterable[Share]:
    left = set(range(slice_.machine.gpus))
    for gpus, servers in _groups(slice_.servers):
        left -= gpus
        yield from _of_group(slice_, gpus, servers, window, output_weight)
    if left:
        yield _nobody(slice_, len(left) * window.seconds, False)


def _groups(servers: Iterable[ServerSlice]) -> list[tuple[set[int], list[ServerSlice]]]:
    """Servers grouped with the GPUs that they share, directly or through another server."""
    groups: list[tuple[set[int], list[ServerSlice]]] = []
    for server in servers:
        gpus, together = set(server.gpus), [server]
        for group in [group for group in groups if group[0] & gpus]:
            gpus, together = gpus | group[0], [*group[1], *together]
            groups.remove(group)
        groups.append((gpus, together))
    return groups


def _of_group(
    slice_: Slice, gpus: set[int], servers: list[ServerSlice], window: Window, output_weight: float
) -> Iterable[Share]:
    models = {model.name: model for server in servers for model in server.models}
    counted = {name: window.counted.get((slice_.host, name), NOTHING) for name in models}
    worked = [window.worked[slice_.host, gpu] for gpu in gpus if (slice_.host, gpu) in window.worked]
    is_known = len(worked) == len(gpus)
    paid = len(gpus) * window.seconds
    used = _used(models, counted, sum(worked) if is_known else paid, is_known, output_weight)
    total = sum(used.values())
    if not total:
        yield _nobody(slice_, paid, is_known)
        return
    for name, model in models.items():
        yield Share(
            host=slice_.host,
            model=name,
            kind=model.kind,
            engine=engine_of(model),
            card=slice_.machine.gpu,
            gpu_seconds=used[name],
            paid_seconds=paid * used[name] / total,
            counted=counted[name],
            is_busy_known=is_known,
        )


def _used(
    models: Mapping[str, ModelSlice],
    counted: Mapping[str, Counted],
    worked: float,
    is_known: bool,
    output_weight: float,
) -> dict[str, float]:
    """GPU seconds by model. Overlapping passes of encoders never add up to more than the GPUs worked."""
    passes = {name: counted[name].device_seconds for name in models if models[name].kind != "llm"}
    together = sum(passes.values())
    if together > worked:
        passes = {name: seconds * worked / together for name, seconds in passes.items()}
    weights = {name: counted[name].weighted(output_weight) for name in models if models[name].kind == "llm"}
    if not is_known and not sum(weights.values()):
        return passes | dict.fromkeys(weights, 0.0)
    rest, answered = max(worked - together, 0.0), sum(weights.values())
    return passes | {
        name: rest * (weight / answered if answered else 1 / len(weights)) for name, weight in weights.items()
    }


def _nobody(slice_: Slice, seconds: float, is_known: bool) -> Share:
    return Share(
        host=slice_.host,
        model="",
        kind="",
        engine="",
        card=slice_.machine.gpu,
        gpu_seconds=0.0,
        paid_seconds=seconds,
        counted=NOTHING,
        is_busy_known=is_known,
    )


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Requests, tokens and seconds of one tenant at one model, by the gateways' audit lines."""

    tenant: str
    model: str
    requests: int
    prompt_tokens: int
    completion_tokens: int


MOST_TOKENS = 10**9
"""Largest number of tokens of one request; an audit line's larger number is invalid."""


def spent_by(lines: Iterable[Mapping[str, object]]) -> tuple[Spent, ...]:
    """Audit lines summed by tenant and model; lines without a model are left out, because they served no request."""
    sums: dict[tuple[str, str], list[int]] = {}
    for line in lines:
        model = str(line.get("model") or "")
        if not model:
            continue
        row = sums.setdefault((str(line.get("tenant") or "-"), model), [0, 0, 0])
        row[0] += 1
        row[1] += _count(line, "prompt_tokens")
        row[2] += _count(line, "completion_tokens")
    return tuple(
        Spent(tenant=tenant, model=model, requests=row[0], prompt_tokens=row[1], completion_tokens=row[2])
        for (tenant, model), row in sorted(sums.items())
    )


def _count(line: Mapping[str, object], key: str) -> int:
    value = line.get(key)
    return value if isinstance(value, int) and 0 <= value <= MOST_TOKENS else 0
