"""Messages to token ids: an LLM's own template and tokenizer, so that Triton gets ids and no text.

The ids are those that transformers' `apply_chat_template` gives, unless a text of the request spells a control token:
that text then becomes the tokens of its letters. Nothing is put before the template's own text: no second BOS.
"""

from __future__ import annotations

import json
import marshal
import secrets
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, cast

from tokenizers import Tokenizer

from gateway.control_tokens import ControlTokens, texts_in
from gateway.fields import FieldError
from gateway.load import TURNS, Turns
from gateway.logprobs import bytes_of
from gateway.published import content, defaults_of, read_json, source_of, stamps
from gateway.reader import reader_of
from gateway.reasoning import CLOSE, OPEN
from gateway.renderer import Renderer
from gateway.said import Reader
from gateway.settings import ModelSettings
from gateway.templates import Template
from gateway.tools import Tools
from gateway.worker import Lanes, Program

CONSTANTS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
OURS = frozenset({"messages", "tools", "documents", "add_generation_prompt", *CONSTANTS})
"""Variables of a template that no client sets."""
INLINE_CHARACTERS = 4096
"""Texts with fewer are tokenised where they stand: 1 ms (2026-11-25, the tests' tokenizer, two cores of an unnamed
x86-64 VM, tokenizers 0.23.3). Longer ones in a process of their own: the library holds Python's lock as it works, so
in a thread 64 KiB held up every stream for 49 ms, and 3 MiB for 4 s."""
MOST_SECONDS = 10.0
MOST_MORE_BYTES = 640 * 2**20
"""Of a process that tokenises, beside the tokenizer itself: enough for 3 MiB of text, and a prompt of 128 thousand
tokens has half a MiB."""
TOO_MUCH = "they take too long, or too much memory, to tokenise"
UNBOUNDED = 2**62
RENDERED_CHARACTERS = 4 * INLINE_CHARACTERS
"""What the template makes of few characters is tokenised where it stands up to here: 5 ms."""


class TooLong(ValueError):
    """The text has more characters than any prompt of the model."""

    def __init__(self, characters: int, most: int) -> None:
        super().__init__(f"{characters} characters are more than the model's context can hold; it ends at {most}")


class SpellError(ValueError):
    """A text of the request spells a control token in a way that this tokenizer cannot be kept from reading."""


class Form(Protocol):
    """Of a chat template: the variables that it reads, and its text, in which the fields of messages are looked for."""

    @property
    def names(self) -> frozenset[str]: ...

    @property
    def source(self) -> str: ...


class Tokens:
    """An LLM's tokenizer and how its authors sample, read from a folder of its weights. Subclasses know its chats."""

    template: Form
    stop_ids: tuple[int, ...] = ()
    """Tokens that end an answer besides those that the slot knows."""

    def __init__(self, folder: Path, told: Mapping[str, Any]) -> None:
        """`told`: the folder's tokenizer.json, which is large and not kept.

        Raises: OSError, ValueError where it is no tokenizer.
        """
        self._folder, self._stamps = folder, stamps(folder)
        self._tokenizer = tokenizer_of(told)
        self._is_byte_level = '"ByteLevel"' in json.dumps(told.get("decoder"))
        self.vocabulary: int = self._tokenizer.get_vocab_size()
        self.longest = max(
            (len(token) if self._is_byte_level else len(token.encode()) for token in self._tokenizer.get_vocab()),
            default=1,
        )
        """Bytes that a token stands for at most."""
        prepare = {"kind": type(self).__name__, "folder": str(folder)}
        program = Program("gateway.prompt_worker", prepare, MOST_SECONDS, TOO_MUCH, most_more_bytes=MOST_MORE_BYTES)
        self._lanes, self.turns = Lanes(program, TURNS), Turns()
        self.defaults = defaults_of(folder)

    def is_of(self, folder: Path) -> bool:
        """True if it was read from this folder, and the files are still those."""
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

        `most` characters may be tokenised. `is_large`: there is so much that nobody need count.

        Raises: FieldError; ValueError for what the model's form of a chat cannot say; ApiError of `Turns`.
        """
        if is_large or sum(map(len, texts_in([messages, variables, *tools]))) > INLINE_CHARACTERS:
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
        """The prompt for messages that are short together, made in the event loop's time."""
        return self.ids_here(messages, variables, tools, most)

    def ids_here(
        self,
        messages: list[dict[str, Any]],
        variables: Mapping[str, Any],
        tools: Sequence[Mapping[str, Any]],
        most: int,
    ) -> list[int]:
        """The prompt for the messages, made in the caller's time.

        Raises: FieldError, ValueError.
        """
        raise NotImplementedError

    async def ids_of_text(self, text: str, tenant: str = "", most: int = UNBOUNDED) -> Sequence[int]:
        """The ids of a text that is no chat, with the special tokens that the tokenizer puts around one.

        Raises: ValueError where it is too long; ApiError of `Turns`.
        """
        if len(text) > INLINE_CHARACTERS:
            return await self._aside(tenant, (most, within(text, most), None))
        return self.raw(text, most)

    async def _aside(self, tenant: str, asked: tuple[Any, ...]) -> Sequence[int]:
        """The ids that a process beside this one makes."""
        message = marshal.dumps(asked)
        ids = array("i")
        ids.frombytes(await self.turns.work(tenant, lambda: self._lanes.answer(message)))
        return ids

    def reader(self, model: ModelSettings, tools: Tools, is_guided: bool, prompt: Sequence[int]) -> Reader:
        """A reader of one sequence of the answer to this prompt."""
        raise NotImplementedError

    def readers(
        self, model: ModelSettings, tools: Tools, is_guided: bool, prompt: Sequence[int], count: int
    ) -> list[Reader]:
        """A reader for each sequence of the answer to this prompt."""
        return [self.reader(model, tools, is_guided, prompt) for _ in range(count)]

    def spelled(self, identity: int) -> bytes:
        """The bytes that a token stands for."""
        return bytes_of(self._tokenizer.id_to_token(identity) or "", self._is_byte_level)

    def raw(self, text: str, most: int = UNBOUNDED) -> list[int]:
        """The ids of a text that is no chat, made in the caller's time.

        Raises: TooLong.
        """
        ids: list[int] = self._tokenizer.encode(within(text, most)).ids
        return ids


