"""The plan as a report for approval: memory of each GPU, installed versions, served models.

Hosts with the same plan are shown once. Everything here is text; `deploy.cli` prints it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from deploy.catalog import ARCHITECTURES, GPU
from deploy.catalog.mig import PROFILES
from deploy.models import memory
from deploy.models.cards import planned_card
from deploy.models.runtimes import verdicts
from deploy.planning.fit import Fit
from deploy.planning.plan import Plan
from deploy.reports.engines import engines_report, llm_table
from deploy.reports.groups import group_report
from deploy.reports.support import balancers_report, monitors_report
from deploy.slices.gateway import GatewaySlice
from deploy.slices.host import ModelSlice, ServerSlice, Slice
from deploy.slices.sharing import SharingSlice
from deploy.spec import Https
from deploy.topology.balancing import LOOPBACK

BAR_WIDTH = 64
PARTS = (
    ("weights", "█", "cyan"),
    ("contexts and workspace", "▓", "blue"),
    ("key/value cache", "▒", "green"),
    ("reserve", "░", "yellow"),
    ("free", "·", "dim"),
)


def plan_report(plan: Plan) -> Group:
    return Group(
        *(part for alike in same_slices(plan.slices) for part in _host(alike, dict(plan.changes))),
        *balancers_report(plan.balancers),
        *monitors_report(plan.monitors),
        _waves(plan),
        *(Text(f"note  {sentence}", style="yellow") for sentence in plan.warnings),
        Text(f"digest  {plan.digest}   (deploy exactly this: --data expect={plan.digest})", style="bold"),
    )


def same_slices(slices: Iterable[Slice]) -> list[list[Slice]]:
    """The slices in groups that differ only in the host's name and address."""
    groups: dict[str, list[Slice]] = {}
    for slice_ in slices:
        mutual = replace(slice_.mutual, address="") if slice_.mutual else None
        shared = [(files.model, files.revision) for files in slice_.sharing.files] if slice_.sharing else []
        nameless = replace(slice_, host="", traffic=None, exporters=None, mutual=mutual, sharing=None)
        alike = repr((nameless, shared))
        groups.setdefault(alike, []).append(slice_)
    return list(groups.values())


def _host(alike: list[Slice], changes: dict[str, str]) -> Iterator[RenderableType]:
    slice_ = alike[0]
    names = alike[0].host if len(alike) == 1 else f"{alike[0].host} … {alike[-1].host} ({len(alike)} hosts)"
    card = planned_card(slice_.machine)
    cutting = "each cut into" if slice_.driver.manage else "each already cut into"
    cut = f", {cutting} {' + '.join(slice_.mig)}" if slice_.mig else ""
    yield Text(
        f"{names}   {slice_.machine.gpus} x {card.title} (SM {slice_.sm}){cut}, {slice_.machine.os}", style="bold"
    )
    yield _installed(slice_)
    for server in slice_.servers:
        units = f"triton@{server.name}.service" + (f", llm@{server.name}.service" if server.standalone_llm else "")
        yield Text(f"server {server.name}  {units}", style="bold")
        yield _served(server)
        for gpu in server.gpus:
            yield memory_bar(server, gpu, slice_)
        yield memory_table(server)
        yield from group_report(server, planned_card(slice_.machine).usable_mib, memory.RESERVE_MIB)
        llms = llm_table(server)
        if llms:
            yield llms
        if server.standalone_llm:
            yield runtimes_table(server.standalone_llm[0], server)
    if slice_.gateway:
        yield _gateway(slice_.gateway)
    if slice_.https:
        yield _https(slice_.https)
    if slice_.mutual and slice_.mutual.port:
        gateways = ", ".join(gateway.name for gateway in slice_.mutual.gateways)
        yield Text.assemble(
            ("gateways ", "bold"), f"of {gateways} connect to port {slice_.mutual.port} over mutual TLS"
        )
    if slice_.sharing:
        yield _sharing(slice_.sharing)
    yield from engines_report(slice_, changes)
    yield Text("")


def _sharing(sharing: SharingSlice) -> Text:
    """Files that come from peers, and the ports on which peers fetch them."""
    models = ", ".join(f"{files.model} (port {files.port}, {len(files.peers) + 1} hosts)" for files in sharing.files)
    return Text.assemble(("shares ", "bold"), models)


