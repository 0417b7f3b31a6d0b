"""Loads a server's models one by one, in order, and sends each a real request. Run by triton@<server>.service.

    host prove SERVER

At its start Triton loads models concurrently and in no order, and memory goes to the first to ask: so Triton starts
empty, and this program loads encoders first and the LLM last. An answered request proves more than a 200 of
/v2/health/ready. The unit stays "activating" until this ends; its status line shows the progress.

It writes proof.json beside the server's `current`: {"ok", "reason", "seconds": {model: load time}, "answers": {model:
seconds of one answer}}. Exit 1: not serving.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from host import places, promotion, replies
from host.systemd import say, words

ANSWER_SECONDS = 300
ANSWERS = 3
"""Number of answers, of which the fastest is recorded: a swap compares this time with the earlier release's."""
LATE_SECONDS = 50
"""Seconds for an answer beyond start_seconds: an engine gives two answers, and TimeoutStartSec is 120 s longer."""
FULL = "Exceeds maximum queue size"
"""Triton's refusal for a full queue; the LLM slot (files/llm/llmapi.py) uses the same words."""
PROMPT = "The boiler of a steam engine"
MOST_BYTES = 2**26
"""Bytes of an answer; a vector has some 100 KiB."""
MALFORMED = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
"""Exceptions raised by reading an answer of an unexpected form."""


class NotServing(Exception):
    """The release does not serve, with the reason."""


class NoRoom(NotServing):
    """Clients keep the queue full; a server with that many clients counts as serving."""


def main(arguments: list[str]) -> int:
    """0 once every model has answered; 1 if one does not."""
    name = arguments[0]
    place = places.server(name)
    server = json.loads((place / "current" / "server.json").read_text())
    seconds: dict[str, float] = {}
    answers: dict[str, float] = {}
    proof: dict[str, Any] = {"ok": False, "reason": "", "release": (place / "current").resolve().name}
    proof |= {"seconds": seconds, "answers": answers}
    try:
        triton = Triton(server, name)
        until = triton.deadline
        prove(triton, server, seconds, answers)
        proof["compared"] = compared(place, triton, server, until)
        if difference := promotion.refusal(proof["compared"]):
            raise NotServing(difference)
        proof["ok"] = True
    except (NotServing, replies.Unanswered) as problem:
        proof["reason"] = str(problem)
        print(f"not serving: {problem}", file=sys.stderr)
    return written(place / "proof.json", proof)


def written(path: Path, proof: dict[str, Any]) -> int:
    """Writes the proof; returns the exit status of its program."""
    try:
        path.write_text(json.dumps(proof) + "\n")
    except OSError as problem:  # on a full disk, the answered models serve anyway
        print(f"{path.name} was not written: {problem}", file=sys.stderr)
    return 0 if proof["ok"] else 1


def prove(triton: Triton, server: dict[str, Any], seconds: dict[str, float], answers: dict[str, float]) -> None:
    """Loads every model and waits for its answer. Fills, by model, `seconds` until then and `answers` of one answer."""
    say("waiting for Triton to listen", also_print=True)
    triton.wait_until_live()
    for number, model in enumerate(server["models"], start=1):
        began = time.monotonic()
        for name in model.get("loads", [model["name"]]):
            say(f"loading {name} ({number} of {len(server['models'])})", also_print=True)
            triton.load(name)
            triton.wait_until_ready(name)
        say(f"asking {model['name']} ({number} of {len(server['models'])})", also_print=True)
        first_answer(triton, model)
        seconds[model["name"]] = round(time.monotonic() - began, 1)
    # Last, so that only this model fails if it needs more memory than declared.
    for name in server.get("own_models", []):
        say(f"loading {name}, the operator's own model", also_print=True)
        triton.load(name)
        triton.wait_until_ready(name)
    # The deadline is now: a model that answered before and hangs delays the start only shortly.
    triton.deadline = time.monotonic()
    for model in server["models"]:  # measured once no other model is loading
        answers |= fastest_answer(triton, model)
    say("serving " + ", ".join(f"{name} ({time_taken} s)" for name, time_taken in seconds.items()), also_print=True)


