"""Reads an engine's completion, streamed or whole, as events of an LLM; everything else is refused.

A sequence's last event has the count of tokens, as with Triton. Engines report the count of all sequences together and
after all of them, so the last sequence's end is held back until the count arrives, and has it.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from gateway.errors import UpstreamError
from gateway.events import ABORTED, Event
from gateway.json_body import Bounds, JsonError, check
from gateway.llm_request import LlmRequest
from gateway.sampling_numbers import SAMPLING_NUMBERS
from gateway.tensors import Output, Outputs

DATA, DONE = b"data:", b"[DONE]"
LINE_BYTES = 2**20
"""Bytes of an event besides the prompt's ids, which vLLM repeats in the first event of a sequence."""
ID_BYTES = 12
WHOLE_BYTES = 2**24
"""Bytes of an answer that is not streamed."""
NESTING, BRACKETS, MARKS = 32, 1024, 4096
"""Bounds of JSON beside the requested parts: 16 MiB of empty lists blocked all streams for 4 s (2026-11-27)."""
MOST_TOKENS, MOST_ID = 2**31 - 1, 2**31 - 1
TOKEN = "token_id:"
NEVER = -9999.0
FINISHES = {"stop": "stop", "length": "length", "abort": ABORTED, "repetition": "stop", "timeout": "cancelled"}
NO_OUTPUTS: Outputs = {}


class Malformed(ValueError):
    """An error for an answer that is not a valid completion. Its message has no text of the answer."""


