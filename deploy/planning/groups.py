"""Each host's part in its group: its number, its ranks and their memory, and the flags that join it to the others."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from deploy.catalog.runtimes import SERVE, VLLM
from deploy.models.memory import MIB, kv_heads, mib
from deploy.models.resolve import Layout, Served, kv_dtype_of, layout_of, serve
from deploy.models.runtimes import known_only, row_of_image
from deploy.models.stages import layers_of_stages, stage_kv_bytes, stage_weights_mib
from deploy.planning.mpi import PYTHON, STORE, mpi_words
from deploy.refusals import Refusal, model_at, refuse, together
from deploy.slices.group import GroupSlice, MemberSlice, RankSlice, TrafficOfRanks
from deploy.slices.host import MemorySlice, ModelSlice, Slice
from deploy.slices.runtime import RuntimeSlice
from deploy.spec import LLM, Fabric, Host, Server
from deploy.spec.surroundings import Surroundings
from deploy.topology.balancing import LOOPBACK, address_of
from deploy.topology.groups import group_of, grouped

ALL_ADDRESSES = "0.0.0.0"
"""The address of a program inside a container of its own network; on the host's network it is loopback."""


def with_groups(slices: Sequence[Slice], hosts: Iterable[Host], surroundings: Surroundings) -> tuple[Slice, ...]:
    """The slices; hosts that serve a model together have their parts in it."""
    by_name = {host.name: host for host in hosts}
    return tuple(
        _host_with_group(slice_, by_name, surroundings) if group_of(by_name[slice_.host]) else slice_
        for slice_ in slices
    )


def not_exported(slices: Iterable[Slice]) -> list[Refusal]:
    return together(
        (
            slice_.host,
            refuse(
                "group-not-exported",
                f"{model.name}: an export has no word by which hosts start one model together",
                where=model_at(server.name, model.name, "parallel", "hosts"),
                seen=", ".join(member.host for member in runtime.group.members),
                wanted="a deploy over SSH, or a model that one host serves",
                attempt="pyinfra INVENTORY deploy.py; enginehouse plan INVENTORY shows ranks, memory and flags",
            ),
        )
        for slice_ in slices
        for server in slice_.servers
        for model in server.models
        if (runtime := model.runtime) and runtime.group
    )


def groups_in_part(slices: Iterable[Slice]) -> list[Refusal]:
    """A refusal for each group of which a run includes only some hosts."""
    known = list(slices)
    names = {slice_.host for slice_ in known}
    runtimes = (server.standalone_llm[1] for slice_ in known for server in slice_.servers if server.standalone_llm)
    groups = {tuple(member.host for member in runtime.group.members) for runtime in runtimes if runtime.group}
    return [
        refuse(
            "group-in-part",
            f"hosts that serve one model together are changed together: {', '.join(group)}",
            where="--limit",
            seen=", ".join(name for name in group if name in names),
            wanted="all of them, or none",
            attempt=" ".join(f"--limit {name}" for name in group),
        )
        for group in sorted(groups)
        if not names >= set(group)
    ]


@dataclass(frozen=True)
class _Membership:
    """A host's place in its group: the model and server that it declares, and every host of the fleet by name."""

    llm: LLM
    served: Served
    server: Server
    host: Host
    hosts: Mapping[str, Host]


def _host_with_group(slice_: Slice, hosts: Mapping[str, Host], surroundings: Surroundings) -> Slice:
    host = hosts[slice_.host]
    servers = []
    for planned, declared in zip(slice_.servers, host.servers, strict=True):
        if llm := grouped(declared):
            served = serve(llm, surroundings)
            assert served
            member = _Membership(llm, served, declared, host, hosts)
            models = (_model(model, member) if model.name == llm.name else model for model in planned.models)
            planned = replace(planned, models=tuple(models))
        servers.append(planned)
    return replace(slice_, servers=tuple(servers))


def _model(planned: ModelSlice, member: _Membership) -> ModelSlice:
    """The model with the memory of this host's fullest rank, and its program with the flags of this host's number."""
    assert planned.runtime
    group = _group(planned, member)
    fullest = max(group.ranks, key=lambda rank: rank.total_mib)
    memory = MemorySlice(
        weights_mib=fullest.weights_mib,
        context_mib=fullest.context_mib,
        workspace_mib=fullest.workspace_mib,
        kv_cache_mib=fullest.kv_cache_mib,
    )
    return replace(planned, memory=memory, runtime=_runtime(planned.runtime, member.llm, group))


def _group(planned: ModelSlice, member: _Membership) -> GroupSlice:
    llm, server, fabric = member.llm, member.server, member.host.machine.fabric
    assert fabric
    layout = layout_of(server, llm)
    addresses = {name: address_of(member.hosts[name]) for name in llm.parallel.hosts}
    number = llm.parallel.hosts.index(member.host.name)
    return GroupSlice(
        identity=_identity(planned, llm, tuple(addresses.values())),
        members=tuple(MemberSlice(host=name, address=address) for name, address in addresses.items()),
        number=number,
        tensor=layout.tensor,
        pipeline=layout.pipeline,
        expert=layout.expert,
        port=llm.parallel.port,
        fabric=fabric.kind,
        gbit=fabric.gbit,
        interface=fabric.interface,
        ranks=ranks_of(planned, member.served, llm, layout, number, server.gpus),
        sent=sent_between_hosts(member.served, llm, layout, len(server.gpus), fabric),
    )


