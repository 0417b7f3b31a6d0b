"""A promotion: the inventory's hosts with one LLM served by another program, as `--data promote=` requests.

The plan of a promotion equals the plan of the inventory after the same change is written into it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

from deploy.catalog.names import nearest
from deploy.catalog.runtimes import SERVE, TRITON, VLLM, rows_of
from deploy.models.runtimes import row_of_image
from deploy.refusals import Refusal, model_at, refuse
from deploy.spec import LLM, Host

Runtime = Literal["triton", "trtllm-serve", "vllm"]
RUNTIMES = (TRITON, SERVE, VLLM)
WORD = re.compile(r"(?P<model>[^:]+):(?P<runtime>[^:]+)(?::(?P<image>.+))?")


@dataclass(frozen=True)
class Promotion:
    """An LLM by its served name, its new program, and that program's image; "" for the catalog's image."""

    model: str
    runtime: Runtime
    image: str = ""

    @classmethod
    def to(cls, model: str, runtime: str, image: str = "") -> Promotion:
        return cls(model, cast(Runtime, runtime), image)

    @property
    def word(self) -> str:
        return ":".join(part for part in (self.model, self.runtime, self.image) if part)

    def of(self, model: LLM) -> LLM:
        """The model, served by the promotion's program."""
        if self.runtime == TRITON:
            return replace(model, runtime=TRITON, image="", port=LLM.port)
        return replace(model, runtime=self.runtime, image=self.image or rows_of(self.runtime)[0].image)


def promoted(hosts: tuple[Host, ...], word: str) -> tuple[tuple[Host, ...], list[tuple[str, Refusal]]]:
    """The hosts with the new program for every LLM of that name, or (host, reason) if that is impossible."""
    if not word:
        return hosts, []
    match = WORD.fullmatch(word)
    if match is None or match["runtime"] not in RUNTIMES:
        return hosts, [("", _malformed(word))]
    promotion = Promotion.to(match["model"], match["runtime"], match["image"] or "")
    llms = [model for host in hosts for model in host.llms]
    if problem := _problem(promotion, llms):
        return hosts, [("", problem)]
    if unjudged := [(host.name, problem) for host in hosts for problem in _unjudged(promotion, host)]:
        return hosts, unjudged
    return tuple(_with(host, promotion) for host in hosts), []


def _with(host: Host, promotion: Promotion) -> Host:
    servers = tuple(
        replace(
            server,
            models=tuple(
                promotion.of(model) if isinstance(model, LLM) and model.name == promotion.model else model
                for model in server.models
            ),
        )
        for server in host.servers
    )
    return replace(host, servers=servers)


def _problem(promotion: Promotion, llms: list[LLM]) -> Refusal | None:
    """The refusal of a promotion of no LLM, to the current program, or in an image with unknown flags."""
    mine = [model for model in llms if model.name == promotion.model]
    if not mine:
        known = sorted({model.name for model in llms})
        return refuse(
            "unknown-model",
            f"no host serves an LLM called {promotion.model}",
            where="promote",
            seen=promotion.model,
            wanted=", ".join(known) or "an LLM in the inventory",
            attempt=f"--data promote={nearest(promotion.model, known) or (*known, 'MODEL')[0]}:{promotion.runtime}",
        )
    if promotion.runtime == TRITON and promotion.image:
        return refuse(
            "image-of-triton-model",
            f"{promotion.model}: a model of Triton has no image of its own",
            where="promote",
            seen=promotion.image,
            wanted="no image: the host's `release` names Triton's",
            attempt=f"--data promote={promotion.model}:{TRITON}",
        )
    if all(model.runtime == promotion.runtime and promotion.image in ("", model.image) for model in mine):
        return refuse(
            "promoted-already",
            f"{promotion.model} is served by {promotion.runtime} already",
            where="promote",
            seen=f'runtime="{promotion.runtime}"',
            wanted="another program, or another image of it",
            attempt="pyinfra INVENTORY deploy.py, without promote",
        )
    if promotion.image and row_of_image(promotion.of(mine[0])) is None:
        rows = rows_of(promotion.runtime)
        return refuse(
            "unknown-runtime-release",
            f"the catalog has no flags of {promotion.runtime} for the image of the promotion",
            where="promote",
            seen=promotion.image,
            wanted=f"name:tag or name:tag@sha256:…, the tag one of {', '.join(row.version for row in rows)}",
            attempt=f"--data promote={promotion.model}:{promotion.runtime}:{rows[0].image}",
        )
    return None


def _unjudged(promotion: Promotion, host: Host) -> Iterator[Refusal]:
    for server, model in host.served_models:
        if isinstance(model, LLM) and model.name == promotion.model and model.replay is None:
            yield refuse(
                "unjudged-promotion",
                f"{model.name} would go to {promotion.runtime} although its answers there were never compared",
                where=model_at(server.name, model.name, "replay"),
                seen="replay=None",
                wanted="prompts with which both programs are compared, or your reason for serving the model uncompared",
                attempt='Replay(prompts="replay/prompts.jsonl"), or Replay.none(reason="…")',
            )


def _malformed(word: str) -> Refusal:
    return refuse(
        "malformed-promotion",
        "a promotion names an LLM and the program that is to serve it",
        where="promote",
        seen=repr(word),
        wanted=f"MODEL:RUNTIME or MODEL:RUNTIME:IMAGE, RUNTIME one of {', '.join(RUNTIMES)}",
        attempt=f"--data promote=llama-3.1-8b-instruct:{SERVE}",
    )
