"""Notes of the plan about choices that are no mistakes: tool calls, 8-bit products, unused cards and settings."""

import re
from collections.abc import Iterable, Iterator
from typing import get_args, get_type_hints

from deploy.catalog import CHECKPOINTS
from deploy.models.cards import declared_card
from deploy.models.resolve import image_of, release_row, shape_of
from deploy.spec import LLM, Embedder, Gateway, Host, Model, Parallel, Registry, Release, Reranker
from deploy.topology.balancing import is_loopback

GAIN = "17,672 instead of 14,813 docs/s (128 tokens, 32 texts a request, 16 clients)"
COSTS = (
    "7,841 instead of 9,135 docs/s on one host and 9,462 instead of 9,576 on another (192 tokens, 64 texts a request, "
    "12 clients)",
    "6,313 instead of 6,981 and 6,835 instead of 6,458 (log-normal lengths of 200 tokens in the mean, 8 texts a "
    "request, 24 clients)",
)
MEASURED = "nomic-embed-text-v2-moe through Triton 2.51, H100 80GB HBM3 hosts of 16 cores, 2026-11-22"
"""Model, machine and date of the figures. Each pair was read in one call. On the first host all five such loads were
slower with 8-bit products; the second host's figures are medians of five runs: python -m benchmarks.encoders --cases
embed-192 embed-mixed --fp8."""


def fp8_gains_and_costs(model: Model) -> Iterator[str]:
    """The note on an embedder with `products="fp8"`: faster if the GPU is the limit, often slower if the host is.

    None for a reranker: bge-reranker-large has 24 layers and no experts, and was faster in every load measured.
    """
    if isinstance(model, Embedder) and model.products == "fp8":
        yield (
            f'{model.name}: products="fp8" is faster where the GPU is the limit: {GAIN}. '
            f"Where the host's CPU is the limit it gains little and may cost: {'; '.join(COSTS)}. Measured with "
            f"{MEASURED}. Measure your own load both ways, or leave products out"
        )


def yes_or_no_notices(model: Model) -> Iterator[str]:
    """The note on a reranker whose decoder may have been trained for other words than Qwen3-Reranker was."""
    shape, source = shape_of(model), model.weights.repository or model.weights.directory
    is_decoder = isinstance(model, Reranker) and shape is not None and shape.architecture == "Qwen3ForCausalLM"
    if is_decoder and "qwen3-reranker" not in source.lower():
        yield (
            f"{model.name}: its scores compare the words yes and no behind Qwen3-Reranker's prompt; compare some with "
            "the model's card, because a decoder that was trained for other words scores nothing that way"
        )


def tool_notices(host: Host) -> Iterator[str]:
    """A sentence for each LLM behind a gateway whose format of tool calls is unknown to inventory and catalog."""
    *names, last = [name for name in get_args(get_type_hints(LLM)["tool_parser"]) if name not in ("auto", "none")]
    for model in host.llms if host.gateway else ():
        row = CHECKPOINTS.get(model.checkpoint) if isinstance(model.checkpoint, str) else None
        is_known = row is not None
        for field in ("tool_parser", "reasoning_parser") if row else ():
            typed, own = getattr(model, field), getattr(row, field)
            if typed not in ("auto", "none", own):
                yield f'{model.name}: {field}="{typed}", and by the catalog this model writes {own or "nothing such"}'
        if model.tool_parser == "auto" and not is_known:
            yield (
                f"{model.name}: the gateway refuses chats with tools, because the catalog has no row that says how "
                f"this model writes calls; tool_parser= takes {', '.join(names)} or {last}, and none without this note"
            )


def idle_gpus(host: Host) -> str:
    """A sentence about GPUs of a serving host that no server uses; empty if all are used."""
    if not host.servers or host.farm:
        return ""
    used = {index for server in host.servers for index in server.gpus}
    idle = [index for index in range(host.machine.gpus) if index not in used]
    if not used or not idle:
        return ""
    which = f"GPU {idle[0]}" if len(idle) == 1 else f"GPUs {', '.join(map(str, idle))}"
    return f"no server uses {which} of the machine's {host.machine.gpus}: one_per_gpu(Server(…), {host.machine.gpus})"


