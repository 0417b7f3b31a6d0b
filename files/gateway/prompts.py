"""Messages to token ids: an LLM's own template and tokenizer, so that Triton gets ids and no text.

The ids are those that transformers' `apply_chat_template` gives, unless a text of the request spells a control token:
that text then becomes the tokens of its letters. No token is put before the template's own text, so there is no second
BOS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from gateway.answer_parts import Reader
from gateway.control_tokens import ControlTokens, tokenizer_of, without
from gateway.fields import FieldError
from gateway.published import content, read_json, source_of
from gateway.reader import reader_of
from gateway.reasoning import CLOSE, OPEN
from gateway.renderer import Renderer
from gateway.settings import ModelSettings
from gateway.templates import Template
from gateway.tokens import INLINE_CHARACTERS, Form, Tokens, within
from gateway.tools import Tools

CONSTANTS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
OURS = frozenset({"messages", "tools", "documents", "add_generation_prompt", *CONSTANTS})
"""Variables of a template that no client sets."""
RENDERED_CHARACTERS = 4 * INLINE_CHARACTERS
"""Characters of a rendered short chat that are tokenised in the event loop: 5 ms."""


class SpellError(ValueError):
    """A text of the request spells a control token, and this tokenizer cannot be kept from reading it so."""


@dataclass(frozen=True)
class NoForm:
    """The form of a model without chats: no field of a message is read."""

    names: frozenset[str] = frozenset()
    source: str = ""


class Completer(Tokens):
    """An LLM without a chat template, such as a base model: texts are completed, chats are refused."""

    template: Form = NoForm()

    def __init__(self, folder: Path) -> None:
        """Raises: OSError, ValueError if the folder has no tokenizer."""
        super().__init__(folder, read_json(folder / "tokenizer.json"))

    async def ids(self, *_arguments: Any, **_named: Any) -> Sequence[int]:
        """Raises: FieldError."""
        reason = "the model's weights have no chat template; use /v1/completions, or serve weights with a chat template"
        raise FieldError("messages", f"`messages`: {reason}", "unsupported")


class Prompter(Tokens):
    """An LLM's own template and tokenizer."""

    template: Renderer

    def __init__(self, folder: Path, template_of: Callable[..., Renderer] | None = None) -> None:
        """`template_of` makes a renderer of the template's source and constants, instead of `Renderer`.

        Raises: OSError, ValueError if the folder has no tokenizer or no chat template.
        """
        tokenizer_json = read_json(folder / "tokenizer.json")
        super().__init__(folder, tokenizer_json)
        config = read_json(folder / "tokenizer_config.json")
        source = source_of(folder, config)
        if not source:
            raise ValueError(f"{folder}: the weights have no chat template")
        self.constants = {name: text for name in CONSTANTS if (text := content(config.get(name))) is not None}
        self.template = (template_of or Renderer)(source, self.constants)
        self.control = ControlTokens(tokenizer_json.get("added_tokens", []), source)
        self._plain = tokenizer_of(without(tokenizer_json, self.control.entries))

    async def ids_of_few(
        self,
        messages: list[dict[str, Any]],
        variables: Mapping[str, Any],
        tools: Sequence[Mapping[str, Any]],
        tenant: str,
        most: int,
    ) -> Sequence[int]:
        """The prompt for the assistant's next message.

        Raises: TemplateError; SpellError; ValueError if the texts use every possible mark.
        """
        context, mark = self._marked(messages, variables, list(tools))
        text = await self.template.render({"add_generation_prompt": True, **context})
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
        """The prompt, made within a separate process, where the template is compiled.

        Raises: TemplateError; SpellError; ValueError if the texts use every possible mark.
        """
        context, mark = self._marked(messages, variables, list(tools))
        template = cast(Template, self.template)
        return self._encoded(within(template.render({"add_generation_prompt": True, **context}), most), mark)

    def _marked(
        self, messages: list[dict[str, Any]], variables: Mapping[str, Any], tools: list[Mapping[str, Any]]
    ) -> tuple[dict[str, Any], str]:
        mark = self.control.mark_for([messages, variables, tools])
        context = {"messages": self.control.marked_messages(messages, mark)}
        context |= {"tools": self.control.marked(tools, mark)} if tools else {}
        return {**context, **self.control.marked(dict(variables), mark)}, mark

    def _encoded(self, text: str, mark: str) -> list[int]:
        if mark not in text:
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
            if [identity for identity in ids if identity in self.control.ids] == self._control_ids(text):
                return ids
        return self._in_pieces(text, mark)

    def reader(self, model: ModelSettings, tools: Tools, is_guided: bool, prompt: Sequence[int]) -> Reader:
        return self.readers(model, tools, is_guided, prompt, 1)[0]

    def readers(
        self, model: ModelSettings, tools: Tools, is_guided: bool, prompt: Sequence[int], count: int
    ) -> list[Reader]:
        """A reader for each sequence; the prompt is examined once."""
        in_thought = bool(model.reasoning_parser) and self.opens_thought(prompt)
        begins, ends = self._marks()
        marks = None if begins is None or ends is None or not model.has_ids else (begins, ends)
        arguments = model.tool_parser, model.reasoning_parser, tools, is_guided, in_thought, marks
        return [reader_of(*arguments) for _ in range(count)]

    def _marks(self) -> tuple[int | None, int | None]:
        return self.control.entries.get(OPEN, {}).get("id"), self.control.entries.get(CLOSE, {}).get("id")

    def opens_thought(self, prompt: Sequence[int]) -> bool:
        """True if the prompt ends within a thought that the template has opened for the model."""
        begins, ends = self._marks()
        last = next((identity for identity in reversed(prompt) if identity in (begins, ends)), None)
        return last is not None and last == begins

    def _control_ids(self, text: str) -> list[int]:
        return [int(self.control.entries[match[0]]["id"]) for match in self.control.all.pattern.finditer(text)]

    def _in_pieces(self, text: str, mark: str) -> list[int]:
        matches = list(self.control.all.pattern.finditer(text))
        edges = [(0, 0), *(match.span() for match in matches), (len(text), len(text))]
        ids: list[int] = []
        for number, ((_, start), (end, _)) in enumerate(pairwise(edges)):
            before = self.control.entries[matches[number - 1][0]] if number else {}
            after = self.control.entries[matches[number][0]] if number < len(matches) else {}
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
            raise SpellError("a text spells a control token of this model; remove the token")
        return ids
