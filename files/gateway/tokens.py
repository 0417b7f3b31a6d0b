"""An LLM's tokenizer and default sampling. Short texts are tokenised here, long ones in a separate process.

Ids are those of the weights' own tokenizer; `prompts` and `harmony` make ids of chats.
"""

from __future__ import annotations

import json
import marshal
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from gateway.answer_parts import Reader
from gateway.control_tokens import texts_in, tokenizer_of
from gateway.harmless_tokenizers import is_harmless
from gateway.lanes import Lanes
from gateway.load import Turns
from gateway.logprobs import bytes_of
from gateway.published import defaults_of, stamps
from gateway.settings import ModelSettings
from gateway.tools import Tools
from gateway.worker import Program

INLINE_CHARACTERS = 4096
"""Texts with fewer characters are tokenised in the event loop, if the tokenizer is harmless: 1 ms (2026-11-25, the
tests' tokenizer, two cores of an unnamed x86-64 VM, tokenizers 0.23.3). Longer texts have a separate process: the
library holds Python's lock while working, so in a thread 64 KiB blocked every stream for 49 ms, and 3 MiB for 4 s."""
SHORT_BYTES = 65_536
"""Prompts up to this size, 16 thousand tokens of English, do not wait for longer prompts; each takes 50 ms at most."""
MOST_SECONDS = 10.0
MOST_MORE_BYTES = 640 * 2**20
"""Memory of a process that tokenises, beside the tokenizer itself: enough for 3 MiB of text. A prompt of 128 thousand
tokens has half a MiB."""
TOO_MUCH = "tokenising them takes too long, or too much memory"
UNBOUNDED = 2**62


class TooLong(ValueError):
    """The text has more characters than any prompt of the model."""

    def __init__(self, characters: int, most: int) -> None:
        super().__init__(f"{characters} characters are too many for the model's context, which holds at most {most}")


class Form(Protocol):
    """The variables that a chat template reads, and its text, which is searched for the fields of messages."""

    @property
    def names(self) -> frozenset[str]: ...

    @property
    def source(self) -> str: ...


class Tokens:
    """An LLM's tokenizer and default sampling, read from a folder of its weights. Subclasses handle chats."""

    template: Form
    stop_ids: tuple[int, ...] = ()
    """Tokens that end an answer besides those that the slot knows."""

    def __init__(self, folder: Path, tokenizer_json: Mapping[str, Any]) -> None:
        """`tokenizer_json`: the folder's tokenizer.json, which is large and not stored.

        Raises: OSError, ValueError if it is not a tokenizer.
        """
        self._folder, self._stamps = folder, stamps(folder)
        self._tokenizer = tokenizer_of(tokenizer_json)
        self._is_harmless = is_harmless(tokenizer_json)
        self._inline_characters = INLINE_CHARACTERS if self._is_harmless else -1
        self._special = {entry["id"] for entry in tokenizer_json.get("added_tokens", []) if entry.get("special")}
        self._is_byte_level = '"ByteLevel"' in json.dumps(tokenizer_json.get("decoder"))
        self.vocabulary: int = self._tokenizer.get_vocab_size()
        self.longest = max(
            (len(token) if self._is_byte_level else len(token.encode()) for token in self._tokenizer.get_vocab()),
            default=1,
        )
        """Bytes that a token stands for at most."""
        prepare = {"kind": type(self).__name__, "folder": str(folder)}
        program = Program("gateway.prompt_worker", prepare, MOST_SECONDS, TOO_MUCH, most_more_bytes=MOST_MORE_BYTES)
        self.lanes = Lanes(program, Turns(), SHORT_BYTES)
        self.defaults = defaults_of(folder)

    def is_of(self, folder: Path) -> bool:
        return folder == self._folder and stamps(folder) == self._stamps

    async def ids(
        self,
        messages: list[dict[str, Any]],
        variables: Mapping[str, Any],
        tools: Sequence[Mapping[str, Any]] = (),
        tenant: str = "",
        most: int = UNBOUNDED,
        is_large: bool = False,
    ) -> Sequence[int]:
        """The prompt for the assistant's next message; `variables` are the client's own for the template.

        `most` characters may be tokenised. `is_large`: the messages are certainly long.

        Raises: FieldError; ValueError for content that the model's chat form cannot express; ApiError of `Turns`.
        """
        if is_large or sum(map(len, texts_in([messages, variables, *tools]))) > self._inline_characters:
            return await self._aside(tenant, (most, "", (messages, dict(variables), [*tools])))
        return await self.ids_of_few(messages, variables, tools, tenant, most)

    async def ids_of_few(
        self,
        messages: list[dict[str, Any]],
        variables: Mapping[str, Any],
        tools: Sequence[Mapping[str, Any]],
        tenant: str,
        most: int,
    ) -> Sequence[int]:
        return self.ids_here(messages, variables, tools, most)

    def ids_here(
        self,
        messages: list[dict[str, Any]],
        variables: Mapping[str, Any],
        tools: Sequence[Mapping[str, Any]],
        most: int,
    ) -> list[int]:
        """The prompt for the messages, made in the calling thread.

        Raises: FieldError, ValueError.
        """
        raise NotImplementedError

    async def ids_of_text(self, text: str, tenant: str = "", most: int = UNBOUNDED) -> Sequence[int]:
        """The ids of a text that is not a chat, with the tokenizer's special tokens around it.

        Raises: ValueError if it is too long; ApiError of `Turns`.
        """
        if len(text) > self._inline_characters:
            return await self._aside(tenant, (most, within(text, most), None))
        return self.raw(text, most)

    async def _aside(self, tenant: str, job: tuple[Any, ...]) -> Sequence[int]:
        """Token ids of a text, computed in a separate process."""
        message = marshal.dumps(job)
        ids = array("i")
        ids.frombytes(await self.lanes.answer(tenant, message))
        return ids

    def reader(self, model: ModelSettings, tools: Tools, is_guided: bool, prompt: Sequence[int]) -> Reader:
        raise NotImplementedError

    def readers(
        self, model: ModelSettings, tools: Tools, is_guided: bool, prompt: Sequence[int], count: int
    ) -> list[Reader]:
        return [self.reader(model, tools, is_guided, prompt) for _ in range(count)]

    def spelled(self, identity: int) -> bytes:
        return bytes_of(self._tokenizer.id_to_token(identity) or "", self._is_byte_level)

    def text(self, ids: Sequence[int]) -> str:
        if not self._is_harmless:
            return b"".join(self.spelled(token) for token in ids if token not in self._special).decode(errors="replace")
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    async def without_special(self, ids: Sequence[int], tenant: str) -> Sequence[int]:
        """The ids of a text without the special tokens that the tokenizer sets before and behind every text."""
        special, whole = [list(await self.ids_of_text(text, tenant)) for text in ("", "a")]
        before = next((place for place, token in enumerate(special) if whole[place] != token), len(special))
        return ids[before : len(ids) - (len(special) - before)]

    def raw(self, text: str, most: int = UNBOUNDED) -> list[int]:
        """The ids of a text that is not a chat, made in the calling thread.

        Raises: TooLong.
        """
        ids: list[int] = self._tokenizer.encode(within(text, most)).ids
        return ids


def within(text: str, most: int) -> str:
    """The text unchanged, if it has at most `most` characters.

    Raises: TooLong.
    """
    if len(text) > most:
        raise TooLong(len(text), most)
    return text
