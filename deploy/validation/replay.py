"""Refusals of a replay whose prompts or limits cannot judge an engine or another LLM."""

from collections.abc import Iterator

from deploy.models.paths import has_pytorch
from deploy.refusals import Refusal, refuse
from deploy.spec import LLM, Replay
from deploy.validation.placed_llm import Placed


def replay_problems(placed: Placed) -> Iterator[Refusal]:
    """A refusal for each mistake in one LLM's replay; `deploy/io` checks that its files exist."""
    replay = placed.model.replay
    if replay is None:
        return
    if not replay.judged:
        yield from _none(placed, replay)
        return
    if not replay.prompts:
        yield placed.no(
            "no-prompts",
            "a replay without prompts cannot judge anything",
            "replay.prompts",
            seen="''",
            wanted='a file of JSON lines, {"prompt": …} each, on this machine',
            attempt='Replay(prompts="replay/prompts.jsonl"), or Replay.none(reason="…") to serve the model unjudged',
        )
    if placed.is_engine:
        yield from _reference(placed, replay)
    else:
        yield from _in_a_swap(placed, replay)
    yield from _limits(placed, replay)


def _in_a_swap(placed: Placed, replay: Replay) -> Iterator[Refusal]:
    """Refusals of stored answers, and of a second LLM that the same swap would compare."""
    if replay.answers:
        yield placed.no(
            "answers-without-engine",
            "its answers are compared with the previous LLM's, and stored answers are for engines only",
            "replay.answers",
            seen=f"answers={replay.answers!r} on path {placed.path}",
            wanted="no stored answers on this path",
            attempt="leave answers out",
        )
    llms = [model for model in placed.server.models if isinstance(model, LLM) and model.path != "engine"]
    judged = [model.name for model in llms if model.replay and model.replay.judged]
    if placed.model.name in judged[1:]:
        yield placed.no(
            "two-replays",
            f"a swap of server {placed.server.name} compares one LLM by its replay, and {judged[0]} has a replay too",
            "replay",
            seen=", ".join(judged),
            wanted='one replay on a server; an engine (path="engine") is judged when it is built and may have its own',
            attempt='Replay.none(reason="…"), or a server of its own',
        )


def _limits(placed: Placed, replay: Replay) -> Iterator[Refusal]:
    """Refusals of answers longer than a sequence, and of tasks without a minimum."""
    model = placed.model
    if not 1 <= replay.max_tokens < model.max_seq_len:
        yield placed.no(
            "out-of-range",
            f"answers of {replay.max_tokens} tokens in sequences of {model.max_seq_len}",
            "replay.max_tokens",
            seen=str(replay.max_tokens),
            wanted=f"1 to {model.max_seq_len - 1}, as the prompt has to fit beside it",
            attempt="max_tokens=64, the default",
        )
    if replay.judged and not replay.equal_percent and not replay.tasks:
        yield placed.no(
            "replay-judges-nothing",
            "the replay accepts every answer",
            "replay.equal_percent",
            seen="equal_percent=0 without tasks",
            wanted="a share of equal tokens, or tasks that judge the answers",
            attempt='equal_percent=90, or Replay(…, equal_percent=0, tasks="replay/tasks.jsonl", minimum_percent=80.0)',
        )
    if bool(replay.tasks) != bool(replay.minimum_percent):
        yield placed.no(
            "tasks-without-minimum",
            "tasks and minimum_percent need each other",
            "replay.minimum_percent" if replay.tasks else "replay.tasks",
            seen=f"tasks={replay.tasks!r}, minimum_percent={replay.minimum_percent}",
            wanted="both, or neither",
            attempt='Replay(…, tasks="replay/tasks.jsonl", minimum_percent=80.0)',
        )


def replay_missing(engine: str, where: str) -> Refusal:
    return refuse(
        "unjudged-engine",
        f"{engine}: its engine would be signed before its answers were compared",
        where=where,
        seen="replay=None",
        wanted="prompts to compare its answers by, or your reason to sign it without a comparison",
        attempt='Replay(prompts="replay/prompts.jsonl"), or Replay.none(reason="…"): plan and signature show it',
    )


def _none(placed: Placed, replay: Replay) -> Iterator[Refusal]:
    """Refusals of a `Replay.none` without a reason, or with settings of a replay."""
    if not replay.reason.strip():
        yield placed.no(
            "no-reason",
            "its engine is signed without a replay, and the reason is empty",
            "replay.reason",
            seen=repr(replay.reason),
            wanted="a reason that a colleague would accept: the plan and the engine's signature show it",
            attempt='Replay.none(reason="judged by our own evaluation before the release")',
        )
    if replay != Replay.none(reason=replay.reason):
        yield placed.no(
            "replay-and-none",
            "a replay with judged=False takes no prompts, answers, tasks or shares",
            "replay",
            seen="judged=False beside other fields",
            wanted="Replay(prompts=…), or Replay.none(reason=…)",
            attempt='Replay.none(reason="…")',
        )


def _reference(placed: Placed, replay: Replay) -> Iterator[Refusal]:
    """A refusal if no answers are stored and no PyTorch backend can make them with the published checkpoint."""
    finished = placed.model.engine.checkpoint == "trtllm"
    if replay.answers or not (finished or not has_pytorch(placed.served.architecture, placed.trtllm)):
        return
    why = "a finished TensorRT-LLM checkpoint" if finished else placed.served.architecture.name
    yield placed.no(
        "no-reference",
        f"no PyTorch backend of TensorRT-LLM {placed.trtllm} reads {why}, so no other LLM answers before the engine",
        "replay.answers",
        seen="''",
        wanted='stored answers: JSON lines, {"prompt": …, "tokens": […]} each',
        attempt='Replay(…, answers="replay/answers.jsonl")',
    )
