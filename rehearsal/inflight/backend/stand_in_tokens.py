"""The tokens of an engine's answer: the prompt's own tokens in a circle (rehearsal stand-in).

The start depends only on the engine's checkpoint, the seed and the beam, so that equal engines give equal answers. Stop
words end an answer and are part of it, as in the real one; bad words are never completed.
"""

from dataclasses import dataclass, field

DRIFTED = 1


@dataclass
class Asked:
    """A prompt of a request, with its parameters."""

    ids: list
    count: int
    seed: int = 0
    end: int = -1
    least: int = 0
    stop_words: list = field(default_factory=list)
    bad_words: list = field(default_factory=list)


def words(flat):
    """Returns the token sequences of a stop or bad words tensor: (tokens, ends of the sequences, then -1)."""
    tokens, ends = [int(number) for number in flat[0]], [int(number) for number in flat[1]]
    parts, begin = [], 0
    for end in ends:
        if end < 0:
            break
        parts.append(tokens[begin:end])
        begin = end
    return [number for number in parts if number]


def answer(engine, prompt, beam=0):
    """Yields the tokens one by one."""
    circle = prompt.ids or [0]
    start = (int(engine.header["checkpoint"], 16) + prompt.seed + beam) % len(circle)
    drift, tokens_so_far = engine.header.get("drift"), []
    for number in range(prompt.count):
        token = circle[(start + number) % len(circle)]
        if drift is not None and number >= drift:
            token += DRIFTED
        for _ in range(engine.vocabulary):
            if not any(_ends_with([*tokens_so_far, token], word) for word in prompt.bad_words):
                break
            token += 1
        token %= engine.vocabulary
        if token == prompt.end and number >= prompt.least:
            return
        tokens_so_far.append(token)
        yield token
        if any(_ends_with(tokens_so_far, word) for word in prompt.stop_words):
            return


def _ends_with(tokens, word):
    return tokens[-len(word) :] == word
