"""An LLM's engine over HTTP: vLLM or trtllm-serve, which get prompts as ids and answer with completions.

The gateway writes prompts, and reads reasoning, calls and formats from the answers, as with Triton: if a model moves
from one engine to another, its clients see no difference. Leaving an answer closes its connection, upon which both
engines end the request (vLLM 0.26.0: `with_cancellation` and Starlette's streams; read on 2026-11-27).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from gateway.completion_events import WHOLE_BYTES, Completion, Malformed, parsed, refuse_error, refused
from gateway.errors import UpstreamError
from gateway.events import Event
from gateway.http_client import Answer, Client
from gateway.llm_request import LlmRequest
from gateway.runtimes import RUNTIMES, body_of, streams_from
from gateway.servers import ServerSettings
from gateway.tensors import Input, Outputs

PATH, HEALTH = "/v1/completions", "/health"
MOST_ERROR = 2**20
"""Bytes of an error's answer; vLLM repeats the prompt in some."""


class HttpUpstream:
    """An engine of one LLM."""

    def __init__(self, settings: ServerSettings) -> None:
        self._runtime, self._version, self._release = settings.runtime, settings.version, settings.release
        identity = settings.identity
        self._client = Client(settings.http, identity.context if identity else None, settings.mutual)
        self.read_release()

    def read_release(self) -> None:
        """Uses the program in the host's release file; without such a file, the program of the settings.

        A swap may start another program, or the earlier one again, long before the settings change.
        """
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            llm = json.loads(Path(self._release).read_text())["llm"] if self._release else {}
            runtime, version = llm["runtime"], str(llm["version"])
            if runtime in RUNTIMES:
                self._runtime, self._version = runtime, version

    async def is_ready(self, seconds: float) -> bool:
        try:
            async with self._client.answer_to("GET", HEALTH, [], seconds, {}) as answer:
                await _content(answer, MOST_ERROR)
                return answer.status == 200
        except UpstreamError:
            return False

    async def infer(
        self,
        model: str,
        inputs: Sequence[Input],
        parameters: Mapping[str, str | int | bool],
        seconds: float,
        trace: str = "",
    ) -> Outputs:
        """Refuses: such an engine serves no encoder, and settings name none for it."""
        raise UpstreamError("UNIMPLEMENTED", "an LLM's engine cannot compute vectors or scores")

    async def events(
        self, model: str, request: LlmRequest, seconds: float, trace: str = ""
    ) -> AsyncGenerator[Event, None]:
        """The events of one request, as they arrive. Closing the iterator before its end cancels the request.

        Raises: UpstreamError.
        """
        body = body_of(request, model, self._runtime, self._version)
        completion, headers = Completion(request), {"traceparent": trace} if trace else {}
        try:
            async with self._client.answer_to("POST", PATH, body, seconds, headers) as answer:
                if answer.status != 200:
                    await _refuse(answer)
                if streams_from(request):
                    while not answer.is_done:
                        for event in completion.feed(await answer.read()):
                            yield event
                else:
                    for event in completion.whole(await _content(answer, WHOLE_BYTES)):
                        yield event
                completion.end()
        except Malformed as error:
            raise UpstreamError("INTERNAL", f"the engine's answer is not a completion: {error}") from None

    async def close(self, grace_seconds: float) -> None:
        await self._client.close(grace_seconds)


async def _content(answer: Answer, most: int) -> bytes:
    """The whole body, up to a number of bytes.

    Raises: Malformed.
    """
    pieces, size = list[bytes](), 0
    while not answer.is_done:
        pieces.append(await answer.read())
        size += len(pieces[-1])
        if size > most:
            raise Malformed("an answer without an end")
    return b"".join(pieces)


async def _refuse(answer: Answer) -> NoReturn:
    """Raises the error that the engine answered."""
    with contextlib.suppress(Malformed):
        refuse_error(parsed(await _content(answer, MOST_ERROR)))
    raise refused(answer.status)