@dataclass(frozen=True)
class NoForm:
    """The form of a model that knows no chats: nothing is read of a message."""

    names: frozenset[str] = frozenset()
    source: str = ""


class Completer(Tokens):
    """An LLM whose weights have no chat template, as base models: texts are completed, chats refused."""

    template: Form = NoForm()

    def __init__(self, folder: Path) -> None:
        """Raises: OSError, ValueError where the folder has no tokenizer."""
        super().__init__(folder, read_json(folder / "tokenizer.json"))

    async def ids(self, *_asked: Any, **_named: Any) -> Sequence[int]:
        """Raises: FieldError."""
        reason = "the model's weights have no chat template; ask /v1/completions, or publish weights that have one"
        raise FieldError("messages", f"`messages`: {reason}", "unsupported")


class Prompter(Tokens):
    """An LLM's own template and tokenizer."""

    template: Renderer

    def __init__(self, folder: Path, template_of: Callable[..., Renderer] | None = None) -> None:
        """`template_of` makes a renderer of the template's source and constants, instead of `Renderer`.

        Raises: OSError, ValueError where the folder has no tokenizer or no chat template.
        """
        told = read_json(folder / "tokenizer.json")
        super().__init__(folder, told)
        config = read_json(folder / "tokenizer_config.json")
        source = source_of(folder, config)
        if not source:
            raise ValueError(f"{folder}: the weights have no chat template")
        self.constants = {name: text for name in CONSTANTS if (text := content(config.get(name))) is not None}
        self.template = (template_of or Renderer)(source, self.constants)
        self.control = ControlTokens(told.get("added_tokens", []), source)
        self._plain = tokenizer_of(without(told, self.control.entries))

    async def ids_of_few(
        self,
        messages: list[dict[str, Any]],
        variables: Mapping[str, Any],
        tools: Sequence[Mapping[str, Any]],
        tenant: str,
        most: int,
    ) -> Sequence[int]:
        """The prompt for the assistant's next message.

        Raises: TemplateError; SpellError; ValueError where the texts leave no mark free.
        """
        given, mark = self._marked(messages, variables, list(tools))
        text = await self.template.render({"add_generation_prompt": True, **given})
        if len(text) > RENDERED_CHARACTERS:
            return await self._aside(tenant, (most, "", (messages, dict(variables), [*tools])))
        return self._encoded(within(text, most), mark)

    def ids_here(
        self,
        messages: list[dict[str, Any]],
        variables: Mapping[str, Any],
        tools: Sequence[Mapping[str, Any]],
        most: int,
    ) -> list[int]:
        """Within a process of its own, where the template is compiled.

        Raises: TemplateError; SpellError; ValueError where the texts leave no mark free.
        """
        given, mark = self._marked(messages, variables, list(tools))
        template = cast(Template, self.template)
        return self._encoded(within(template.render({"add_generation_prompt": True, **given}), most), mark)

    def _marked(
        self, messages: list[dict[str, Any]], variables: Mapping[str, Any], tools: list[Mapping[str, Any]]
    ) -> tuple[dict[str, Any], str]:
        mark = self.control.mark_for([messages, variables, tools])
        given = {"messages": self.control.marked_messages(messages, mark)}
        given |= {"tools": self.control.marked(tools, mark)} if tools else {}
        return {**given, **self.control.marked(dict(variables), mark)}, mark

    def _encoded(self, text: str, mark: str) -> list[int]:
        if mark not in text:
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
            if [one for one in ids if one in self.control.ids] == self._control_ids(text):
                return ids
        return self._in_pieces(text, mark)

    def reader(self, model: ModelSettings, tools: Tools, is_guided: bool, prompt: Sequence[int]) -> Reader:
        """Reasoning, text and calls by the model's parsers."""
        return self.readers(model, tools, is_guided, prompt, 1)[0]

    def readers(
        self, model: ModelSettings, tools: Tools, is_guided: bool, prompt: Sequence[int], count: int
    ) -> list[Reader]:
        """A reader for each sequence; the prompt is looked through once."""
        in_thought = bool(model.reasoning_parser) and self.opens_thought(prompt)
        begins, ends = self._marks()
        marks = None if begins is None or ends is None else (begins, ends)
        given = model.tool_parser, model.reasoning_parser, tools, is_guided, in_thought, marks
        return [reader_of(*given) for _ in range(count)]

    def _marks(self) -> tuple[int | None, int | None]:
        return self.control.entries.get(OPEN, {}).get("id"), self.control.entries.get(CLOSE, {}).get("id")

    def opens_thought(self, prompt: Sequence[int]) -> bool:
        """True if the prompt ends within a thought, which the template has opened for the model."""
        begins, ends = self._marks()
        last = next((one for one in reversed(prompt) if one in (begins, ends)), None)
        return last is not None and last == begins

    def _control_ids(self, text: str) -> list[int]:
        return [int(self.control.entries[found[0]]["id"]) for found in self.control.all.pattern.finditer(text)]

    def _in_pieces(self, text: str, mark: str) -> list[int]:
        found = list(self.control.all.pattern.finditer(text))
        edges = [(0, 0), *(match.span() for match in found), (len(text), len(text))]
        ids: list[int] = []
        for number, ((_, start), (end, _)) in enumerate(pairwise(edges)):
            before = self.control.entries[found[number - 1][0]] if number else {}
            after = self.control.entries[found[number][0]] if number < len(found) else {}
            piece = text[start:end]
            piece = piece.lstrip() if before.get("rstrip") else piece
            piece = piece.rstrip() if after.get("lstrip") else piece
            ids += self._spelled(piece.replace(mark, ""))
            if after:
                ids.append(int(after["id"]))
        return ids

    def _spelled(self, piece: str) -> list[int]:
        ids: list[int] = self._plain.encode(piece, add_special_tokens=False).ids
        if not self.control.ids.isdisjoint(ids):
            raise SpellError("a text spells a control token of this model; take it out")
        return ids