class Completion:
    """Reads the answer to one request."""

    def __init__(self, request: LlmRequest) -> None:
        self._count, self._logprobs = request.sampling.sequences, request.sampling.logprobs
        self.most_line = LINE_BYTES + ID_BYTES * len(request.prompt)
        self._bounds = bounds_of(request)
        self._ended: set[int] = set()
        self._has_begun = self._has_tokens = False
        self._held: Event | None = None
        self._usage: tuple[int, int] | None = None
        self._lines: list[bytes] = []
        self._size = 0
        self.is_done = False
        """True after the mark of the stream's end, or after the whole answer."""

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that these bytes of a stream complete; those before an error come before it is raised.

        Raises: UpstreamError for an error that the engine sends; Malformed.
        """
        *lines, rest = data.split(b"\n")
        if self.is_done or not lines:
            self._hold(b"" if self.is_done else rest)
            return
        lines[0] = b"".join([*self._lines, lines[0]])
        self._lines, self._size = [], 0
        self._hold(rest)
        for line in lines:
            if len(line) > self.most_line:
                raise Malformed("an event without an end")
            if not line.startswith(DATA):
                continue  # an empty line between events, or a comment
            content = line[len(DATA) :].strip()
            if content == DONE:
                self.is_done = True
                return
            yield from self._event(parsed(content, self._bounds))

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self.most_line:
            raise Malformed("an event without an end")
        if piece:
            self._lines.append(piece)

    def whole(self, content: bytes) -> list[Event]:
        """The events of an answer that is not a stream.

        Raises: UpstreamError, also for an aborted answer, of which no byte has reached a client; Malformed.
        """
        self.is_done = True
        events = self._event(parsed(content, self._bounds))
        if any(event.finish == ABORTED for event in (*events, *filter(None, [self._held]))):
            raise UpstreamError("UNAVAILABLE", "the engine aborted the answer")
        return events

    def end(self) -> None:
        """Ends the answer.

        A stopping engine may end an answer before its first event (vLLM 0.26.0 on an H100, 2026-11-27). No byte has
        reached a client then, so the request may be retried.

        Raises: UpstreamError if the answer ended before its first event; Malformed if it broke off, or lacks its number
        of tokens.
        """
        if self.is_done and not self._has_begun:
            raise UpstreamError("UNAVAILABLE", "the engine ended the answer before its first token")
        if not self.is_done:
            raise Malformed("an answer without an end")
        if self._held is not None:
            raise Malformed("an answer without a count of tokens")

    def _event(self, value: dict[str, Any]) -> list[Event]:
        refuse_error(value)
        choices = value.get("choices")
        if not isinstance(choices, list) or len(choices) > self._count:
            raise Malformed("an event without choices")
        self._has_begun = self._has_begun or bool(choices)
        events = [event for choice in choices if (event := self._choice(choice)) is not None]
        if isinstance(value.get("usage"), dict):
            self._usage = counts_of(value["usage"])
        if self._held is not None and self._usage is not None and len(self._ended) == self._count:
            completion, cached = self._usage
            events.append(self._held._replace(completion_tokens=completion, cached_tokens=cached))
            self._held = None
        return events

    def _choice(self, choice: object) -> Event | None:
        """The event of a choice; None for the very last one, which is held back until the count arrives."""
        if not isinstance(choice, dict):
            raise Malformed("a choice that is not an object")
        sequence, text, finish = choice.get("index"), choice.get("text"), choice.get("finish_reason")
        if type(sequence) is not int or not 0 <= sequence < self._count or sequence in self._ended:
            raise Malformed("a choice with an unknown index")
        if not isinstance(text, str) or not (finish is None or isinstance(finish, str)):
            raise Malformed("a choice without a text")
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode()  # JSON escapes can contain half a surrogate pair
        ids = ids_of(choice.get("token_ids"))
        outputs = NO_OUTPUTS if self._logprobs is None else outputs_of(choice.get("logprobs"), self._logprobs)
        if finish and finish not in FINISHES:
            raise Malformed("an answer with an unknown finish reason")
        event = Event(sequence, text, ids, FINISHES[finish] if finish else "", 0, 0, outputs)
        if not event.finish:
            self._has_tokens = self._has_tokens or bool(text or ids)
            return event
        if event.finish == ABORTED and not (self._has_tokens or text or ids):
            raise UpstreamError("UNAVAILABLE", "the engine aborted the answer before its first token")
        self._ended.add(sequence)
        if len(self._ended) < self._count:
            return event
        self._held = event
        return None


def bounds_of(request: LlmRequest) -> Bounds:
    """Bounds of one JSON text of the answer: a token has an id, and log probabilities with those of alternatives.

    Engines repeat the prompt's ids in some events.
    """
    sampling = request.sampling
    tokens = sampling.sequences * request.max_tokens
    lists, per_token = (0, 2) if sampling.logprobs is None else (tokens, 8 + 2 * sampling.logprobs)
    brackets = BRACKETS + lists + 16 * sampling.sequences
    return Bounds(NESTING, brackets, MARKS + len(request.prompt) + tokens * per_token + 64 * sampling.sequences)


def parsed(content: bytes, bounds: Bounds | None = None) -> dict[str, Any]:
    """The JSON object in these bytes, within these bounds; without bounds, those of an error's text.

    Raises: Malformed.
    """
    try:
        check(content, bounds or Bounds(NESTING, BRACKETS, MARKS))
        value = json.loads(content)
    except JsonError:
        raise Malformed("an event with too many values") from None
    except (ValueError, RecursionError):
        raise Malformed("an event that is not JSON") from None
    if not isinstance(value, dict):
        raise Malformed("an event that is not an object")
    return value


def refuse_error(value: dict[str, Any]) -> None:
    """Raises UpstreamError if the object is an error: vLLM's has one inside, trtllm-serve's is one itself."""
    error = value if value.get("object") == "error" else value.get("error")
    if error is None:
        return
    code = error.get("code") if isinstance(error, dict) else None
    param = error.get("param") if isinstance(error, dict) else None
    raise refused(code if type(code) is int else 500, param)


CODES = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 422: "INVALID_ARGUMENT", 501: "UNIMPLEMENTED", 504: "CANCELLED"}
CODES |= {429: "UNAVAILABLE", 503: "UNAVAILABLE", 413: "INVALID_ARGUMENT"}
PARAMS = {name: name for name in (*SAMPLING_NUMBERS, "logprobs", "max_tokens", "min_tokens", "n", "seed", "stop")}
PARAMS |= {"structured_outputs": "response_format", "response_format": "response_format", "prompt": "messages"}
"""Fields of a completion by which an engine explains a refusal, and the client's own."""


