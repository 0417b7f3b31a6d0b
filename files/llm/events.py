"""Splits an engine's output into stream events: each sequence's new tokens, and its finish reason."""

from __future__ import annotations

from collections.abc import Sequence as Several
from dataclasses import dataclass, field, replace
from typing import Any

UNFINISHED = "\ufffd"
"""End of a tokenizer's text while the last bytes of a character are missing."""


@dataclass
class Event:
    """The new part of a sequence. `finish_reason` is "" before the last event, which has the final counts.

    `logprobs` has an entry for each of `ids`: (its own, [(id, logprob) of the alternatives, the likeliest first]).
    """

    sequence: int
    text: str = ""
    ids: list[int] = field(default_factory=list)
    logprobs: list[tuple[float, list[tuple[int, float]]]] = field(default_factory=list)
    finish_reason: str = ""
    stop_reason: str = ""
    generated: int = 0
    cumulative_logprob: float = 0.0

    def and_then(self, later: Event) -> Event:
        """Both events merged into one, with the finish reason of the later one."""
        both = {"text": self.text + later.text, "ids": self.ids + later.ids}
        return replace(later, **both, logprobs=self.logprobs + later.logprobs)


class Text:
    """A growing text; its end is held back while it may become a stop string."""

    def __init__(self, stops: Several[str] = ()) -> None:
        self._stops, self._sent = [stop for stop in stops if stop], 0
        self.stop = ""
        """The stop string that ended the text."""

    def add(self, text: str, is_last: bool) -> str:
        """The part that may be sent now; `text` is the whole text so far."""
        if self.stop:
            return ""
        hits = [(place, stop) for stop in self._stops if (place := text.find(stop, self._sent)) >= 0]
        if hits:
            until, self.stop = min(hits)
        else:
            until = len(text) - (0 if is_last else self._held(text))
        new, self._sent = text[self._sent : until], max(self._sent, until)
        return new

    def _held(self, text: str) -> int:
        """Number of characters at the end that may begin a stop string, or belong to an incomplete character."""
        half = len(text) - len(text.rstrip(UNFINISHED))
        unsent = text[self._sent : len(text) - half]
        longest = max((len(stop) for stop in self._stops), default=0)
        for length in range(min(longest - 1, len(unsent)), 0, -1):
            if any(stop.startswith(unsent[-length:]) for stop in self._stops if len(stop) > length):
                return half + length
        return half


class Sequence:
    """Splits a sequence of a request into events."""

    def __init__(self, number: int, stops: Several[str], most: int, alternatives: int | None, echoed: str = "") -> None:
        self._number, self._text, self._most, self._alternatives = number, Text(stops), most, alternatives
        self._echoed, self._ids, self._probabilities = echoed, 0, 0
        self.is_finished = False

    def next_event(self, output: Any, is_last: bool) -> Event | None:
        """The new part of TensorRT-LLM's CompletionOutput; None if there is none."""
        if self.is_finished:
            return None
        text = self._text.add(output.text, is_last or bool(output.finish_reason))
        event = Event(self._number, self._echoed + text, list(output.token_ids[self._ids :]))
        self._echoed, self._ids = "", max(self._ids, len(output.token_ids))
        if self._alternatives is not None and output.logprobs:
            event.logprobs = self._probable(output, len(event.ids))
        self._finish(event, output, is_last)
        return event if event.text or event.ids or event.finish_reason else None

    def _finish(self, event: Event, output: Any, is_last: bool) -> None:
        """Sets the finish reason. TensorRT-LLM reports the reason of the last sequence only; other sequences ended by
        length or by a stop string."""
        reason, stopped_by = output.finish_reason or "", output.stop_reason
        if self._text.stop:
            reason, stopped_by = "stop", self._text.stop
        elif is_last and not reason:
            reason = "length" if self._ids >= self._most else "stop"
        if not reason:
            return
        self.is_finished = True
        event.finish_reason = reason
        event.stop_reason = "" if stopped_by is None else str(stopped_by)
        # A stop token was generated, and TensorRT-LLM removes it from the ids.
        event.generated = self._ids + (isinstance(stopped_by, int) and self._ids == len(output.token_ids))
        event.cumulative_logprob = output.cumulative_logprob or 0.0

    def _probable(self, output: Any, count: int) -> list[tuple[float, list[tuple[int, float]]]]:
        logprobs = output.logprobs[self._probabilities : self._probabilities + count]
        ids = output.token_ids[self._probabilities : self._probabilities + count]
        self._probabilities += len(logprobs)
        return [
            _probability(entry, token, self._alternatives or 0) for token, entry in zip(ids, logprobs, strict=False)
        ]


def _probability(entry: Any, token: int, count: int) -> tuple[float, list[tuple[int, float]]]:
    """The token's log-probability and the likeliest candidates; a bare number is the token's own."""
    if not isinstance(entry, dict):
        return float(entry), []
    known = {candidate: float(getattr(value, "logprob", value)) for candidate, value in entry.items()}
    likeliest = sorted(known.items(), key=lambda pair: -pair[1])
    return known.get(token, float("-inf")), likeliest[:count]
