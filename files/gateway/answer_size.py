"""The size of a model's answer: an engine that is broken or taken over cannot send more than the request allows.

A key pays for what the engine counts, and a whole answer is held until its end. So counts above the request's limits
are cut to the limits, and an answer with more text than the request's tokens could spell is ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.errors import ApiError
from gateway.events import Event

MARGIN_CHARACTERS = 65_536
"""Extra characters: an engine may write a marker differently from the tokenizer."""
CHARACTERS_A_TOKEN = 8
"""Characters of a token in a long text, at most: English has 4 to 5."""
MARGIN_EVENTS = 1024
"""Extra events and ids: the end of a sequence is an event of its own."""


@dataclass
class AnswerSize:
    """Size of an answer so far, and its limits: `tokens` of all sequences, `characters` of their texts."""

    tokens: int
    characters: int
    prompt: int
    """Tokens of the prompt: the most that can have been cached."""
    sequences: int = 1
    _events: int = 0
    _ids: int = 0
    _written: int = 0
    _completion: int = 0

    @property
    def least_tokens(self) -> int:
        """Least number of tokens of the answer so far: an event may have several tokens without their ids."""
        return max(self._events, self._ids, self._written // CHARACTERS_A_TOKEN)

    def bounded(self, event: Event) -> Event:
        """The event, with counts that the request allows.

        Raises: ApiError 502 for more events, ids or text than the request's tokens could have, and for a sequence that
        the client did not request.
        """
        self._events += 1
        self._ids += len(event.ids)
        self._written += len(event.text)
        most = self.tokens + MARGIN_EVENTS
        is_too_long = self._events > most or self._ids > most or self._written > self.characters + MARGIN_CHARACTERS
        if is_too_long or not 0 <= event.sequence < self.sequences:
            raise ApiError(502, "the model's answer broke off", code="upstream_error", is_spent=True)
        completion = max(min(event.completion_tokens, self.tokens - self._completion), 0)
        self._completion += completion
        cached = min(event.cached_tokens, self.prompt)
        if (completion, cached) == (event.completion_tokens, event.cached_tokens):
            return event
        return event._replace(completion_tokens=completion, cached_tokens=cached)
