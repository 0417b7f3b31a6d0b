"""A stand-in for openai-harmony, without its vocabulary: each byte is a token.

It keeps the behaviour of openai-harmony 0.0.8 that the gateway relies on: the vocabulary's place in the environment,
texts that never become control tokens, the tokens at which a parser opens, ends and refuses a message, and the
parser's state after each token.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any

SPECIAL = ["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"]
START, CHANNEL, MESSAGE, CONSTRAIN, END, CALL, RETURN = range(len(SPECIAL))


class HarmonyError(Exception):
    """The exception that the library raises."""


class Role(Enum):
    """The role of a message."""

    USER, ASSISTANT, SYSTEM, DEVELOPER, TOOL = "user", "assistant", "system", "developer", "tool"


class ReasoningEffort(Enum):
    """The reasoning effort in the system message."""

    LOW, MEDIUM, HIGH = "Low", "Medium", "High"


class Builder:
    """The library's objects that are built with `new` and `with_…`: keeps every value that was passed."""

    def __init__(self, *values: Any, **named: Any) -> None:
        self.values, self.fields = values, named

    @classmethod
    def new(cls, *values: Any, **named: Any) -> Builder:
        return cls(*values, **named)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("with_"):
            raise AttributeError(name)
        return lambda value: (self.fields.__setitem__(name.removeprefix("with_"), value), self)[1]

    def text(self) -> str:
        """Returns all values as text."""
        return " ".join(
            part.text()
            if isinstance(part, Builder)
            else " ".join(map(Builder.text, part))
            if isinstance(part, list)
            else str(part)
            for part in (*self.values, *self.fields.values())
        )


Author = SystemContent = DeveloperContent = ToolDescription = Builder


class Message(Builder):
    """A message."""

    @classmethod
    def from_role_and_content(cls, role: Role, content: Any) -> Message:
        return cls(Builder(role=role), content)

    @classmethod
    def from_author_and_content(cls, author: Builder, content: Any) -> Message:
        return cls(author, content)


class Conversation:
    """Messages."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages

    @classmethod
    def from_messages(cls, messages: Sequence[Message]) -> Conversation:
        return cls(messages)


class HarmonyEncoding:
    """An encoding with the control tokens first, then a token for each byte."""

    def stop_tokens(self) -> list[int]:
        return [END, CALL, RETURN]

    def stop_tokens_for_assistant_actions(self) -> list[int]:
        return [CALL, RETURN]

    def is_special_token(self, token: int) -> bool:
        return token < len(SPECIAL)

    def encode(self, text: str, *, allowed_special: Any = frozenset()) -> list[int]:
        tokens, place = [], 0
        while place < len(text):
            word = next((control for control in SPECIAL if text.startswith(control, place)), "")
            if word and (allowed_special == "all" or word in allowed_special):
                tokens.append(SPECIAL.index(word))
                place += len(word)
            else:
                tokens += [byte + 100 for byte in text[place].encode()]
                place += 1
        return tokens

    def raw(self, tokens: Sequence[int]) -> bytes:
        return b"".join(SPECIAL[token].encode() if token < 100 else bytes([token - 100]) for token in tokens)

    def decode(self, tokens: Sequence[int]) -> str:
        return self.raw(tokens).decode("utf-8", "replace")

    def decode_utf8(self, tokens: Sequence[int]) -> str:
        try:
            return self.raw(tokens).decode()
        except UnicodeDecodeError as error:
            raise HarmonyError(str(error)) from None

    def render_conversation_for_completion(self, conversation: Conversation, role: Role) -> list[int]:
        tokens: list[int] = []
        for message in conversation.messages:
            author, content = message.values
            who = author.values[-1] if len(author.values) > 1 else (author.fields.get("role") or author.values[0]).value
            header = who + "".join(f" to={to}" for to in [message.fields.get("recipient")] if to)
            tokens += [START, *self.encode(header)]
            if "channel" in message.fields:
                tokens += [CHANNEL, *self.encode(message.fields["channel"])]
            if kind := message.fields.get("content_type"):
                tokens += [*self.encode(" "), CONSTRAIN, *self.encode(kind.removeprefix("<|constrain|>"))]
            tokens += [MESSAGE, *self.encode(content.text() if isinstance(content, Builder) else content)]
            tokens.append(CALL if who == "assistant" and "recipient" in message.fields else END)
        return [*tokens, START, *self.encode(role.value)]


class StreamableParser:
    """Reads tokens one by one."""

    def __init__(self, encoding: HarmonyEncoding, role: Role | None, *, strict: bool = True) -> None:
        assert not strict
        self._encoding, self._state = encoding, "header" if role else "start"
        self._held: list[int] = []
        self.current_channel: str | None = None
        self.current_recipient: str | None = None
        self.last_content_delta: str | None = None

    def process(self, token: int) -> StreamableParser:
        if self._state == "start":
            if token != START:
                raise HarmonyError("expecting start token")
            self._state = "header"
        elif self._state == "header":
            self._in_header(token)
        elif token in self._encoding.stop_tokens():
            self._ended()
        else:
            self._held.append(token)
            try:
                self.last_content_delta, self._held = self._encoding.decode_utf8(self._held), []
            except HarmonyError:
                self.last_content_delta = None
        return self

    def _in_header(self, token: int) -> None:
        if token in self._encoding.stop_tokens():
            self._ended()
        elif token != MESSAGE:
            self._held.append(token)
        else:
            header, self._held = self._encoding.decode(self._held), []
            self._state = "start"
            before, mark, after = header.partition(SPECIAL[CHANNEL])
            channel, *others = after.replace("<", " <").split() or [""] if mark else [None]
            if mark and (not channel or channel.startswith("<")):
                raise HarmonyError("no channel value found in header")
            to = [word.removeprefix("to=") for word in [*before.split(), *others] if word.startswith("to=")]
            self.current_channel, self.current_recipient = channel, to[0] if to else None
            self._state = "content"

    def _ended(self) -> None:
        self._state, self._held = "start", []
        self.current_channel = self.current_recipient = self.last_content_delta = None


def load_harmony_encoding(name: str) -> HarmonyEncoding:
    """Refuses to start without the file, as the library does."""
    assert name == "HarmonyGptOss"
    if not (Path(os.environ["TIKTOKEN_ENCODINGS_BASE"]) / "o200k_base.tiktoken").exists():
        raise HarmonyError("No such file or directory")
    return HarmonyEncoding()