def mixed_pools(hosts: Iterable[Host]) -> Iterator[str]:
    """A sentence for each pool with several kinds of cards."""
    cards: dict[str, dict[str, int]] = {}
    titles: dict[str, str] = {}
    for host in hosts:
        if host.pool and (card := declared_card(host.machine)):
            of_pool, titles[card.name] = cards.setdefault(host.pool, {}), card.title
            of_pool[card.name] = of_pool.get(card.name, 0) + 1
    for pool, kinds in sorted(cards.items()):
        if len(kinds) > 1:
            counted = ", ".join(f"{count} with {titles[name]}" for name, count in sorted(kinds.items()))
            yield (
                f"pool {pool} has hosts of several cards ({counted}): the same request takes longer on the slower ones"
            )


def unread_settings(host: Host) -> Iterator[str]:
    """A sentence for each declared setting that has no effect beside the host's other settings."""
    gateway, mirrors, servers = host.gateway, host.mirrors, host.servers
    llms = list(host.llms)
    row = release_row(host.release)
    is_pinned = bool(row and image_of(host, row).digest)
    is_own = isinstance(host.release, Release) and bool(host.release.image)
    is_foreign = host.driver.source == "canonical" or not host.driver.manage
    rows = [
        (
            f"parallel.port of {llm.name}",
            not llm.parallel.hosts and llm.parallel.port != Parallel.port,
            "it is served by one host",
        )
        for llm in llms
    ]
    rows += [
        (
            f"protection of server {server.name}",
            bool(server.protection) and is_loopback(server.address),
            "it listens on loopback",
        )
        for server in servers
    ]
    rows += [
        ("mirrors.docker", bool(mirrors.docker) and host.docker.source == "distribution", "the OS has Docker"),
        ("mirrors.nvidia", bool(mirrors.nvidia) and is_foreign, "the driver does not come from NVIDIA's repository"),
        ("bundle", host.connected and host.bundle != Host.bundle, "this host is connected, and fetches for itself"),
        ("sharing.images_port", bool(host.sharing and host.sharing.images_port) and not is_pinned,
         "the image is not pinned by its digest"),
        ("registry", host.registry.key is not None and not is_own and host.registry.username != Registry.username,
         "the release's image is in nvcr.io, which knows only the user $oauthtoken"),
        ("machine.fabric", bool(host.machine.fabric) and not any(llm.parallel.hosts for llm in llms),
         "no model has Parallel(hosts=…)"),
    ]  # fmt: skip
    if gateway:
        limits, is_in_triton = gateway.limits, any(server.in_triton for server in servers)
        rows += [
            (f"gateway.hold_seconds beyond {limits.request_seconds}",
             gateway.hold_seconds > limits.request_seconds,
             "a request ends after limits.request_seconds"),
            (f"gateway.limits.held beyond {limits.connections:,}", limits.held > limits.connections,
             "a process has no more connections"),
            ("gateway.trace_one_in", bool(gateway.trace_one_in) and bool(servers) and not is_in_triton,
             "no model of this host is in Triton"),
        ]  # fmt: skip
        yield from _two_addresses(gateway)
    yield from (f"{setting} has no effect: {reason}" for setting, is_unread, reason in rows if is_unread)


def _two_addresses(gateway: Gateway) -> Iterator[str]:
    """A sentence if the URL that clients type differs from the URL of HTTPS on this host."""
    https, url = gateway.https, re.fullmatch(r"https://([^/:]+)(?::([0-9]+))?/?", gateway.url.lower())
    if not https or not url:
        return
    if int(url[2] or 443) != https.port:
        yield f"gateway.url says port {url[2] or 443}, and HTTPS is at {https.port}: something else has to forward"
    if https.acme and url[1] not in map(str.lower, https.acme.names):
        yield f"gateway.url says {url[1]}, and the certificate is for {', '.join(https.acme.names)}"
