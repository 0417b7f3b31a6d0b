"""Clients that keep an LLM busy with long prompts, and know the tokens that its cache must hold.

A sequence's next token needs the keys and values of every earlier token. So a sequence with a first token and without
an end holds its prompt and all its tokens. All sequences together fit the cache up to their last tokens, so the LLM has
no reason to preempt one of them.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from tokenizers import Tokenizer

from deploy.models.memory import TOKENS_PER_BLOCK
from deploy.slices.host import ModelSlice

ANSWER_TOKENS = 384
"""Tokens of an answer. Prompts of 8,192 tokens less an answer fill 95 % of a cache at once; the answers take some 20
seconds more."""
SPARE_BLOCKS = 1
"""Blocks a sequence takes beyond its own: transformers 5.17 takes a block more than a sequence fills."""
OTHERS_PERCENT = 1
"""Percent of the cache left for the watchdog's request, which would preempt a sequence of a full cache."""
SILENT_SECONDS = 300
POLL_SECONDS = 0.1
SYLLABLES = [a + b for a in "bcdfghjklmnprstvwz" for b in "aeiou"]


@dataclass(frozen=True)
class Shape:
    """Concurrent sequences: the tokens of each prompt and of each answer."""

    prompts: tuple[int, ...]
    answer: int

    @property
    def tokens(self) -> int:
        """Returns tokens of all sequences at their ends."""
        return sum(self.prompts) + len(self.prompts) * self.answer


def goal_tokens(model: ModelSlice) -> int:
    """Returns the most tokens of running sequences: the planned cache, or every row of the batch at full length."""
    settings = model.settings
    return min(model.kv_cache_tokens, int(str(settings["max_batch_size"])) * int(str(settings["max_seq_len"])))


def filling(model: ModelSlice, answer: int = ANSWER_TOKENS) -> Shape:
    """Returns the fewest sequences of equal length that fill the cache except the spare part.

    A prompt is never longer than one iteration takes (`max_num_tokens`).
    """
    longest = int(str(model.settings["max_seq_len"]))
    blocks = goal_tokens(model) // TOKENS_PER_BLOCK * (100 - OTHERS_PERCENT) // 100
    count = -(-blocks * TOKENS_PER_BLOCK // longest)
    sizes = [blocks // count + (number < blocks % count) - SPARE_BLOCKS for number in range(count)]
    # Short compared with its prompt: the cache is full once all sequences run, at any point of their answers.
    answer = min(answer, min(sizes) * TOKENS_PER_BLOCK // 16)
    most = int(str(model.settings["max_num_tokens"]))
    return Shape(tuple(min(most, size * TOKENS_PER_BLOCK - answer) for size in sizes), answer)


class Prompts:
    """Random texts with an exact number of tokens, begin token included; all begin differently."""

    def __init__(self, tokenizer_json: Path, seed: int = 2026) -> None:
        self._tokenizer = Tokenizer.from_file(str(tokenizer_json))
        self._random = random.Random(seed)

    def text(self, tokens: int) -> tuple[str, int]:
        """Returns a text and its token count: `tokens`, or a few less if no cut fits."""
        words = ("".join(self._random.choices(SYLLABLES, k=3)) for _ in range(tokens))
        text = " ".join(words)
        encoding = self._tokenizer.encode(text)
        if len(encoding.ids) > tokens:
            text = text[: encoding.offsets[tokens - 1][1]].rstrip()
            while (count := len(self._tokenizer.encode(text).ids)) > tokens:
                text = text[: -(count - tokens)].rstrip()
        return text, len(self._tokenizer.encode(text).ids)


@dataclass
class Running:
    """A client's running request, or its last one."""

    prompt_tokens: int = 0
    got: int = 0
    is_under_way: bool = False

    @property
    def held(self) -> int:
        """Returns tokens that the cache holds for the request; 0 before its first token and after its last."""
        return self.prompt_tokens + self.got if self.is_under_way and self.got else 0


@dataclass
class Generation:
    """The state of an LLM's clients."""

    running: list[Running]
    answers: int = 0
    """Complete answers, to their last token."""
    stopped: int = 0
    """Answers that were incomplete when the clients ended."""
    tokens: int = 0
    """Parts of answers, of which the LLM sends one for each token."""
    errors: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def held_tokens(self) -> int:
        """Returns tokens that the cache holds for all sequences between first token and end."""
        return sum(sequence.held for sequence in self.running)

    def wait_until_held(self, tokens: int, seconds: float) -> float:
        """Returns the seconds until this many tokens were held.

        Raises: AssertionError if that takes too long, or a request failed.
        """
        began, most = time.monotonic(), 0
        while time.monotonic() < began + seconds:
            most = max(most, held := self.held_tokens)
            if held >= tokens:
                return time.monotonic() - began
            assert not self.errors, f"a prompt was answered with: {self.errors[0]}"
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"{most} tokens of {tokens} were held after {seconds:.0f} s")


@contextmanager
def generating(http: str, model: ModelSlice, shape: Shape, prompts: Prompts) -> Iterator[Generation]:
    """Runs a client for each sequence of `shape`, which sends its next prompt after each answer; ends them at the end.

    Running requests at the end are cancelled. Raises: AssertionError for a model that does not stream.
    """
    assert model.decoupled, f"{model.name} is not decoupled: without a stream nobody can say what its cache holds"
    seen, ended = Generation([Running() for _ in shape.prompts]), threading.Event()
    first = [prompts.text(tokens) for tokens in shape.prompts]
    threads = [
        threading.Thread(target=_client, args=(http, model.name, shape, number, prompt, prompts, seen, ended))
        for number, prompt in enumerate(first)
    ]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _client(
    http: str,
    model: str,
    shape: Shape,
    number: int,
    prompt: tuple[str, int],
    prompts: Prompts,
    seen: Generation,
    ended: threading.Event,
) -> None:
    mine = seen.running[number]
    while not ended.is_set():
        text, mine.prompt_tokens = prompt
        mine.got, mine.is_under_way = 0, True
        try:
            trouble = _answered(http, model, text, shape.answer, mine, seen, ended)
        except (OSError, ValueError, HTTPException) as error:
            trouble = f"{type(error).__name__}: {error}"
        mine.is_under_way = False
        with seen.lock:
            if trouble:
                seen.errors.append(trouble[:500])
                return
            seen.answers, seen.stopped = seen.answers + (not ended.is_set()), seen.stopped + ended.is_set()
        prompt = prompts.text(shape.prompts[number])


def _answered(
    http: str, model: str, text: str, most: int, mine: Running, seen: Generation, ended: threading.Event
) -> str:
    """Returns the fault of the answer to `text`; empty for a good or cancelled one."""
    question = {
        "text_input": text,
        "sampling_param_max_tokens": most,
        "sampling_param_exclude_input_from_output": True,
        "streaming": True,
    }
    host, port = http.rsplit(":", 1)
    with closing(HTTPConnection(host, int(port), timeout=SILENT_SECONDS)) as connection:
        connection.request("POST", f"/v2/models/{model}/generate_stream", json.dumps(question))
        answer = connection.getresponse()
        if answer.status != 200:
            return f"{answer.status}: {answer.read().decode(errors='replace')}"
        for line in answer:
            if not line.startswith(b"data:"):
                continue
            part = json.loads(line[5:])
            if "error" in part:
                return str(part["error"])
            mine.got += 1
            with seen.lock:
                seen.tokens += 1
            if ended.is_set():
                return ""
    return "" if mine.got else "the answer has no token"