def refused(status: int, param: object = None) -> UpstreamError:
    """The error for an engine's status. The engine's message is left out, because vLLM repeats the request in it."""
    code = CODES.get(status, "INTERNAL")
    if status == 429:
        return UpstreamError(code, "the engine is at its maximum queue size")
    if code in ("INVALID_ARGUMENT", "UNIMPLEMENTED"):
        field = PARAMS.get(param) if isinstance(param, str) else None
        because = f"its engine refuses `{field}`" if field else "its engine refuses the request"
        return UpstreamError(code, f"the model cannot do this: {because}")
    return UpstreamError(code, f"the engine answered {status}")


def counts_of(usage: dict[str, Any]) -> tuple[int, int]:
    """Tokens of the answers, and tokens of the prompt that the engine had cached.

    Raises: Malformed.
    """
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return count_of(usage.get("completion_tokens")), count_of(0 if cached is None else cached)


def count_of(value: object) -> int:
    """A count of tokens.

    Raises: Malformed.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_TOKENS:
        raise Malformed("a token count that is not a whole number")
    return value


def ids_of(value: object) -> Sequence[int]:
    """The ids of an event's tokens; none if it has none.

    Raises: Malformed.
    """
    if value is None:
        return ()
    if not isinstance(value, list) or not all(type(identity) is int and 0 <= identity <= MOST_ID for identity in value):
        raise Malformed("token ids that are not whole numbers")
    return value


def outputs_of(value: object, width: int) -> Outputs:
    """The log probabilities in the slot's tensors; and `width` alternatives for each token.

    Raises: Malformed.
    """
    if not isinstance(value, dict):
        return NO_OUTPUTS
    tokens, chances, rows = (value.get(name) for name in ("tokens", "token_logprobs", "top_logprobs"))
    if not isinstance(tokens, list) or not isinstance(chances, list) or len(tokens) != len(chances):
        raise Malformed("log probabilities of an unknown form")
    outputs = {
        "token_ids": Output("INT32", (len(tokens),), array("i", map(id_of, tokens)).tobytes()),
        "token_logprobs": Output("FP32", (len(tokens),), array("f", map(chance_of, chances)).tobytes()),
    }
    if width:
        if not isinstance(rows, list) or len(rows) != len(tokens):
            raise Malformed("log probabilities of an unknown form")
        pairs = [pair for row in rows for pair in likeliest(row, width)]
        shape = (len(tokens), width)
        outputs["top_logprob_ids"] = Output("INT32", shape, array("i", [identity for identity, _ in pairs]).tobytes())
        outputs["top_logprobs"] = Output("FP32", shape, array("f", [chance for _, chance in pairs]).tobytes())
    return outputs


def likeliest(value: object, width: int) -> list[tuple[int, float]]:
    """The `width` most likely tokens, filled up with the id -1, which means no token."""
    if not isinstance(value, dict):
        raise Malformed("log probabilities of an unknown form")
    pairs = [(id_of(token), chance_of(chance)) for token, chance in value.items()]
    pairs.sort(key=lambda pair: -pair[1])
    return (pairs + [(-1, NEVER)] * width)[:width]


def id_of(token: object) -> int:
    """The id in the form in which engines write tokens that are not text.

    Raises: Malformed.
    """
    digits = token[len(TOKEN) :] if isinstance(token, str) and token.startswith(TOKEN) else ""
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 11) or int(digits) > MOST_ID:
        raise Malformed("a token without an id")
    return int(digits)


def chance_of(value: object) -> float:
    """A log probability.

    Raises: Malformed.
    """
    if value is None:
        return NEVER
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e30 < value < 1e30:
        raise Malformed("a log probability that is not a number")
    return float(value)
