"""A host's part in a group, as a report: its ranks with their memory, and the network between the hosts."""

from collections.abc import Iterator
from itertools import groupby

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from deploy.slices.group import GroupSlice, RankSlice
from deploy.slices.host import ServerSlice

FABRICS = {"infiniband": "InfiniBand", "roce": "RoCE", "ethernet": "plain Ethernet"}


def group_report(server: ServerSlice, usable_mib: int, reserve_mib: int) -> Iterator[RenderableType]:
    """The group of a server's LLM; empty for a host in no group."""
    group = server.standalone_llm[1].group if server.standalone_llm else None
    if group is None:
        return
    others = ", ".join(member.host for member in group.others)
    part = "leads and answers" if group.number == 0 else f"follows {group.leader.host}"
    yield Text.assemble(
        ("group ", "bold"), f"host {group.number + 1} of {len(group.members)}, {part}; together with {others}"
    )
    yield Text(f"      {_network(group)}")
    yield _ranks(group, usable_mib - reserve_mib - server.overhead_mib)


def _network(group: GroupSlice) -> str:
    sent = group.sent
    parts = [f"{sent.tensor_mib:,} MiB of tensor parallelism"] if sent.tensor_mib else []
    parts += [f"{sent.pipeline_mib:,} MiB between stages"] if sent.pipeline_mib else []
    return (
        f"{FABRICS[group.fabric]}, {group.gbit} Gbit/s ({group.interface}): a prompt of {sent.tokens:,} tokens sends "
        f"{' and '.join(parts) or 'less than 1 MiB'} over a host's link, {sent.milliseconds:,} ms at full speed"
    )


def _ranks(group: GroupSlice, plannable_mib: int) -> Table:
    """The ranks; ranks with the same layers and memory share a row."""
    table = Table(box=None, pad_edge=False)
    table.add_column("ranks")
    for title in ("GPUs", "layers", "heads", "kv heads", "experts", "weights", "kv cache", "sum", "free"):
        table.add_column(title, justify="right")
    for _stage, members in groupby(group.ranks, key=lambda rank: rank.stage):
        ranks = list(members)
        rank = ranks[0]
        table.add_row(
            _row(ranks[0].rank, ranks[-1].rank),
            _row(ranks[0].gpu, ranks[-1].gpu),
            f"{rank.layers[0]}-{rank.layers[1]}",
            *(str(rank.heads), str(rank.kv_heads), _experts(rank, group)),
            *(f"{size:,}" for size in (rank.weights_mib, rank.kv_cache_mib, rank.total_mib)),
            f"{plannable_mib - rank.total_mib:,}",
        )
    return table


def _row(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _experts(rank: RankSlice, group: GroupSlice) -> str:
    if not rank.experts:
        return ""
    return f"{rank.experts} whole" if group.expert > 1 else f"{rank.experts}, cut by {group.tensor}"
