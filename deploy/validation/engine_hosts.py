"""Engines of a host: their signers, their store, and one engine for each name."""

import re
from collections.abc import Iterator

from deploy.models.budget import host_mib, is_compiled
from deploy.models.resolve import image_of, layout_of, release_row, serve
from deploy.refusals import Refusal, model_at, refuse
from deploy.spec import LLM, EngineStore, EngineTrust, Host, Server
from deploy.spec.surroundings import Surroundings
from deploy.validation.replay import replay_missing

SIGNER = re.compile(r"(ssh-ed25519|ecdsa-sha2-\S+|sk-ssh-ed25519@openssh\.com|ssh-rsa) [A-Za-z0-9+/=]{20,}( \S.*)?")
PLACES = {
    "directory": (re.compile(r"[\w./~][\w./~+@=,?-]*"), 'EngineStore.directory("/mnt/engines")'),
    "rsync": (re.compile(r"(\w[\w.-]*@)?\w[\w.-]*:[\w./~+@=,-]+"), 'EngineStore.rsync("store.example:/srv/engines")'),
    "rclone": (re.compile(r"\w[\w.-]*:[\w./~+@=,-]*"), 'EngineStore.rclone("engines:bucket/path")'),
}
BUILT_IN = (
    *("checkpoint", "weights", "precision", "calibration", "speculative", "engine"),
    *("max_batch_size", "max_seq_len", "max_num_tokens"),
)
HOST_KEPT_MIB = 16_384
"""Host memory that remains for others: the OS, tritonserver, Python stubs, and pages of weights while they load."""


def engine_host_problems(host: Host, surroundings: Surroundings) -> Iterator[Refusal]:
    """A refusal for each mistake in one host's engines that appears only across its models."""
    compiled = list(_compiled(host, surroundings))
    if host.farm and host.servers:
        yield _serving_farm(host)
    if (compiled or host.farm) and host.engine_trust is None:
        yield _untrusted(compiled)
    if host.engine_trust:
        yield from _trust(host.engine_trust)
    if host.engine_store:
        yield from _store(host.engine_store)
    yield from _one_name(compiled)
    yield from _unjudged(compiled, surroundings)
    yield from _host_memory(host, surroundings)


def _compiled(host: Host, surroundings: Surroundings) -> Iterator[tuple[Server, LLM]]:
    row = release_row(host.release)
    trtllm = image_of(host, row).trtllm if row else ""
    for server, model in host.served_models:
        served = serve(model, surroundings)
        if served and isinstance(model, LLM) and is_compiled(served, trtllm):
            yield server, model


def _serving_farm(host: Host) -> Refusal:
    return refuse(
        "serving-farm",
        "a farm host builds engines and cannot serve: a build needs the memory that a server holds",
        where="farm",
        seen=f"farm=True, servers {', '.join(server.name for server in host.servers)}",
        wanted="farm=True without servers, or servers without farm",
        attempt="servers=(): it builds what the other hosts of the inventory serve",
    )


def _untrusted(compiled: list[tuple[Server, LLM]]) -> Refusal:
    names = ", ".join(sorted({model.name for _, model in compiled})) or "every engine that the farm host builds"
    return refuse(
        "untrusted-engine",
        f"the inventory names no key that signs engines, and hosts load signed engines only; it is needed for {names}",
        where="engine_trust",
        seen="None",
        wanted="a key on the control machine, which signs an engine after its answers were accepted (ssh-keygen -t "
        "ed25519 -f keys/engines)",
        attempt='"engine_trust": EngineTrust(key="keys/engines")',
    )


def _trust(trust: EngineTrust) -> Iterator[Refusal]:
    if not trust.key:
        yield refuse(
            "no-signing-key",
            "engine_trust names no key to sign engines with",
            where="engine_trust.key",
            seen="''",
            wanted="a private key file, or the public half of a key in the ssh agent",
            attempt='EngineTrust(key="keys/engines")',
        )
    for number, signer in enumerate(trust.signers):
        if not SIGNER.fullmatch(signer):
            yield refuse(
                "no-public-key",
                "a further signer is not a public key",
                where=f"engine_trust.signers[{number}]",
                seen=f"{signer[:24]!r}…" if len(signer) > 24 else repr(signer),
                wanted="a line as ssh-keygen writes it into NAME.pub",
                attempt=f"cat {signer} prints it: signers=(THAT LINE,)"
                if re.fullmatch(r"[~\w./-]{1,120}\.pub", signer)
                else 'signers=("ssh-ed25519 AAAA… build farm",)',
            )


