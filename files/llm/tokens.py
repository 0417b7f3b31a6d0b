"""A checkpoint's tokenizer: text to ids, and growing lists of ids to text."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer

from llm.events import UNFINISHED
from llm.inputs import Mistake


class Tokens:
    """The tokenizer in `folder`, and the stop tokens of its model."""

    def __init__(self, folder: str) -> None:
        file = Path(folder, "tokenizer.json")
        if not file.is_file():
            raise ValueError(f"{file} is missing: this model's text is made into tokens by that file alone")
        self._tokenizer = Tokenizer.from_file(str(file))
        self.ends = _ends(Path(folder), self._tokenizer)

    def ids(self, prompt: str | list[int], add_special_tokens: bool) -> list[int]:
        """The prompt's tokens; a prompt of token ids is returned as it is. Raises `Mistake`."""
        if isinstance(prompt, str):
            ids = list(self._tokenizer.encode(prompt, add_special_tokens=add_special_tokens).ids)
            if not ids:
                raise Mistake("the prompt has no token")
            return ids
        size = self._tokenizer.get_vocab_size()
        if max(prompt) >= size:
            raise Mistake(f"prompt_token_ids has {max(prompt)}, and the vocabulary ends at {size - 1}")
        return prompt

    def text(self, ids: list[int], skip_special_tokens: bool) -> str:
        """The text of the tokens."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))


class Growing:
    """A growing sequence of an engine, with the attributes of TensorRT-LLM's CompletionOutput."""

    def __init__(self, tokens: Tokens, most: int, stop_ids: list[int], ignores_ends: bool, skips: bool) -> None:
        self._tokens, self._most, self._stop_ids, self._skips = tokens, most, stop_ids, skips
        self._ends = [] if ignores_ends else tokens.ends
        self._start = self._read = 0
        self.text, self.token_ids, self.logprobs = "", [], []
        self.cumulative_logprob, self.finish_reason, self.stop_reason = 0.0, None, None

    def add(self, ids: list[int], logprobs: list[float]) -> None:
        """Adds new tokens. The engine reports no finish reason, so the last token decides it."""
        self.token_ids += ids
        self.logprobs += logprobs
        self.cumulative_logprob += sum(logprobs)
        count = len(self.token_ids)
        if ids and ids[-1] in self._stop_ids:
            self.finish_reason, self.stop_reason = "stop", self.token_ids.pop()
            self.logprobs = self.logprobs[: len(self.token_ids)]
        elif ids and ids[-1] in self._ends:
            self.finish_reason = "stop"
        elif count >= self._most:
            self.finish_reason = "length"
        self._spell()

    def end(self) -> None:
        """Ends the sequence: no tokens follow."""
        self.finish_reason = self.finish_reason or "stop"
        self._spell()

    def _spell(self) -> None:
        """Adds the text of new tokens. The text may depend on earlier tokens, so some of those are decoded again."""
        before = self._tokens.text(self.token_ids[self._start : self._read], self._skips)
        now = self._tokens.text(self.token_ids[self._start :], self._skips)
        if len(now) > len(before) and (self.finish_reason or not now.endswith(UNFINISHED)):
            self.text += now[len(before) :]
            self._start, self._read = self._read, len(self.token_ids)


def _ends(folder: Path, tokenizer: Tokenizer) -> list[int]:
    for name in ("generation_config.json", "config.json"):
        if (folder / name).is_file():
            declared = json.loads((folder / name).read_text()).get("eos_token_id")
            if declared is not None:
                return list(declared) if isinstance(declared, list) else [declared]
    if (folder / "tokenizer_config.json").is_file():
        declared = json.loads((folder / "tokenizer_config.json").read_text()).get("eos_token")
        word = declared.get("content") if isinstance(declared, dict) else declared
        token = tokenizer.token_to_id(word) if word else None
        if token is not None:
            return [token]
    return []
