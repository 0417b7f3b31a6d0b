"""Engines and LLMs in the plan for a person: the builds, their reasons and commands, and the number of users."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from deploy.slices.host import BuildStep, EngineSlice, ModelSlice, ServerSlice, Slice


def engines_report(slice_: Slice, changes: dict[str, str]) -> Iterator[RenderableType]:
    for engine in slice_.engines:
        yield Text(f"engine {engine.model}  {engine.fingerprint}", style="bold")
        yield _facts(engine, changes.get(engine.fingerprint, ""))
        for step in engine.steps:
            yield Text(command_in_lines(step))


def llm_table(server: ServerSlice) -> Table | None:
    """Precision, split, memory, tokens and full-length sequences of every LLM of a server; None without an LLM."""
    llms = [model for model in server.models if model.kind == "llm"]
    if not llms:
        return None
    table = Table(box=None, pad_edge=False)
    table.add_column("LLM", overflow="fold")
    for title in ("path", "weights as", "kv cache as"):
        table.add_column(title)
    for title in ("MiB on each GPU", "kv tokens", "at full context"):
        table.add_column(title, justify="right")
    for model in llms:
        table.add_row(*_llm(model))
    return table


def command_in_lines(step: BuildStep) -> str:
    """The command for pasting: the program first, then each flag with its values on its own line."""
    lines: list[list[str]] = [[]]
    for word in step.argv:
        if word.startswith("--"):
            lines.append([])
        lines[-1].append(word)
    first, *flags = (BuildStep(stage=step.stage, argv=tuple(line)).line for line in lines)
    return " \\\n".join([f"  {first}", *(f"      {flag}" for flag in flags)])


def _llm(model: ModelSlice) -> tuple[str, ...]:
    reuse = ", blocks reused" if model.kv_reuse else ""
    return (
        model.name,
        model.path,
        model.precision,
        f"{model.kv_dtype}{reuse}",
        f"{model.memory.total_mib:,}",
        f"{model.kv_cache_tokens:,}",
        f"{model.full_context_sequences:,} at once",
    )


def _facts(engine: EngineSlice, change: str) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    cache = f", {engine.kv_dtype} key/value cache"
    layout = f"tensor {engine.tensor} x pipeline {engine.pipeline}"
    experts = f", experts over {engine.expert}" if engine.expert else ""
    table.add_row("  why", change)
    table.add_row("  what", f"{engine.precision} weights{cache}; {layout}{experts}; SM {engine.sm}")
    table.add_row("  name", engine.name)
    wants = f"{engine.gpu_mib:,} MiB free on each GPU, {engine.scratch_mib:,} MiB of scratch space"
    table.add_row("  takes", f"{engine.size_mib:,} MiB on disk; its build wants {wants}, {engine.host_mib:,} of memory")
    table.add_row("  flags", engine.flags_row)
    if engine.replay:
        replay = engine.replay
        table.add_row("  trust", f"signed once {replay.equal_percent:g} % of the tokens for {replay.prompts} are equal")
    elif engine.unjudged:
        table.add_row("  trust", f"signed unjudged, by choice: {engine.unjudged}")
    return table
