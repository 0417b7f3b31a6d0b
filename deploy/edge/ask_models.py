"""Asks the models of a plan one question each, by running the very line it prints. Changes nothing on a host."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.answers import Answer, UnreadableReply, answer
from deploy.catalog.names import nearest, offer
from deploy.edge.reach import ASKING, address_of
from deploy.errors import Refusal, refuse_all
from deploy.plan import Plan
from deploy.questions import Command, Question, command, is_loopback, question
from deploy.slice import ModelSlice, ServerSlice
from deploy.ssh_config import ssh_words

SECONDS = 150
"""Longer than curl's own limit and ssh's together."""
NOT_FOUND, SSH_FAILED = 127, 255
MODEL_REFUSED = "model-refused"
CURL_MEANS = {6: "the name of the host is unknown", 7: "nothing listens there", 28: "no answer in time"}


@dataclass(frozen=True)
class Request:
    """A question on its way: to which model of which server and host, and the command that sends it."""

    host: str
    server: ServerSlice
    model: ModelSlice
    question: Question
    command: Command
    ssh: tuple[str, ...]


@dataclass(frozen=True)
class Exchange:
    """A request and the answer to it."""

    request: Request
    answer: Answer
    seconds: float

    def __str__(self) -> str:
        """Who was asked, the line to paste, the answer; what is not to be pasted stands behind `#`."""
        model = self.request.model
        answer_lines = [f"# {line}".rstrip() for line in self.answer.text.splitlines()]
        title = f"# {self.request.host}, server {self.request.server.name}: {model.name} ({model.kind})"
        return "\n".join([title, self.request.command.line, *answer_lines])

    def to_json(self) -> dict[str, object]:
        """The exchange as plain values, for programs."""
        request = self.request
        return {
            "host": request.host,
            "server": request.server.name,
            "model": request.model.name,
            "kind": request.model.kind,
            "line": request.command.line,
            "path": request.question.path,
            "body": request.question.body,
            "answer": self.answer.values,
            "seconds": round(self.seconds, 3),
        }


def requests(plan: Plan, data: Mapping[str, Mapping[str, Any]], model: str, texts: Sequence[str]) -> list[Request]:
    """A request to every model of the plan, or to the one named; `data` is the inventory's, by host.

    Raises `Refusal` for a name that no server of these hosts has, and for texts the model cannot take.
    """
    served = [
        (slice_.host, server, served_model)
        for slice_ in plan.slices
        for server in slice_.servers
        for served_model in server.models
    ]
    wanted = [row for row in served if model in ("", row[2].name)]
    if not wanted:
        raise _no_such_model(model, sorted({served_model.name for _, _, served_model in served}), texts)
    return [_request(host, server, served_model, data.get(host, {}), texts) for host, server, served_model in wanted]


def exchanges(asked: Sequence[Request]) -> Iterator[Exchange | Refusal]:
    """The outcome of each request, one after the other: an answer, or the refusal that says why there is none.

    A server that does not answer is asked once, for its first model, and not again for the others.
    """
    silent = set[tuple[str, str]]()
    for request in asked:
        place = (request.host, request.server.name)
        if place in silent:
            continue
        try:
            yield send(request)
        except Refusal as refused:
            if refused.kind != MODEL_REFUSED:
                silent.add(place)
            yield refused


def asked_in_turn(
    plan: Plan,
    data: Mapping[str, Mapping[str, Any]],
    model: str,
    texts: Sequence[str],
    show: Callable[[str], None],
    as_json: bool = False,
) -> None:
    """Hands every answer to `show`, each as soon as it comes, or all as one JSON array.

    Raises `Refusal` at the end, for all models together that gave none.
    """
    problems, answered = list[Refusal](), list[Exchange]()
    for outcome in exchanges(requests(plan, data, model, texts)):
        if isinstance(outcome, Refusal):
            problems.append(outcome)
            continue
        answered.append(outcome)
        if not as_json:
            show(f"{outcome}\n")
    if as_json and not problems:
        show(json.dumps([exchange.to_json() for exchange in answered], indent=2, ensure_ascii=False))
    refuse_all(problems)


def send(request: Request) -> Exchange:
    """The answer to one request. Raises `Refusal` if the host, the server or the model gives none."""
    started = time.monotonic()
    try:
        done = subprocess.run(
            request.command.argv,
            input=request.command.stdin,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise _no_program(request, request.command.argv[0], "this machine") from None
    except subprocess.TimeoutExpired:
        raise _server_silent(request, f"no answer within {SECONDS} s") from None
    if done.returncode:
        raise _why(request, done.returncode, (done.stderr.strip().splitlines() or [""])[-1])
    try:
        read = answer(request.model, request.question, done.stdout)
    except UnreadableReply as error:
        raise _model_refused(request, str(error)) from None
    return Exchange(request, read, time.monotonic() - started)


def _request(
    host: str, server: ServerSlice, model: ModelSlice, data: Mapping[str, Any], texts: Sequence[str]
) -> Request:
    ssh = tuple(ssh_words(host, data))
    asked = question(model, texts)
    if is_loopback(server.address):
        hop = () if host.startswith("@local") else ssh
        return Request(host, server, model, asked, command(asked, server.address, server.http_port, hop), ssh)
    address = address_of(server, ssh)
    return Request(host, server, model, asked, command(asked, address, server.http_port), ssh)


def _why(request: Request, code: int, last_words: str) -> Refusal:
    """The refusal for a command that ended with `code`: ssh's own codes first, the rest are curl's."""
    via_ssh = bool(request.command.stdin)
    if via_ssh and code == SSH_FAILED:
        return _refusal(
            request,
            "host-unreachable",
            f"{request.host} does not let ssh in",
            seen=last_words or "ssh ended with 255",
            wanted="a login with a key and without a question, by the inventory's SSH settings",
            attempt=shlex.join([*request.ssh, "true"]),
        )
    if via_ssh and code == NOT_FOUND:
        return _no_program(request, "curl", request.host)
    means = CURL_MEANS.get(code, f"curl ended with {code}")
    return _server_silent(request, f"{means} ({last_words})" if last_words else means)


def _server_silent(request: Request, seen: str) -> Refusal:
    server = request.server
    return _refusal(
        request,
        "server-silent",
        f"server {server.name} of {request.host} does not answer at {server.address}:{server.http_port}",
        seen=seen,
        wanted="a server that is deployed, has loaded its models, and lets this machine connect",
        attempt=f"{shlex.join(request.ssh)} systemctl status triton@{server.name}",
    )


def _model_refused(request: Request, seen: str) -> Refusal:
    return _refusal(
        request,
        MODEL_REFUSED,
        f"{request.model.name} on {request.host} did not answer the question",
        seen=seen,
        wanted=f"a {request.model.kind} that is loaded and ready",
        attempt=f"{shlex.join(request.ssh)} journalctl -n 50 -u triton@{request.server.name}",
    )


def _no_program(request: Request, program: str, machine: str) -> Refusal:
    return _refusal(
        request,
        "no-program",
        f"{machine} has no {program}",
        seen=f"{program}: not found",
        wanted=f"{program}, which sends the question",
        attempt=f"apt-get install {'openssh-client' if program == 'ssh' else program}",
    )


def _refusal(request: Request, kind: str, problem: str, *, seen: str, wanted: str, attempt: str) -> Refusal:
    facts = {"sent": request.command.line, "seen": seen, "wanted": wanted}
    return Refusal(problem, facts=facts, attempt=attempt, state=ASKING, kind=kind)


def _no_such_model(name: str, known: list[str], texts: Sequence[str]) -> Refusal:
    near = nearest(name, known) or known[0] if known else ""
    words = texts if nearest(name, known) else [name, *texts]
    tried = [f"enginehouse ask INVENTORY {near} {shlex.join(words)}"] if near and words else []
    return Refusal(
        f"no server of these hosts has a model called {name!r}" if name else "these hosts serve no model",
        facts={"seen": name or "no model", "wanted": "the name of a model, then the texts to ask it"},
        attempt="  ".join([offer(name, known), *tried]),
        state=ASKING,
        kind="no-such-model",
    )
