"""The text of an answer while its tokens arrive (rehearsal stand-in)."""


class Text:
    """An answer's text as its tokens arrive: whole characters without a possible beginning of a stop word."""

    def __init__(self, tokenizer, stops):
        self._tokenizer, self._stops = tokenizer, [stop for stop in stops if stop]
        self._ids, self._start, self._read = [], 0, 0
        self._held = ""

    def add(self, ids, is_last):
        """Returns (text that is certain now, the stop word that ends it or None)."""
        self._ids += ids
        # Decoded together with earlier tokens, because the text of a token may depend on them.
        before = self._decode(self._ids[self._start : self._read])
        decoded = self._decode(self._ids[self._start :])
        if is_last or not decoded.endswith("\ufffd"):
            self._held += decoded[len(before) :]
            self._start, self._read = self._read, len(self._ids)
        hits = [(self._held.find(stop), stop) for stop in self._stops if stop in self._held]
        if hits:
            place, stop = min(hits)
            return self._held[:place], stop
        kept = 0 if is_last else self._possible_beginning()
        certain, self._held = self._held[: len(self._held) - kept], self._held[len(self._held) - kept :]
        return certain, None

    def _decode(self, ids):
        return self._tokenizer.decode(ids, skip_special_tokens=True)

    def _possible_beginning(self):
        """Returns the number of characters at the end that may begin a stop word."""
        lengths = range(1, max((len(stop) for stop in self._stops), default=0))
        return max((n for n in lengths if any(self._held.endswith(stop[:n]) for stop in self._stops)), default=0)