def _store(store: EngineStore) -> Iterator[Refusal]:
    pattern, example = PLACES[store.kind]
    if "://" in store.place or not pattern.fullmatch(store.place):
        yield refuse(
            "no-engine-store",
            f"{store.place!r} is not a place that {store.kind} can reach",
            where="engine_store",
            seen=f"EngineStore.{store.kind}({store.place!r})",
            wanted="a directory, host:path, or remote:bucket/path; credentials stay in ssh's and rclone's own files",
            attempt=_place_meant(store.place) or example,
        )


def _place_meant(place: str) -> str:
    """The store of a URL: rclone's remote for a bucket, rsync over SSH for a host; empty for anything else."""
    match = re.fullmatch(r"(s3|gs|az|rsync|ssh|sftp|file)://([\w.@-]*)/*([\w./~+=,-]*)", place)
    if not match:
        return ""
    scheme, host, path = match.groups()
    if scheme == "file":
        return f'EngineStore.directory("/{path}")'
    if scheme in ("s3", "gs", "az"):
        return f'EngineStore.rclone("{scheme}:{host}/{path}"), {scheme} being a remote of `rclone config`'
    return f'EngineStore.rsync("{host}:/{path}")' if host else ""


def _unjudged(compiled: list[tuple[Server, LLM]], surroundings: Surroundings) -> Iterator[Refusal]:
    """A refusal for each model without a replay, unless an engine of its name was signed before replays were required.

    The finished plan shows whether that engine is the planned one (`deploy.planning.plan.missing_replays`).
    """
    signed = {record.model for record in surroundings.engines}
    for server, model in compiled:
        if model.replay is None and model.name not in signed:
            yield replay_missing(model.name, model_at(server.name, model.name, "replay"))


def _one_name(compiled: list[tuple[Server, LLM]]) -> Iterator[Refusal]:
    """A refusal for each name that two different engines of one host share: a build is identified by its name."""
    first: dict[str, tuple[Server, LLM]] = {}
    for server, model in compiled:
        first_server, same = first.setdefault(model.name, (server, model))
        if _built_from(server, model) != _built_from(first_server, same):
            before, after = _built_from(first_server, same), _built_from(server, model)
            differing = [name for name in after if before[name] != after[name]]
            yield refuse(
                "two-engines-one-name",
                f"two servers of one host have different engines with the name {model.name}",
                where=model_at(server.name, model.name),
                seen=f"{', '.join(differing)} differ from server {first_server.name}'s",
                wanted="one name for one engine",
                attempt=f'name="{model.name}-{model.max_seq_len // 1024}k", or the same fields in both',
            )


def _built_from(server: Server, model: LLM) -> dict[str, object]:
    """The fields whose change needs another engine; fields that only the running server reads are left out."""
    built: dict[str, object] = {name: getattr(model, name) for name in BUILT_IN}
    built["kv_cache.dtype"], built["split"] = model.kv_cache.dtype, layout_of(server, model)
    built["lora"] = (model.lora.max_rank, model.lora.target_modules) if model.lora else None
    return built


def _host_memory(host: Host, surroundings: Surroundings) -> Iterator[Refusal]:
    if not host.machine.memory_mib:
        return
    pinned = {}
    for server in host.servers:
        served = [
            served_model for served_model in (serve(model, surroundings) for model in server.models) if served_model
        ]
        pinned[server.name] = host_mib(server, served)
    total, room = sum(pinned.values()), host.machine.memory_mib - HOST_KEPT_MIB
    if total and total > room:
        sizes = " · ".join(f"{name} {size:,}" for name, size in pinned.items() if size)
        yield refuse(
            "host-memory",
            f"key/value blocks and adapters pin {total:,} MiB of a host with {host.machine.memory_mib:,}",
            where="machine.memory_mib",
            seen=f"{sizes}: host_mib of each model, once for every rank",
            wanted=f"at most {max(room, 0):,}: {host.machine.memory_mib:,} less {HOST_KEPT_MIB:,} for everything else",
            attempt="a smaller KVCache(host_mib=…) or LoRA(host_mib=…)",
        )
