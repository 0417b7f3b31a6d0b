"""gpt-oss, which writes OpenAI's harmony format: openai-harmony makes prompts and reads answers, by token ids.

Without a file, the library downloads its vocabulary. Here it always gets one: that of the weights' folder, else one
made from the weights' own tokenizer.json, which has the same tokens. Either has to equal the file that the library
itself pins, to the last byte.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openai_harmony import (
    Author,
    Conversation,
    DeveloperContent,
    HarmonyEncoding,
    HarmonyError,
    Message,
    ReasoningEffort,
    Role,
    SystemContent,
    ToolDescription,
    load_harmony_encoding,
)

from gateway.control_tokens import texts_in
from gateway.fields import FieldError
from gateway.harmony_reader import HarmonyReader
from gateway.logprobs import LETTERS
from gateway.published import read_json
from gateway.settings import ModelSettings
from gateway.tokens import UNBOUNDED, Tokens, TooLong
from gateway.tools import Tools

VOCABULARY = "o200k_base.tiktoken"
SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""Digest of the vocabulary; `expected_hash` of openai-harmony 0.0.8, src/tiktoken_ext/public_encodings.rs."""
ORDINARY = 199_998
"""Tokens of the vocabulary: the ids below this; those above are control tokens."""
PLACE = "TIKTOKEN_ENCODINGS_BASE"
NAMESPACE = "functions."
JSON = "<|constrain|>json"


@dataclass(frozen=True)
class Form:
    """The counterpart of a chat template: its variables, and in `source` the fields of messages that it reads."""

    names: frozenset[str] = frozenset({"tools", "reasoning_effort", "model_identity"})
    source: str = "developer message.name message.reasoning_content message.tool_calls"


class HarmonyPrompter(Tokens):
    """A model of the gpt-oss family, read from a folder of its weights."""

    def __init__(self, folder: Path) -> None:
        """Raises: OSError, ValueError if the folder has no tokenizer, or not the vocabulary of the format."""
        tokenizer = read_json(folder / "tokenizer.json")
        super().__init__(folder, tokenizer)
        self.template = Form()
        self._encoding = encoding_of(vocabulary_of(folder, tokenizer))
        self.stop_ids: tuple[int, ...] = tuple(sorted(self._encoding.stop_tokens_for_assistant_actions()))

    async def ids(
        self,
        messages: list[dict[str, Any]],
        variables: Mapping[str, Any],
        tools: Sequence[Mapping[str, Any]] = (),
        tenant: str = "",
        most: int = UNBOUNDED,
        is_large: bool = False,
    ) -> Sequence[int]:
        """The prompt for the assistant's next message. No text in it becomes a control token.

        Raises: FieldError; ValueError if the format cannot express the messages, or they are too long.
        """
        _system(variables)
        return await super().ids(messages, variables, tools, tenant, most, is_large)

    def ids_here(
        self,
        messages: list[dict[str, Any]],
        variables: Mapping[str, Any],
        tools: Sequence[Mapping[str, Any]],
        most: int,
    ) -> list[int]:
        """The prompt, made in the calling thread.

        Raises: ValueError if the format cannot express the messages, or they are too long.
        """
        if (size := sum(map(len, texts_in([messages, *tools])))) > most:
            raise TooLong(size, most)
        harmony_messages = [_system(variables), *_conversation(messages, tools)]
        try:
            conversation = Conversation.from_messages(harmony_messages)
            ids: list[int] = self._encoding.render_conversation_for_completion(conversation, Role.ASSISTANT)
        except HarmonyError as error:
            raise ValueError(str(error)) from None
        except BaseException as panic:
            if type(panic).__name__ != "PanicException":  # a panic of Rust is not an Exception
                raise
            raise ValueError("the tools' schemas cannot be written in this model's format") from None
        return ids

    def reader(self, model: ModelSettings, tools: Tools, is_guided: bool, prompt: Sequence[int]) -> HarmonyReader:
        return HarmonyReader(self._encoding, tools.names, tools.in_parallel)


def vocabulary_of(folder: Path, tokenizer: Mapping[str, Any]) -> bytes:
    """The format's vocabulary as in its file; `tokenizer` is the folder's tokenizer.json.

    Raises: ValueError if there is none.
    """
    file = folder / VOCABULARY
    vocabulary = file.read_bytes() if file.exists() else vocabulary_in(tokenizer)
    if (seen := hashlib.sha256(vocabulary).hexdigest()) != SHA256:
        where = VOCABULARY if file.exists() else "the vocabulary in tokenizer.json"
        message = f"{folder}: {where} is not gpt-oss's: sha256 {seen}, wanted {SHA256}."
        raise ValueError(f"{message} Put OpenAI's {VOCABULARY} there")
    return vocabulary


