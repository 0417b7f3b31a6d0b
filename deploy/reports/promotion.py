"""A promotion as a report: the current and the next program, their comparison, and the commands."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from deploy.inventory.promotion import Promotion
from deploy.planning.plan import Plan
from deploy.slices.host import ModelSlice, ServerSlice, Slice
from deploy.slices.image import ImageSlice

MOVES = (
    "a gateway learns after the last wave that the model has moved from or to Triton; until then requests for it fail "
    "on hosts that have moved"
)


def promotion_report(now: Plan, then: Plan, promotion: Promotion, inventory: str) -> Group:
    """The table of each server that changes, the limits of its replay, the waves, and the commands."""
    parts = [part for slice_ in then.slices for part in _host(now.for_host(slice_.host), slice_, promotion.model)]
    waves = [f"wave {number}  {', '.join(wave)}" for number, wave in enumerate(then.waves, start=1)]
    return Group(
        *parts,
        Text("\n".join(waves)),
        *([Text(f"note  {MOVES}", style="yellow")] if moves_containers(now, then, promotion.model) else []),
        *(Text(f"note  {sentence}", style="yellow") for sentence in then.warnings if sentence not in now.warnings),
        Text(f"digest  {then.digest}", style="bold"),
        Text("\n".join(f"{use:<8}{line}" for use, line in steps(then, promotion, inventory))),
    )


def steps(then: Plan, promotion: Promotion, inventory: str) -> Iterator[tuple[str, str]]:
    """Commands in order: the promotion, the lines that make it permanent, and the way back."""
    yield "whole", f"enginehouse plan {inventory} --data promote={promotion.word}"
    yield "type", f"pyinfra {inventory} deploy.py --data promote={promotion.word} --data expect={then.digest}"
    yield "after", f"write {_words(then, promotion)} into {inventory}; until then its plan is the earlier program"
    yield "back", f"pyinfra {inventory} rollback.py"


def moves_containers(now: Plan, then: Plan, name: str) -> bool:
    return {bool(model.runtime) for plan in (now, then) for _, model in _served(plan, name)} == {True, False}


def _words(then: Plan, promotion: Promotion) -> str:
    """The fields of the LLM in the inventory after the promotion."""
    image = next(
        (model.runtime.image.pull_reference for _, model in _served(then, promotion.model) if model.runtime), ""
    )
    return f'runtime="{promotion.runtime}", image="{image}"' if image else f'runtime="{promotion.runtime}"'


def _served(plan: Plan, name: str) -> Iterator[tuple[ServerSlice, ModelSlice]]:
    for slice_ in plan.slices:
        for server in slice_.servers:
            for model in server.models:
                if model.name == name:
                    yield server, model


def _host(now: Slice, then: Slice, name: str) -> Iterator[RenderableType]:
    for before, server in zip(now.servers, then.servers, strict=True):
        models = [next((model for model in each_server.models if model.name == name), None)
                  for each_server in (before, server)]  # fmt: skip
        if models[0] and models[1]:
            yield Text(f"{then.host}  server {server.name}", style="bold")
            yield _table(models[0], models[1], before, server)
            yield Text(f"judged  {judged(models[1])}")


def judged(model: ModelSlice) -> str:
    """The comparison that decides whether the next program stays."""
    if model.replay is None:
        how = "as an engine, when it is built" if model.engines else "not judged: the inventory says Replay.none"
        return f"{how}; the swap proves that it answers"
    limits = model.replay
    shares = [f"{limits.equal_percent:g} % of the words or tokens for {limits.prompts}"]
    shares += [f"{limits.minimum_percent:g} % of {limits.tasks}"] if limits.tasks else []
    return f"{' and '.join(shares)}, before clients reach it; below, the earlier program is put back"


def _table(now: ModelSlice, then: ModelSlice, before: ServerSlice, server: ServerSlice) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in (now.name, "now", "then"):
        table.add_column(title, overflow="fold")
    table.add_row("program", _program(now, before), _program(then, server))
    table.add_row("image", _image(now, before).pull_reference, _image(then, server).pull_reference)
    pulled = f"{_image(then, server).size_mib:,} MiB, before anything stops"
    table.add_row("to pull", "", "the host has it" if _image(then, server) == before.image else pulled)
    table.add_row("weights", f"{now.precision}", f"{then.precision}, {then.weights.size_mib:,} MiB on disk")
    table.add_row("memory", f"{now.memory.total_mib:,} MiB a GPU", f"{then.memory.total_mib:,} MiB a GPU")
    table.add_row("cache", f"{now.kv_cache_tokens:,} tokens", f"{then.kv_cache_tokens:,} tokens")
    return table


def _program(model: ModelSlice, server: ServerSlice) -> str:
    if model.runtime:
        return f"{model.runtime.name} {model.runtime.version}"
    return f"triton {server.image.triton_core}, path {model.path}"


def _image(model: ModelSlice, server: ServerSlice) -> ImageSlice:
    return model.runtime.image if model.runtime else server.image
