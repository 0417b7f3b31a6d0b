"""Asks the LLM beside a Triton server for a few tokens. Run by llm@<server>.service after its container's start.

    host prove-llm SERVER

The unit stays "activating" until a token has arrived: a program that answers /health may have an engine that never
answers. It writes proof-llm.json beside the server's `current`, in the form of proof.json. Exit 1: not serving.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import Any

from host import places, promotion, replies
from host.prove import ANSWERS, MALFORMED, PROMPT, NoRoom, NotServing, Triton, error_in, written
from host.systemd import say, words

TOKENS = 8


def main(arguments: list[str]) -> int:
    """0 once the LLM has answered; 1 if it does not."""
    place = places.server(arguments[0])
    server = json.loads((place / "current" / "server.json").read_text())
    name, began = server["llm"]["name"], time.monotonic()
    proof: dict[str, Any] = {"ok": False, "reason": "", "release": (place / "current").resolve().name}
    proof |= {"seconds": {}, "answers": {}}
    try:
        engine = Engine(server, arguments[0])
        prove(engine)
        dialect = replies.Completions(name, server["llm"]["runtime"])
        proof["compared"] = promotion.compare(place, name, engine, dialect, engine.deadline)
        if difference := promotion.refusal(proof["compared"]):
            raise NotServing(difference)
        proof |= {"ok": True, "seconds": {name: round(time.monotonic() - began, 1)}, "answers": fastest(engine)}
        say(f"serving {name} ({proof['seconds'][name]} s)", also_print=True)
    except (NotServing, replies.Unanswered) as problem:
        proof["reason"] = str(problem)
        print(f"not serving: {problem}", file=sys.stderr)
    return written(place / "proof-llm.json", proof)


class Engine(Triton):
    """vLLM or trtllm-serve, reached on loopback over HTTP."""

    def __init__(self, server: dict[str, Any], name: str) -> None:
        super().__init__({**server, "address": "127.0.0.1", "http_port": server["llm_port"]}, name)
        self.model, self.runtime = server["llm"]["name"], server["llm"]["runtime"]

    def wait_until_live(self) -> None:
        while True:
            try:
                if self.ask("/health", seconds=5)[0] == 200:
                    return
            except OSError:
                pass
            self.pause(f"{self.runtime} is not ready")


def prove(engine: Engine) -> None:
    """Waits until the program is ready and its LLM has answered one prompt."""
    say(f"waiting for {engine.runtime} to load {engine.model}", also_print=True)
    engine.wait_until_live()
    say(f"asking {engine.model}", also_print=True)
    while True:
        try:
            answer(engine)
            return
        except NoRoom as problem:
            engine.pause(str(problem))
        except OSError as error:
            raise NotServing(f"{engine.model} does not answer its first prompt ({error})") from None


def answer(engine: Engine) -> None:
    """Proves that the LLM generates at least one token for a short prompt."""
    body = {"model": engine.model, "prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0}
    status, content = engine.ask("/v1/completions", body)
    if status in (429, 503):
        raise NoRoom(f"{engine.model} has no room for its first request, because clients keep its queue full")
    if status != 200:
        raise NotServing(f"{engine.model} answers its first prompt with {status}: {reason(content)}")
    try:
        tokens = int(json.loads(content)["usage"]["completion_tokens"])
    except MALFORMED:
        raise NotServing(f"{engine.model} answers its first prompt without counting its tokens") from None
    if tokens < 1:
        raise NotServing(f"{engine.model} answers its first prompt with an empty text")


def fastest(engine: Engine) -> dict[str, float]:
    """Seconds of the LLM's fastest answer, by its name; none if clients leave no room for the request."""
    times: list[float] = []
    with contextlib.suppress(NotServing, OSError):
        for _ in range(ANSWERS):
            began = time.monotonic()
            answer(engine)
            times.append(time.monotonic() - began)
    return {engine.model: round(min(times), 4)} if times else {}


def reason(content: bytes) -> str:
    """The message of an error in OpenAI's form, or the answer itself."""
    with contextlib.suppress(*MALFORMED):
        error = json.loads(content)["error"]
        return words(str(error["message"] if isinstance(error, dict) else error), 600)
    with contextlib.suppress(*MALFORMED):
        return words(str(json.loads(content)["message"]), 600)
    return error_in(content)
