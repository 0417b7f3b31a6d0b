"""Sizes of engines and builds compared with hand calculations, and the files that a host keeps for them."""

from __future__ import annotations

from dataclasses import replace

from deploy.spec import Adapter, Draft, Eagle, Engine, LoRA, Machine, Parallel, ReDrafter, Server, one_per_gpu
from tests.unit import samples
from tests.unit.engines import AROUND, ELSEWHERE, FP8, PLAIN, SMALL, TRUST, engine, engine_plan


def test_an_fp8_engine_of_an_8b_model_takes_its_weights_and_a_little() -> None:
    """9,080,934,400 bytes are 8,661 MiB; 64 for the rank."""
    assert engine(FP8).size_mib == 8_661 + 64


def test_a_checkpoint_as_large_is_written_before_the_engine() -> None:
    """The same amount of scratch space is needed."""
    assert engine(FP8).scratch_mib == engine(FP8).size_mib


def test_a_finished_checkpoint_needs_no_scratch_space() -> None:
    assert engine(replace(FP8, calibration=None, engine=Engine(checkpoint="trtllm"))).scratch_mib == 0


def test_redrafter_writes_two_checkpoints() -> None:
    """The first is the model's, the second has the heads."""
    model = replace(PLAIN, speculative=ReDrafter(weights=ELSEWHERE), max_batch_size=8)
    assert engine(model).scratch_mib == 2 * engine(model).size_mib


def test_calibrating_an_8b_model_wants_it_in_16_bit_on_the_gpu() -> None:
    """15,317 MiB of weights and 6,144 for the measurement; building alone would need 17,088."""
    assert engine(FP8).gpu_mib == 15_317 + 6_144


def test_calibration_is_spread_over_the_gpus_of_an_engine() -> None:
    """7,659 MiB a GPU and 6,144: more than building one of two ranks needs."""
    assert engine(replace(FP8, parallel=Parallel(tensor=2)), gpus=2).gpu_mib == 7_659 + 6_144


def test_every_rank_has_a_worker_and_a_file() -> None:
    """Two ranks, two GPUs, and a server of two processes."""
    server = engine_plan(replace(FP8, parallel=Parallel(tensor=2)), gpus=2).slices[0].servers[0]
    made = server.models[0].engines[0]
    assert (made.world_size, made.devices, server.mpi_ranks) == (
        2,
        ("nvidia.com/gpu=0", "nvidia.com/gpu=1"),
        2,
    )


def test_the_disk_holds_engines_and_the_largest_scratch_space() -> None:
    """Image three times, weights, engine, checkpoint, headroom."""
    host = engine_plan(FP8).slices[0]
    assert host.disk_needed_mib == 3 * 13_543 + 15_317 + 8_725 + 8_725 + 8_192


def test_everything_a_model_speculates_with_or_adapts_reaches_the_host() -> None:
    """Each part has a separate directory."""
    lora = LoRA(adapters=(Adapter(name="sql", task_id=1, weights=ELSEWHERE),))
    draft = Draft(checkpoint=SMALL, weights=ELSEWHERE)
    model = replace(PLAIN, precision="float16", speculative=draft, lora=lora, max_batch_size=8)
    assert [files.model for files in engine_plan(model).slices[0].weights] == ["llama", "llama-draft", "llama-lora-sql"]


def test_heads_are_read_by_the_targets_build() -> None:
    """A draft's weights are read by its own build."""
    eagle = replace(PLAIN, speculative=Eagle(weights=ELSEWHERE), max_batch_size=8)
    assert [files.model for files in engine(eagle).weights] == ["llama", "llama-eagle"]


def test_a_draft_is_an_engine_of_its_own() -> None:
    """The draft is named after its target, has its own checkpoint, and has no draft itself."""
    model = replace(PLAIN, speculative=Draft(checkpoint=SMALL, weights=ELSEWHERE), max_batch_size=8)
    target, draft = engine_plan(model).slices[0].servers[0].models[0].engines
    assert (target.model, draft.model, draft.role) == ("llama", "llama-draft", "draft")
    assert "--speculative_decoding_mode" not in dict(draft.flags)


def test_two_servers_of_one_model_share_an_engine() -> None:
    """The engine is built once, although each server has its own GPU."""
    servers = one_per_gpu(Server(name="main", models=(FP8,)), 2)
    machine = Machine(os="ubuntu-24.04", gpu="h100-80", gpus=2)
    made = samples.plan(servers=servers, machine=machine, engine_trust=TRUST, around=AROUND).slices[0]
    assert len(made.engines) == 1
