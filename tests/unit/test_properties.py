"""Properties of every plan, on generated inventories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.catalog import CHECKPOINTS, GPUS
from deploy.models import memory
from deploy.planning.plan import Plan
from deploy.refusals.errors import Refusal
from deploy.reports.plan import gpus_of
from deploy.slices.host import ServerSlice
from deploy.spec import (
    Adapter,
    Calibration,
    Draft,
    Eagle,
    EngineTrust,
    KVCache,
    Lookahead,
    LoRA,
    Medusa,
    Parallel,
    Rollout,
    Weights,
)
from deploy.topology.waves import pools_of, waves
from tests.unit.samples import EMBEDDER, GPT_OSS, LLAMA, MACHINE, MAIN, ONE_B, RERANKER, main, pinned, plan, sources

CACHES = st.builds(KVCache, tokens=st.none() | st.integers(8192, 600_000))
LLMS = st.builds(
    lambda base, cache, rows: replace(base, kv_cache=cache, max_batch_size=rows),
    st.sampled_from([GPT_OSS, LLAMA, replace(GPT_OSS, checkpoint="gpt-oss-120b")]),
    CACHES,
    st.integers(1, 256),
)
ENCODERS = st.lists(st.sampled_from([RERANKER, EMBEDDER, replace(RERANKER, device="cpu")]), unique_by=lambda m: m.name)
CARDS = st.sampled_from(["h100-80", "h100-nvl-94", "h200-141", "b200-180"])
WAYS = st.sampled_from([1, 2, 4])
NAMES = st.lists(st.from_regex(r"[a-z]{1,8}", fullmatch=True), min_size=1, max_size=60, unique=True)


def planned(data: dict[str, Any]) -> Plan | None:
    """The plan, or None if these models do not fit this card."""
    try:
        return plan(**data)
    except Refusal:
        return None


@st.composite
def inventories(draw: st.DrawFn) -> dict[str, Any]:
    """Data of one host: a card, some of its GPUs, encoders and an LLM."""
    gpus = draw(WAYS)
    data = main(*draw(ENCODERS), draw(LLMS), gpus=tuple(range(gpus)))
    return data | {"machine": replace(MACHINE, gpu=draw(CARDS), gpus=gpus)}


TEXTS = Calibration(directory="texts")
HEAD = Weights.hub("someone/a-head", "0123456789abcdef0123456789abcdef01234567")
DRAFTS = (None, Eagle(weights=HEAD, tokens=3), Draft(checkpoint=ONE_B, weights=HEAD))
ON_ENGINES = (*DRAFTS, Medusa(weights=HEAD), Lookahead())
ADAPTERS = LoRA(adapters=(Adapter(name="a", task_id=1, weights=HEAD),), gpu_mib=2048)


@st.composite
def split_inventories(draw: st.DrawFn) -> dict[str, Any]:
    """Data of one host with a Llama split over its GPUs: stages, drafts, adapters, fp8, an engine, encoders beside."""
    gpus, compiled = draw(WAYS), draw(st.booleans())
    fp8 = draw(st.booleans())
    name = draw(st.sampled_from(["llama-3.1-8b-instruct", "llama-3.1-70b-instruct"]))
    changes: dict[str, Any] = {"checkpoint": name, "weights": pinned(name), "max_num_tokens": 16_384}
    changes["max_batch_size"] = draw(st.integers(1, 128))
    changes["parallel"] = Parallel(pipeline=draw(st.sampled_from([1, gpus])))
    changes["speculative"] = draw(st.sampled_from(ON_ENGINES if compiled else DRAFTS))
    changes["kv_cache"] = KVCache(dtype="fp8" if fp8 else "auto", tokens=draw(st.none() | st.integers(8192, 600_000)))
    if compiled:
        changes |= {"path": "engine", "lora": draw(st.sampled_from([None, ADAPTERS]))}
        changes |= {"precision": "fp8", "calibration": TEXTS} if fp8 else {"precision": "float16"}
    beside = [] if compiled and gpus > 1 else draw(ENCODERS)
    data = main(*beside, replace(LLAMA, **changes), gpus=tuple(range(gpus)))
    trust = {"engine_trust": EngineTrust(key="keys/engines")}
    return data | trust | {"machine": replace(MACHINE, gpu=draw(CARDS), gpus=gpus)}


def taken_mib(server: ServerSlice, gpu: int) -> int:
    """MiB of one GPU, summed again from the slices."""
    return server.overhead_mib + sum(m.memory.total_mib for m in server.models if gpu in gpus_of(m, server))


@given(inventories() | split_inventories())
@settings(max_examples=200, deadline=None)
def test_a_plan_that_fits_fits_on_every_gpu(data: dict[str, Any]) -> None:
    """The reserve stays free."""
    made = planned(data)
    for server in made.slices[0].servers if made else ():
        usable_mib = GPUS[data["machine"].gpu].usable_mib - memory.RESERVE_MIB
        assert all(taken_mib(server, gpu) <= usable_mib for gpu in server.gpus)


@given(inventories())
@settings(max_examples=150, deadline=None)
def test_the_cache_never_holds_more_than_was_planned(data: dict[str, Any]) -> None:
    """Tokens x bytes of a token, at most the MiB of the slice; and at least one sequence."""
    made = planned(data)
    for model in made.slices[0].servers[0].models if made else ():
        if model.kind == "llm":
            llm = data["servers"][0].models[-1]
            size = memory.kv_bytes_per_token(CHECKPOINTS[llm.checkpoint].shape, "auto", len(data["servers"][0].gpus))
            assert llm.max_seq_len <= model.kv_cache_tokens <= model.memory.kv_cache_mib * 2**20 // size


@given(split_inventories())
@settings(max_examples=60, deadline=None)
def test_every_gpu_holds_its_part_of_the_weights(data: dict[str, Any]) -> None:
    """The parts of all GPUs together are never less than the whole."""
    made, model = planned(data), data["servers"][0].models[-1]
    for slice_ in made.slices[0].servers[0].models if made else ():
        if slice_.kind == "llm":
            whole = memory.weights_bytes(CHECKPOINTS[model.checkpoint].shape, slice_.precision)
            assert slice_.memory.weights_mib * 2**20 * len(data["servers"][0].gpus) >= whole


@given(NAMES, st.integers(0, 5), st.integers(1, 100))
def test_every_host_is_in_exactly_one_wave(names: list[str], canary: int, percent: int) -> None:
    """No host is forgotten, and none is swapped twice."""
    rollout = Rollout(canary_hosts=canary, wave_percent=percent)
    pools = pools_of(((name, "") for name in names), rollout)
    swapped = [name for wave in waves(pools, rollout) for name in wave]
    assert sorted(swapped) == sorted(names)


@given(NAMES.flatmap(lambda names: st.tuples(st.just(names), st.permutations(names))))
@settings(max_examples=20, deadline=None)
def test_the_order_of_the_inventory_does_not_matter(both: tuple[list[str], list[str]]) -> None:
    """Digest, waves and slices are compared."""
    assert plan(*sources(*both[0])) == plan(*sources(*both[1]))


@given(inventories(), inventories())
@settings(max_examples=60, deadline=None)
def test_the_digest_changes_exactly_when_a_slice_does(left: dict[str, Any], right: dict[str, Any]) -> None:
    """Equal slices have equal digests, and different slices different digests."""
    first, second = planned(left), planned(right)
    if first and second:
        assert (first.digest == second.digest) == (first.slices == second.slices)


@given(st.sampled_from([("http_port", 9000), ("stop_seconds", 91), ("shm_mib", 4096), ("log_verbose", 1)]))
def test_every_setting_of_a_server_is_in_the_digest(change: tuple[str, Any]) -> None:
    """Every change on a host changes the digest."""
    changed = plan(servers=(replace(MAIN, **dict([change])),))
    assert changed.digest != plan().digest