def vocabulary_in(tokenizer: Mapping[str, Any]) -> bytes:
    """The vocabulary of a byte-level tokenizer.json in tiktoken's form; "" for any other."""
    model = tokenizer.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    ordinary = vocabulary.items() if isinstance(vocabulary, dict) else ()
    tokens = sorted((number, token) for token, number in ordinary if number < ORDINARY)
    try:
        spelled = [(number, bytes(LETTERS[letter] for letter in token)) for number, token in tokens]
    except KeyError:
        return b""
    return b"".join(b"%s %d\n" % (base64.b64encode(token), number) for number, token in spelled)


@functools.lru_cache(maxsize=1)
def encoding_of(vocabulary: bytes) -> HarmonyEncoding:
    """The library's encoding with this vocabulary; the environment tells the library the file's place."""
    before = os.environ.get(PLACE)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / VOCABULARY).write_bytes(vocabulary)
        os.environ[PLACE] = folder
        try:
            return load_harmony_encoding("HarmonyGptOss")
        except HarmonyError as error:
            raise ValueError(f"openai-harmony does not start: {error}") from None
        finally:
            os.environ.pop(PLACE)
            if before is not None:
                os.environ[PLACE] = before


def _system(variables: Mapping[str, Any]) -> Message:
    effort, identity = variables.get("reasoning_effort", "medium"), variables.get("model_identity")
    known = [level.name.lower() for level in ReasoningEffort]
    if effort not in known:
        message = f"`reasoning_effort` must be one of {', '.join(known)}"
        raise FieldError("reasoning_effort", message, "invalid_value")
    content = SystemContent.new().with_reasoning_effort(ReasoningEffort[effort.upper()])
    content = content.with_conversation_start_date(time.strftime("%Y-%m-%d", time.gmtime()))
    if identity is not None:
        if not isinstance(identity, str):
            raise FieldError("chat_template_kwargs.model_identity", "`model_identity` must be a text", "invalid_value")
        content = content.with_model_identity(identity)
    return Message.from_role_and_content(Role.SYSTEM, content)


def _conversation(messages: list[dict[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The messages in the format. Leading messages of the system or developer are put with the tools."""
    first = 0
    while first < len(messages) and messages[first]["role"] in ("system", "developer"):
        first += 1
    harmony_messages: list[Message] = []
    instructions = "\n\n".join(message["content"] for message in messages[:first])
    if instructions or tools:
        developer = DeveloperContent.new()
        developer = developer.with_instructions(instructions) if instructions else developer
        described = [ToolDescription.new(**_description(tool["function"])) for tool in tools]
        developer = developer.with_function_tools(described) if described else developer
        harmony_messages.append(Message.from_role_and_content(Role.DEVELOPER, developer))
    called: dict[str, str] = {}
    for message in messages[first:]:
        harmony_messages += _messages(message, called)
    return harmony_messages


def _description(function: Mapping[str, Any]) -> dict[str, Any]:
    return {name: function[name] for name in ("name", "description", "parameters")}


def _messages(message: dict[str, Any], called: dict[str, str]) -> list[Message]:
    """The messages in the format. `called`: the names of the calls so far, by their ids."""
    role, content = message["role"], message["content"]
    if role in ("system", "developer"):
        return [Message.from_role_and_content(Role.DEVELOPER, DeveloperContent.new().with_instructions(content))]
    if role == "tool":
        author = Author.new(Role.TOOL, NAMESPACE + called[message["tool_call_id"]])
        result = Message.from_author_and_content(author, content)
        return [result.with_channel("commentary").with_recipient("assistant")]
    if role == "user":
        author = Author.new(Role.USER, message["name"]) if "name" in message else Author(role=Role.USER)
        return [Message.from_author_and_content(author, content)]
    calls = message.get("tool_calls", [])
    harmony_messages = [_own(message["reasoning_content"], "analysis")] if message.get("reasoning_content") else []
    harmony_messages += [_own(content, "commentary" if calls else "final")] if content or not calls else []
    for call in calls:
        function = call["function"]
        called[call["id"]] = function["name"]
        own = _own(json.dumps(function["arguments"], ensure_ascii=False), "commentary")
        harmony_messages.append(own.with_recipient(NAMESPACE + function["name"]).with_content_type(JSON))
    return harmony_messages


def _own(text: str, channel: str) -> Message:
    return Message.from_role_and_content(Role.ASSISTANT, text).with_channel(channel)
