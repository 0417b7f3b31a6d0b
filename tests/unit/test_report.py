"""The plan as a report for a person, and the report of a fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.console import Console, RenderableType

from deploy.inventory.fleet import Fleet
from deploy.io.inventory import load_inventory
from deploy.planning.fit import fit
from deploy.planning.plan import make_plan
from deploy.reports.plan import fit_report, memory_bar, memory_parts, plan_report, same_slices
from tests.unit.golden import same_as_golden
from tests.unit.samples import AROUND, MACHINE, main, plan, sources

INVENTORY = str(Path(__file__).parents[2] / "inventories" / "h100.py")


def printed(renderable: RenderableType) -> str:
    """The text on a plain terminal of 120 columns, without trailing spaces."""
    console = Console(width=120, highlight=False, no_color=True)
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def test_the_shipped_inventory_prints_this() -> None:
    """The report is the page that an operator reads before approval."""
    shipped = make_plan(Fleet.of(load_inventory(INVENTORY, {})), AROUND)
    same_as_golden("h100.plan.txt", printed(plan_report(shipped)))


def test_a_fit_beside_a_reranker_prints_this() -> None:
    """`enginehouse fit h100-80 gpt-oss-20b bge-reranker-large`."""
    fitting = fit("h100-80", ["gpt-oss-20b", "bge-reranker-large"], "26.07", AROUND)
    same_as_golden("fit.txt", printed(fit_report(fitting)))


def test_the_remaining_memory_is_counted_in_tokens_and_users() -> None:
    """79,031 - 592 - 2,880 - 18,909 = 56,650 MiB of 49,152 bytes: 1,208,512 tokens, 147 users of 8,192."""
    fitting = fit("h100-80", ["gpt-oss-20b", "bge-reranker-large"], "26.07", AROUND)
    assert (fitting.cache_tokens, fitting.users[8_192]) == (1_208_512, 147)


def test_longer_prompts_leave_less() -> None:
    """131,072 tokens in one iteration take 1.5 x 71,360 x 131,072 x 2 bytes = 26,760 MiB instead of 1,672: 5 users."""
    assert fit("h100-80", ["gpt-oss-20b", "bge-reranker-large"], "26.07", AROUND).users[131_072] == 5


def test_users_stop_at_the_models_own_context() -> None:
    """Qwen3-8B has 40,960 positions."""
    assert list(fit("h100-80", ["qwen3-8b"], "26.07", AROUND).users) == [2048, 8192, 32_768]


def test_encoders_alone_have_no_cache() -> None:
    assert fit("l40s-48", ["bge-reranker-large"], "26.07", AROUND).to_json()["cache_tokens"] == 0


def test_forty_equal_hosts_are_shown_once() -> None:
    """The hosts differ only in their names."""
    made = plan(*sources(*(f"h100-{number:02}" for number in range(1, 41))))
    assert [len(alike) for alike in same_slices(made.slices)] == [40]


def test_a_bar_is_as_long_as_the_card() -> None:
    """A bar has 64 characters, whatever its content."""
    host = plan().for_host("h100-01")
    bar = memory_bar(host.servers[0], 0, host).plain.splitlines()[0]
    assert sum(bar.count(mark) for mark in "█▓▒░·") == 64


def test_the_parts_of_a_memory_bar_add_up_to_usable_memory() -> None:
    """CUDA can use 81,079 MiB of the measured card."""
    host = plan().for_host("h100-01")
    assert sum(memory_parts(host.servers[0], 0, host).values()) == 81_079


def test_encoders_are_on_the_first_gpu_only() -> None:
    """GPU 1 has half of gpt-oss's weights and no other model."""
    host = plan(**(main(gpus=(0, 1)) | {"machine": replace(MACHINE, gpus=2)})).for_host("h100-01")
    assert [memory_parts(host.servers[0], gpu, host)["weights"] for gpu in (0, 1)] == [9_051, 7_076]