def _gateway(gateway: GatewaySlice) -> Text:
    """The address and the key for clients of OpenAI, Cohere and TEI."""
    behind = f" as {gateway.url}" if gateway.url else ""
    address = f"[{gateway.address}]" if ":" in gateway.address else gateway.address
    urls = ", ".join(f"http://{address}:{port}" for port in gateway.ports)
    keys = "clients need a key" if gateway.keys else "no key needed"
    names = ", ".join([*(model.name for model in gateway.models), *(alias.name for alias in gateway.aliases)])
    others = ", ".join(server.name for server in gateway.others)
    beside = f"; also to {others}" if others else ""
    traced = f"; one request in {gateway.trace_one_in:,} is traced" if gateway.trace_one_in else ""
    return Text.assemble(("gateway ", "bold"), f"{urls}{behind}, {keys}: {names}{beside}{traced}")


def _https(https: Https) -> Text:
    """The port for clients from outside, the certificate it shows, and the networks with access."""
    address = f"[{https.address}]" if ":" in https.address else https.address
    names = f"{', '.join(https.acme.names)}, ordered from {https.acme.directory}" if https.acme else https.certificate
    who = f"from {', '.join(https.allow)}" if https.allow else "from everywhere"
    return Text.assemble(("https ", "bold"), f"{address}:{https.port} {who}, certificate of {names}")


def _installed(slice_: Slice) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    driver, image = slice_.driver, slice_.image
    origin = {"canonical": "Canonical's signed modules", "nvidia": "NVIDIA's repository"}[driver.source]
    managed = f"branch {driver.branch}{f', {driver.version}' if driver.version else ''}, {origin}"
    table.add_row("driver", f"{managed if driver.manage else 'verified, never touched'}; at least {driver.floor}")
    table.add_row("docker", f"{slice_.docker.source}, container toolkit {slice_.toolkit_version}")
    pinned = image.digest[:19] + "…" if image.digest else "by tag, not pinned"
    table.add_row("image", f"{image.reference} ({pinned}), {image.size_mib:,} MiB to pull")
    versions = f"Triton {image.triton_core}, TensorRT-LLM {image.trtllm or 'none'}, CUDA {image.cuda}"
    repaired = f"; repaired on the host: {', '.join(image.repairs)}" if image.repairs else ""
    table.add_row("", versions + repaired)
    for beside in slice_.runtime_images:
        pinned = beside.digest[:19] + "…" if beside.digest else "by tag, not pinned"
        table.add_row("", f"{beside.reference} ({pinned}), about {beside.size_mib:,} MiB to pull")
    for weights in slice_.weights:
        source = f"{weights.repository} @ {weights.revision[:12]}" if weights.repository else weights.directory
        table.add_row("weights", f"{source}, {weights.size_mib:,} MiB, fetched on the {weights.fetch_on}")
    for files in slice_.on_host:
        table.add_row("weights", f"{files.path}, on the host already: read there, never changed")
    table.add_row("disk", f"{slice_.disk_needed_mib:,} MiB needed")
    return table


def _served(server: ServerSlice) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("model", "what", "path", "why"):
        table.add_column(title, overflow="fold")
    for model in server.models:
        table.add_row(model.name, model.kind, model.path, model.reason)
    for own in server.own_models:
        reason = f"from {own.directory}; its readiness is all that is asked of it, and no gateway routes to it"
        table.add_row(own.name, "own", "as declared", reason)
    ports = f"http {server.http_port} · grpc {server.grpc_port} · metrics {server.metrics_port}"
    table.add_row("listens", server.address, "", f"{ports}; loads in this order")
    if server.standalone_llm:
        model, runtime = server.standalone_llm
        port = f"http {runtime.port} · {runtime.name} {runtime.version}, which serves {model.name}"
        table.add_row("listens", LOOPBACK, "", port)
    return table


def memory_parts(server: ServerSlice, gpu: int, slice_: Slice) -> dict[str, int]:
    """MiB of one GPU by purpose, in the order of the bar; the sum is the memory that CUDA can use."""
    models = [model for model in server.models if gpu in gpus_of(model, server)]
    parts = {
        "weights": sum(model.memory.weights_mib for model in models) + sum(own.mib for own in server.own_models),
        "contexts and workspace": server.overhead_mib
        + sum(model.memory.context_mib + model.memory.workspace_mib for model in models),
        "key/value cache": sum(model.memory.kv_cache_mib for model in models),
        "reserve": memory.RESERVE_MIB,
    }
    return parts | {"free": card_of(gpu, slice_).usable_mib - sum(parts.values())}


def card_of(gpu: int, slice_: Slice) -> GPU:
    """The card behind a server's GPU number; a MIG instance as a card of its MiB."""
    card = planned_card(slice_.machine)
    if not slice_.mig:
        return card
    cut = PROFILES[card.name, slice_.mig[gpu % len(slice_.mig)]]
    return replace(card, total_mib=cut.total_mib, reserved_mib=cut.reserved_mib)