def compared(place: Path, triton: Triton, server: dict[str, Any], until: float) -> dict[str, Any]:
    """The verdict on an LLM of Triton that a swap compares with its predecessor; empty without a comparison."""
    for model in server["models"]:
        if model["kind"] == "llm" and promotion.pending(place, model["name"]):
            return promotion.compare(place, model["name"], triton, replies.Generate(model), until)
    return {}


def first_answer(triton: Triton, model: dict[str, Any]) -> None:
    while True:
        try:
            QUESTIONS[model["kind"]](triton, model)
            return
        except NoRoom:
            triton.pause(f"{model['name']} has no room for its first request, because clients keep its queue full")
        except OSError as error:
            raise NotServing(f"{model['name']} does not answer its first request ({error})") from None
        except MALFORMED as error:
            raise NotServing(f"{model['name']} answers its first request in a strange form ({error!r})"[:600]) from None


def fastest_answer(triton: Triton, model: dict[str, Any]) -> dict[str, float]:
    """Seconds of the model's fastest answer, by its name; none if clients leave no room for the request.

    The model has answered before, so an error here does not keep it from serving.
    """
    times: list[float] = []
    with contextlib.suppress(NotServing, OSError, *MALFORMED):
        for _ in range(ANSWERS):
            began = time.monotonic()
            QUESTIONS[model["kind"]](triton, model)
            times.append(time.monotonic() - began)
    return {model["name"]: round(min(times), 4)} if times else {}


class Triton:
    """A Triton server, reached at the address on which its port is published."""

    def __init__(self, server: dict[str, Any], name: str) -> None:
        address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(server["address"], server["address"])
        self.base = f"http://{f'[{address}]' if ':' in address else address}:{server['http_port']}"
        # A proxy in systemd's environment is for other hosts, not for this one.
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.header, self.key_file = server["restricted_header"], places.RUNTIME / f"triton-{name}" / "key"
        self.deadline = time.monotonic() + server["start_seconds"]
        self.client = int(os.environ.get("MAINPID") or 0)

    def wait_until_live(self) -> None:
        while True:
            try:
                if self.ask("/v2/health/live", seconds=5)[0] == 200:
                    return
            except OSError:
                pass
            self.pause("Triton does not listen")

    def load(self, model: str) -> None:
        """Waits until Triton has loaded the model; raises Triton's message if the model cannot be loaded. Loading needs
        the key."""
        headers = {self.header: self.key_file.read_text().strip()}
        try:
            path = f"/v2/repository/models/{model}/load"
            status, body = self.ask(path, {}, headers, max(1.0, self.deadline - time.monotonic()))
        except OSError as error:
            raise NotServing(f"{model}: Triton broke off while loading it ({error})") from None
        if status != 200:
            raise NotServing(f"{model} does not load: {error_in(body)}")

    def wait_until_ready(self, model: str) -> None:
        """Waits for the model's own readiness; the server's readiness would not name the missing model."""
        while self.ask(f"/v2/models/{model}/ready", seconds=30)[0] != 200:
            self.pause(f"{model} is loaded, but not ready")

    def pause(self, problem: str) -> None:
        """Waits a second, unless the time is over."""
        if self.client and not Path(f"/proc/{self.client}").exists():
            raise NotServing(f"{problem}, and its container has ended; the unit's journal says why")
        if time.monotonic() > self.deadline:
            raise NotServing(f"{problem} within the time limit (start_seconds)")
        time.sleep(1)

    def ask(
        self, path: str, body: dict[str, Any] | None = None, headers: dict[str, str] | None = None, seconds: float = 0
    ) -> tuple[int, bytes]:
        """Status and body of one request; any HTTP status is an answer, a broken connection raises OSError."""
        seconds = seconds or min(ANSWER_SECONDS, max(LATE_SECONDS, self.deadline - time.monotonic()))
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.base + path, data, {"Content-Type": "application/json", **(headers or {})}
        )
        try:
            with self.opener.open(request, timeout=seconds) as answer:
                return answer.status, answer.read(MOST_BYTES)
        except urllib.error.HTTPError as error:
            return error.code, error.read(MOST_BYTES)
        except http.client.HTTPException as error:
            raise OSError(str(error) or type(error).__name__) from None