def _identity(planned: ModelSlice, llm: LLM, addresses: tuple[str, ...]) -> str:
    """Sixteen hex digits over everything that all members share: hosts, image, start line, settings and files."""
    runtime, files = planned.runtime, planned.weights
    assert runtime
    image = runtime.image.pull_reference
    content = [llm.parallel.hosts, addresses, llm.parallel.port, runtime.name, runtime.version, image]
    content += [runtime.arguments, sorted(runtime.configuration.items()), files.model, files.revision]
    return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()[:16]


def ranks_of(
    planned: ModelSlice, served: Served, llm: LLM, layout: Layout, number: int, gpus: tuple[int, ...]
) -> tuple[RankSlice, ...]:
    """The ranks of the member with this number: tensor parallelism counts first, so a stage has neighbouring ranks."""
    shape, tensor = served.shape, layout.tensor
    stages = layers_of_stages(shape.layers, layout.pipeline, llm.runtime)
    whole = layout.expert or (math.gcd(tensor, shape.experts) if llm.runtime == SERVE and shape.experts else 1)
    ranks = []
    for place, gpu in enumerate(gpus):
        rank = number * len(gpus) + place
        first, last = stages[rank // tensor]
        per_token = stage_kv_bytes(shape, kv_dtype_of(served), tensor, first, last)
        ranks.append(
            RankSlice(
                rank=rank,
                gpu=gpu,
                stage=rank // tensor,
                layers=(first, last),
                heads=shape.heads // tensor,
                kv_heads=1 if shape.kv_lora_rank else -(-kv_heads(shape) // tensor),
                experts=shape.experts // whole,
                weights_mib=stage_weights_mib(served, tensor, first, last),
                context_mib=planned.memory.context_mib,
                workspace_mib=planned.memory.workspace_mib,
                kv_cache_mib=mib(planned.kv_cache_tokens * per_token),
            )
        )
    return tuple(ranks)


def sent_between_hosts(served: Served, llm: LLM, layout: Layout, gpus: int, fabric: Fabric) -> TrafficOfRanks:
    """Bytes over one host's link for the longest prompt of an iteration, and their time at the link's speed.

    Shape: tensor parallelism over n hosts: two all-reduces of tokens x hidden x 2 bytes in each layer, of which a ring
    sends 2 (n - 1) / n through each link; 0 within one host. Pipeline: the same tokens once, at each border between
    hosts. The network's latency, for which each exchange also waits, is not included. By hand: Llama-3.1-405B, 8,192
    tokens: 8,192 x 16,384 x 2 = 268,435,456 bytes, 256 MiB at a border: 6 ms at 400 Gbit/s. Tensor 16 over two hosts:
    252 x 256 MiB = 64,512 MiB: 1,353 ms at 400 Gbit/s, 21,647 at 25.
    """
    shape, tokens = served.shape, llm.max_num_tokens
    states = tokens * shape.hidden * 2
    across = -(-layout.tensor // gpus)
    layers = -(-shape.layers // layout.pipeline)
    tensor = 2 * layers * states * 2 * (across - 1) // across
    pipeline = states if layout.pipeline > 1 else 0
    milliseconds = -(-(tensor + pipeline) * 8 // (fabric.gbit * 1_000_000))
    return TrafficOfRanks(
        tokens=tokens, tensor_mib=tensor // MIB, pipeline_mib=pipeline // MIB, milliseconds=milliseconds
    )


def _runtime(runtime: RuntimeSlice, llm: LLM, group: GroupSlice) -> RuntimeSlice:
    """The program of this member; only the leader's program answers clients, on loopback.

    Ranks find each other at the leader's store, and then connect to ports that the system chooses, at the addresses of
    the group's network. Nothing of that traffic is authenticated, so the firewall keeps it among these hosts.
    """
    listens = tuple(LOOPBACK if word == ALL_ADDRESSES else word for word in runtime.arguments)
    if llm.runtime == SERVE:
        return replace(
            runtime,
            program=PYTHON,
            arguments=mpi_words(group, runtime.program, listens),
            environment=environment_of(group, llm.runtime),
            group=group,
        )
    row = row_of_image(llm)
    assert row
    joined = (
        *("--distributed-executor-backend", "mp", "--nnodes", str(len(group.members))),
        *("--node-rank", str(group.number), "--master-addr", group.leader.address),
        *("--master-port", str(group.port + STORE)),
        *(("--headless",) if group.number else ()),
    )
    return replace(
        runtime,
        arguments=known_only((*listens, *joined), row),
        environment=environment_of(group, llm.runtime),
        group=group,
    )


def environment_of(group: GroupSlice, runtime: str) -> tuple[tuple[str, str], ...]:
    """Variables that make NCCL and the program's other libraries use only the declared network."""
    own = {"NCCL_SOCKET_IFNAME": f"={group.interface}"}
    if runtime == VLLM:
        own |= {"VLLM_HOST_IP": group.members[group.number].address, "GLOO_SOCKET_IFNAME": group.interface}
    if group.fabric == "ethernet":
        own["NCCL_IB_DISABLE"] = "1"
    return tuple(sorted(own.items()))