def gpus_of(model: ModelSlice, server: ServerSlice) -> tuple[int, ...]:
    """The GPUs that hold a model's memory: all GPUs of an LLM's server; for an encoder the first GPU, or no GPU."""
    if model.kind == "llm":
        return server.gpus
    return server.gpus[:1] if model.memory.total_mib else ()


def memory_bar(server: ServerSlice, gpu: int, slice_: Slice) -> Text:
    """A GPU's memory as a bar, with a character for each kind of use, and its legend."""
    parts = memory_parts(server, gpu, slice_)
    usable = sum(parts.values())
    cut = len(slice_.mig)
    label = f"GPU {gpu // cut}, instance {gpu % cut} ({slice_.mig[gpu % cut]})\n       " if cut else f"GPU {gpu}  "
    text, drawn, counted = Text(label), 0, 0
    for (_name, mark, style), size in zip(PARTS, parts.values(), strict=True):
        counted += size
        width = round(BAR_WIDTH * counted / usable) - drawn
        text.append(mark * width, style)
        drawn += width
    text.append(f"  {usable:,} MiB usable of {card_of(gpu, slice_).total_mib:,}\n       ")
    for (name, mark, style), size in zip(PARTS, parts.values(), strict=True):
        text.append(f" {mark} ", style)
        text.append(f"{name} {size:,} ")
    return text


def memory_table(server: ServerSlice) -> Table:
    """MiB of every model on each of its GPUs, and the tokens of its cache."""
    table = Table(box=None, pad_edge=False)
    table.add_column("MiB on each GPU")
    for title in ("weights", "contexts", "workspace", "kv cache", "sum", "kv tokens"):
        table.add_column(title, justify="right")
    for model in server.models:
        share = model.memory
        sizes = (share.weights_mib, share.context_mib, share.workspace_mib, share.kv_cache_mib, share.total_mib)
        tokens = f"{model.kv_cache_tokens:,}" if model.kv_cache_tokens else ""
        table.add_row(model.name, *(f"{size:,}" for size in sizes), tokens)
    for own in server.own_models:
        table.add_row(own.name, "", "", "", "", f"{own.mib:,}", "")
    table.add_row("tritonserver", "", f"{server.overhead_mib:,}", "", "", f"{server.overhead_mib:,}", "")
    return table


def runtimes_table(model: ModelSlice, server: ServerSlice) -> Table:
    """The programs that can serve an LLM, and the reasons against the others."""
    table = Table(box=None, pad_edge=False)
    for title in (f"{model.name} by", "can", "why"):
        table.add_column(title, overflow="fold")
    for verdict in verdicts(ARCHITECTURES[model.architecture], server.image.trtllm):
        table.add_row(verdict.runtime, "yes" if verdict.serves else "no", verdict.reason)
    return table


def _waves(plan: Plan) -> Text:
    """The declared pools, with the number of hosts that may be out; then the waves in order."""
    named = [pool for pool in plan.pools if pool.name]
    width = max((len(pool.name) for pool in named), default=0)
    lines = [
        f"pool {pool.name:<{width}}  {pool.allowed} of {len(pool.units)} may be out: {', '.join(pool.hosts)}"
        for pool in named
    ]
    lines += [f"wave {number}  {', '.join(wave)}" for number, wave in enumerate(plan.waves, start=1)]
    return Text("\n".join(lines))


def fit_report(fitted: Fit) -> Group:
    """The tokens that fit on one card, and the users by length of a sequence."""
    slice_ = fitted.plan.slices[0]
    server = slice_.servers[0]
    table = Table(box=None, pad_edge=False)
    table.add_column("tokens of one sequence", justify="right")
    table.add_column("at once", justify="right")
    for length, count in fitted.users.items():
        table.add_row(f"{length:,}", f"{count:,}")
    left = Text(
        f"{fitted.llm}: the cache can hold {fitted.cache_tokens:,} tokens" if fitted.llm else "no LLM, no cache"
    )
    programs = [runtimes_table(model, server) for model in server.models if model.name == fitted.llm]
    hosts = f"{len(fitted.plan.slices)} hosts of " if len(fitted.plan.slices) > 1 else ""
    gpus = f"{len(server.gpus)} GPU{'s' if len(server.gpus) > 1 else ''}"
    split = [Text(f"split over {hosts}{gpus}; the figures are for each GPU")] if hosts or len(server.gpus) > 1 else []
    groups = [
        part
        for own in fitted.plan.slices
        for part in group_report(own.servers[0], planned_card(own.machine).usable_mib, memory.RESERVE_MIB)
    ]
    return Group(
        *split,
        memory_bar(server, 0, slice_),
        memory_table(server),
        *groups,
        left,
        *([table] if fitted.llm else []),
        *programs,
    )
