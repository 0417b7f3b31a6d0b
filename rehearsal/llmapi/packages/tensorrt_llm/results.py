"""The result of `generate_async`: the answer so far, updated after every token (rehearsal stand-in).

As in the real package, texts and ids start at the beginning, only the last of several sequences has a `finish_reason`,
and the ids contain no stop token.
"""

import asyncio
import copy
import json
import threading
from dataclasses import dataclass, field


@dataclass
class Logprob:
    """A candidate's probability and its rank among all."""

    logprob: float
    rank: int = None


@dataclass
class CompletionOutput:
    """A sequence so far."""

    index: int
    text: str = ""
    token_ids: list = field(default_factory=list)
    cumulative_logprob: float = None
    logprobs: list = field(default_factory=list)
    finish_reason: str = None
    stop_reason: object = None


class RequestResult:
    """A request: an asynchronous iterator that yields itself after every token or, not streaming, at the end."""

    def __init__(self, ids, sequences, params, streaming, tokenizer, before):
        self.prompt_token_ids, self.cached_tokens, self.finished = ids, 0, False
        self._params, self._streaming, self._tokenizer, self._before = params, streaming, tokenizer, before
        self._outputs = [CompletionOutput(number) for number in range(params.best_of)]
        self._aborted = threading.Event()
        self._loop, self._steps = asyncio.get_running_loop(), asyncio.Queue()
        threading.Thread(target=self._work, args=(sequences,), daemon=True).start()

    @property
    def outputs(self):
        """Returns the requested sequences."""
        return self._outputs[: self._params.n]

    def abort(self):
        """Ends the work on the request."""
        self._aborted.set()

    def is_aborted(self):
        """Returns True if the request was cancelled; checked before every token."""
        return self._aborted.is_set()

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.finished:
            raise StopAsyncIteration
        step = await self._steps.get()
        if isinstance(step, Exception):
            self.finished = True
            raise step
        self._outputs, self.finished = step
        return self

    def _work(self, sequences):
        # A copy, because the reader is behind and still holds the outputs of an earlier token.
        outputs = copy.deepcopy(self._outputs)
        try:
            for tokens in zip(*sequences(self.is_aborted), strict=False):
                for output, token in zip(outputs, tokens, strict=True):
                    self._append(output, token)
                if len(outputs[-1].token_ids) == self._params.max_tokens:
                    outputs[-1].finish_reason = "length"
                is_last = any(output.finish_reason for output in outputs)
                if self._streaming or is_last:
                    self._hand_over(outputs, is_last)
                if is_last:
                    return
            for output in outputs if self.is_aborted() else outputs[-1:]:
                output.finish_reason = "cancelled" if self.is_aborted() else "stop"
            self._hand_over(outputs, is_last=True)
        except Exception as trouble:
            self._put(trouble)

    def _hand_over(self, outputs, is_last):
        self._put((copy.deepcopy(outputs), is_last))

    def _put(self, step):
        self._loop.call_soon_threadsafe(self._steps.put_nowait, step)

    def _append(self, output, token):
        output.token_ids.append(token)
        if self._params.logprobs:
            likely = {token + number: Logprob(-0.5 - number, number + 1) for number in range(self._params.logprobs)}
            output.logprobs.append(likely)
            output.cumulative_logprob = (output.cumulative_logprob or 0.0) - 0.5
        if token in (self._params.stop_token_ids or []):
            output.finish_reason, output.stop_reason = "stop", token
            output.token_ids.pop()
        text = self._tokenizer.decode(output.token_ids, skip_special_tokens=self._params.skip_special_tokens)
        if not text.endswith("\ufffd"):
            output.text = self._before + text


def json_text(guide):
    """Returns a short JSON text that a guide allows; this stand-in has no other guides."""
    if guide.json_object:
        return "{}"
    if guide.json is None:
        raise ValueError("this stand-in answers guides of JSON and JSON schemas, no other ones")
    schema = json.loads(guide.json) if isinstance(guide.json, str) else guide.json
    return json.dumps(_instance(schema, schema))


def _instance(schema, root):
    if "$ref" in schema:
        value = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            value = value[part]
        return _instance(value, root)
    for name in ("anyOf", "oneOf"):
        if name in schema:
            return _instance(schema[name][0], root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        required = schema.get("required", [])
        return {name: _instance(part, root) for name, part in schema.get("properties", {}).items() if name in required}
    if kind == "array":
        return [_instance(schema.get("items", {}), root)] * schema.get("minItems", 0)
    simple = {"string": "x" * schema.get("minLength", 1), "integer": 0, "number": 0.0, "boolean": True, "null": None}
    return schema.get("minimum", simple[kind]) if kind in ("integer", "number") else simple[kind]
