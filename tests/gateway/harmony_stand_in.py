"""A stand-in for openai-harmony, whose vocabulary nobody brings to a test: a letter is a token.

It keeps what the gateway relies on, as openai-harmony 0.0.8 has it: the vocabulary's place in the environment, texts
that never become control tokens, where a parser opens, ends and refuses a message, and what it says of a token.
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
    """What the library raises."""


class Role(Enum):
    """Of a message."""

    USER, ASSISTANT, SYSTEM, DEVELOPER, TOOL = "user", "assistant", "system", "developer", "tool"


class ReasoningEffort(Enum):
    """Of the system's message."""

    LOW, MEDIUM, HIGH = "Low", "Medium", "High"


class Told:
    """Anything that is made by `new` and grows by `with_…`; it remembers what it was told."""

    def __init__(self, *values: Any, **named: Any) -> None:
        self.values, self.told = values, named

    @classmethod
    def new(cls, *values: Any, **named: Any) -> Told:
        return cls(*values, **named)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("with_"):
            raise AttributeError(name)
        return lambda value: (self.told.__setitem__(name.removeprefix("with_"), value), self)[1]

    def text(self) -> str:
        """All that it was told."""
        return " ".join(
            each.text()
            if isinstance(each, Told)
            else " ".join(map(Told.text, each))
            if isinstance(each, list)
            else str(each)
            for each in (*self.values, *self.told.values())
        )


Author = SystemContent = DeveloperContent = ToolDescription = Told


class Message(Told):
    """A message."""

    @classmethod
    def from_role_and_content(cls, role: Role, content: Any) -> Message:
        return cls(Told(role=role), content)

    @classmethod
    def from_author_and_content(cls, author: Told, content: Any) -> Message:
        return cls(author, content)


class Conversation:
    """Messages."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages

    @classmethod
    def from_messages(cls, messages: Sequence[Message]) -> Conversation:
        return cls(messages)


class HarmonyEncoding:
    """Tokens: the control tokens first, then a letter each, of more than a byte one for each byte."""

    def stop_tokens(self) -> list[int]:
        return [END, CALL, RETURN]

    def stop_tokens_for_assistant_actions(self) -> list[int]:
        return [CALL, RETURN]

    def is_special_token(self, token: int) -> bool:
        return token < len(SPECIAL)

    def encode(self, text: str, *, allowed_special: Any = frozenset()) -> list[int]:
        found, place = [], 0
        while place < len(text):
            word = next((one for one in SPECIAL if text.startswith(one, place)), "")
            if word and (allowed_special == "all" or word in allowed_special):
                found.append(SPECIAL.index(word))
                place += len(word)
            else:
                found += [byte + 100 for byte in text[place].encode()]
                place += 1
        return found

    def raw(self, tokens: Sequence[int]) -> bytes:
        return b"".join(SPECIAL[one].encode() if one < 100 else bytes([one - 100]) for one in tokens)

    def decode(self, tokens: Sequence[int]) -> str:
        return self.raw(tokens).decode("utf-8", "replace")

    def decode_utf8(self, tokens: Sequence[int]) -> str:
        try:
            return self.raw(tokens).decode()
        except UnicodeDecodeError as error:
            raise HarmonyError(str(error)) from None

    def render_conversation_for_completion(self, conversation: Conversation, role: Role) -> list[int]:
        found: list[int] = []
        for message in conversation.messages:
            author, content = message.values
            who = author.values[-1] if len(author.values) > 1 else (author.told.get("role") or author.values[0]).value
            header = who + "".join(f" to={to}" for to in [message.told.get("recipient")] if to)
            found += [START, *self.encode(header)]
            if "channel" in message.told:
                found += [CHANNEL, *self.encode(message.told["channel"])]
            if kind := message.told.get("content_type"):
                found += [*self.encode(" "), CONSTRAIN, *self.encode(kind.removeprefix("<|constrain|>"))]
            found += [MESSAGE, *self.encode(content.text() if isinstance(content, Told) else content)]
            found.append(CALL if who == "assistant" and "recipient" in message.told else END)
        return [*found, START, *self.encode(role.value)]


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
