"""Asks the models of a plan one question each, with the very command line that it prints. Changes nothing on a host.

If a host has a gateway and the operator passed a key for it, the gateway is asked, otherwise Triton.
"""

import json
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deploy.catalog.names import nearest, offer
from deploy.inventory.reach import own_address
from deploy.inventory.ssh_config import ssh_words
from deploy.io.endpoints import ASKING, address_of
from deploy.io.gateway_key import VARIABLE, GivenKey, key_wanted
from deploy.io.model_requests import Exchange, Request
from deploy.models.answers import UnreadableReply, answer, gateway_answer
from deploy.models.questions import (
    NO_CHATS,
    Command,
    Question,
    command,
    gateway_command,
    gateway_question,
    is_loopback,
    question,
)
from deploy.planning.plan import Plan
from deploy.refusals import Refusal, refuse_all
from deploy.slices.gateway import GatewaySlice
from deploy.slices.host import ModelSlice, ServerSlice, Slice

SECONDS = 150
"""Seconds for the command of a request: more than curl's own limit and ssh's together."""
NOT_FOUND, SSH_FAILED = 127, 255
MODEL_REFUSED = "model-refused"
CURL_MEANS = {6: "the name of the host is unknown", 7: "nothing listens there", 28: "no answer in time"}


def requests(
    plan: Plan, data: Mapping[str, Mapping[str, Any]], model: str, texts: Sequence[str], key: GivenKey | None = None
) -> list[Request]:
    """A request to every model of the plan, or to the named model; `data` is the inventory's data, by host.

    A gateway that accepts `key`, or needs no key, is asked once for each name.

    Raises `Refusal` for a name that no server of these hosts has, and for texts the model cannot take.
    """
    served = [
        (slice_, server, served_model) for slice_ in plan.slices for server, served_model in _targets(slice_, key)
    ]
    wanted = [row for row in served if model in ("", row[2].name)]
    if not wanted and model in beside_triton(plan):
        raise key_wanted(model)
    if not wanted:
        raise _no_such_model(model, sorted({served_model.name for _, _, served_model in served}), texts)
    return [
        _gateway_request(slice_, slice_.gateway, server, served_model, data.get(slice_.host, {}), texts, key)
        if slice_.gateway and opens(slice_.gateway, key)
        else _request(slice_.host, server, served_model, data.get(slice_.host, {}), texts)
        for slice_, server, served_model in wanted
    ]


def opens(gateway: GatewaySlice, key: GivenKey | None) -> bool:
    return key is not None or not gateway.keys


def unopened(plan: Plan, key: GivenKey | None) -> str:
    """A sentence for an operator without a key if a gateway could be asked with one; else ""."""
    gateways = [slice_.gateway for slice_ in plan.slices if slice_.gateway]
    if not gateways or any(opens(gateway, key) for gateway in gateways):
        return ""
    only_there = "".join(f", and {name} too" for name in beside_triton(plan))
    return f"asked Triton itself; with a key in {VARIABLE} or --key-file, the gateway is asked{only_there}"


def beside_triton(plan: Plan) -> list[str]:
    return [
        server.standalone_llm[0].name for slice_ in plan.slices for server in slice_.servers if server.standalone_llm
    ]


def _targets(slice_: Slice, key: GivenKey | None) -> Iterator[tuple[ServerSlice, ModelSlice]]:
    """Every model of every server; through a gateway each name once, whichever server answers."""
    answered_names = set[str]()
    for server in slice_.servers:
        is_open = bool(slice_.gateway and opens(slice_.gateway, key))
        for model in server.models if is_open else server.in_triton:
            if is_open and model.name in answered_names:
                continue
            answered_names.add(model.name)
            yield server, model


def exchanges(requests: Sequence[Request]) -> Iterator[Exchange | Refusal]:
    """The outcome of each request, one after the other: an answer, or the refusal with the reason.

    A server that does not answer is asked once, for its first model; its other models count as silent.
    """
    silent = set[tuple[str, str]]()
    for request in requests:
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
    key: GivenKey | None = None,
) -> None:
    """Passes every answer to `show` as soon as it arrives, or all as one JSON array.

    Raises one `Refusal` at the end for all models without an answer.
    """
    problems, answered = list[Refusal](), list[Exchange]()
    for outcome in exchanges(requests(plan, data, model, texts, key)):
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
    """The answer to one request. Raises `Refusal` if the host, the server or the model does not answer."""
    started = time.monotonic()
    reply = _reply(request)
    try:
        if request.gateway is None:
            return Exchange(request, answer(request.model, request.question, reply), time.monotonic() - started)
        read = gateway_answer(request.model, request.question, reply)
    except UnreadableReply as error:
        if NO_CHATS in str(error) and request.question.path.endswith("/chat/completions"):
            return send(_completing(request))
        raise _model_refused(request, str(error)) from None
    return Exchange(request, read, time.monotonic() - started)


def _reply(request: Request) -> str:
    """The output of the request's command."""
    try:
        done = subprocess.run(
            request.command.argv,
            input=request.fed,
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
    return done.stdout


def _gateway_request(
    slice_: Slice,
    gateway: GatewaySlice,
    server: ServerSlice,
    model: ModelSlice,
    data: Mapping[str, Any],
    texts: Sequence[str],
    key: GivenKey | None,
) -> Request:
    """The request to a gateway, which listens on the host's loopback."""
    ssh = tuple(ssh_words(slice_.host, data))
    question = gateway_question(model, texts)
    request = Request(slice_.host, server, model, question, Command(()), ssh, gateway, key if gateway.keys else None)
    return replace(request, command=_through(request, question))


def _completing(request: Request) -> Request:
    """A request for a completion, whose prompt is the texts of `request`."""
    question = gateway_question(request.model, request.question.texts, is_chat=False)
    return replace(request, question=question, command=_through(request, question))


def _through(request: Request, question: Question) -> Command:
    assert request.gateway, "only a gateway is asked so"
    hop = () if request.host.startswith("@local") else request.ssh
    shell = request.key.shell if request.key else ""
    return gateway_command(question, own_address(request.gateway.address), request.gateway.ports[0], hop, shell)


def _request(
    host: str, server: ServerSlice, model: ModelSlice, data: Mapping[str, Any], texts: Sequence[str]
) -> Request:
    ssh = tuple(ssh_words(host, data))
    sent = question(model, texts)
    if is_loopback(server.address):
        hop = () if host.startswith("@local") else ssh
        return Request(host, server, model, sent, command(sent, server.address, server.http_port, hop), ssh)
    address = address_of(server, ssh)
    return Request(host, server, model, sent, command(sent, address, server.http_port), ssh)


def _why(request: Request, code: int, last_words: str) -> Refusal:
    """The refusal for a command that ended with `code`: ssh's own exit codes first, the rest are curl's."""
    via_ssh = request.command.argv[:1] == request.ssh[:1]
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
    return _refusal(
        request,
        "server-silent",
        f"{request.asked_by_name} of {request.host} does not answer at {request.address}",
        seen=seen,
        wanted="a server that is deployed, has loaded its models, and lets this machine connect",
        attempt=f"{shlex.join(request.ssh)} systemctl status {request.unit}",
    )


def _model_refused(request: Request, seen: str) -> Refusal:
    return _refusal(
        request,
        MODEL_REFUSED,
        f"{request.model.name} on {request.host} did not answer the question",
        seen=seen,
        wanted=f"a {request.model.kind} that is loaded and ready",
        attempt=f"{shlex.join(request.ssh)} journalctl -n 50 -u {request.unit}",
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