def within(text: str, most: int) -> str:
    """The text, which has at most so many characters.

    Raises: TooLong.
    """
    if len(text) > most:
        raise TooLong(len(text), most)
    return text


def tokenizer_of(told: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer without the truncation and padding that published files carry.

    Raises: ValueError where the library gives an added token another id than the file.
    """
    tokenizer = Tokenizer.from_str(json.dumps(told))
    for one in told.get("added_tokens", []):
        if tokenizer.token_to_id(one["content"]) != one["id"]:
            raise ValueError(f"tokenizer.json: added token {one['id']} has another id here")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def without(told: Mapping[str, Any], control: Collection[str]) -> dict[str, Any]:
    """The tokenizer's file with other names for the control tokens: random ones, which nobody can spell.

    Names, not gaps: the library counts added tokens anew, so the ones after a gap would get the ids of others.
    """
    names = {text: secrets.token_hex(32) for text in control}
    model, vocabulary = told["model"], told["model"].get("vocab")
    if isinstance(vocabulary, dict):
        vocabulary = {names.get(text, text): identity for text, identity in vocabulary.items()}
    elif isinstance(vocabulary, list):
        vocabulary = [[names.get(text, text), *rest] for text, *rest in vocabulary]
    unknown = model.get("unk_token")
    model = {**model, "vocab": vocabulary} | ({"unk_token": names.get(unknown, unknown)} if unknown else {})
    added = [{**one, "content": names.get(one["content"], one["content"])} for one in told.get("added_tokens", [])]
    return {**told, "model": model, "added_tokens": added}