def embedder_answers(triton: Triton, model: dict[str, Any]) -> None:
    """Proves that a text gives a vector of the planned width and of length 1."""
    body = {"inputs": [{"name": "texts", "shape": [1, 1], "datatype": "BYTES", "data": ["a steam engine"]}]}
    values = outputs(triton, model, "infer", body)["embeddings"]["data"]
    length = math.sqrt(sum(value * value for value in values))
    if model["dimensions"] and len(values) != model["dimensions"]:
        raise NotServing(f"{model['name']} gives {len(values)} numbers for a text; the plan says {model['dimensions']}")
    if not abs(length - 1) < 0.01:
        raise NotServing(f"{model['name']} gives a vector of length {length:.4f}; it should be 1")


def reranker_answers(triton: Triton, model: dict[str, Any]) -> None:
    """Proves that two passages give two numbers."""
    texts = ["boilers make steam", "the sea is salt"]
    passages = {"name": "passages", "shape": [1, 2], "datatype": "BYTES", "data": texts}
    query = {"name": "query", "shape": [1, 1], "datatype": "BYTES", "data": ["what makes steam?"]}
    scores = outputs(triton, model, "infer", {"inputs": [query, passages]})["scores"]["data"]
    if len(scores) != 2 or not all(math.isfinite(score) for score in scores):
        raise NotServing(f"{model['name']} gives {scores} for two passages; it should be two numbers")


def llm_answers(triton: Triton, model: dict[str, Any]) -> None:
    """Proves that a short prompt gives text; for an engine, from every model that takes text."""
    is_engine, ours = model.get("path") == "engine", f"{model['name']}_completion"
    if is_engine:
        question = {"text_input": PROMPT, "max_tokens": 8, "stream": bool(model["decoupled"])}
        for name in (model["name"], f"{model['name']}_tensorrt_llm_bls"):
            generates(triton, name, model["decoupled"], question)
        if ours not in model.get("loads", []):  # an older release without this model, restored by a rollback
            return
    question = {
        "text_input": PROMPT,
        "sampling_param_max_tokens": 8,
        "sampling_param_exclude_input_from_output": True,
        "streaming": bool(model["decoupled"]),
    }
    generates(triton, ours if is_engine else model["name"], model["decoupled"], question)


def generates(triton: Triton, name: str, decoupled: bool, question: dict[str, Any]) -> None:
    """Proves that the model answers with text. A decoupled model answers /generate_stream only."""
    status, answer = triton.ask(f"/v2/models/{name}/{'generate_stream' if decoupled else 'generate'}", question)
    events = [line[5:] for line in answer.decode().splitlines() if line.startswith("data:")]
    parts = [json.loads(event) for event in (events or [answer.decode() or "{}"])] if status == 200 else []
    errors = [part["error"] for part in parts if "error" in part]
    if status != 200 or errors:
        error = words(str(errors[0]), 600) if errors else error_in(answer)
        raise refused(f"{name} answers its first prompt with: {error}")
    if not any(part.get("text_output") for part in parts):
        raise NotServing(f"{name} answers its first prompt with an empty text")


def outputs(triton: Triton, model: dict[str, Any], verb: str, body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The outputs of one request by name."""
    status, answer = triton.ask(f"/v2/models/{model['name']}/{verb}", body)
    if status != 200:
        raise refused(f"{model['name']} answers its first request with {status}: {error_in(answer)}")
    return {output["name"]: output for output in json.loads(answer)["outputs"]}


def refused(reason: str) -> NotServing:
    return NoRoom(reason) if FULL in reason else NotServing(reason)


def error_in(body: bytes) -> str:
    """The error in an answer of Triton, or the answer itself; of a traceback only the message."""
    try:
        text = str(json.loads(body)["error"])
    except MALFORMED:
        text = body.decode(errors="replace") or "an empty answer"
    return words(text.split("\n\nAt:\n")[0].strip(), 600)


QUESTIONS = {"embedder": embedder_answers, "reranker": reranker_answers, "llm": llm_answers}
