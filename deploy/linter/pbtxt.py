"""Reads a config.pbtxt (protobuf text) into fields with line numbers, template placeholders included, and writes it.

Accepts commas between fields and `${placeholders}` of templates. Fields are judged elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as dataclass_field

TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<comment>\#[^\n]*)|(?P<string>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')"
    r"|(?P<atom>(?:\$\{[^}]*\}|[A-Za-z0-9_.+-])+)|(?P<mark>[{}\[\]<>:,;])|(?P<other>.)",
    re.DOTALL,
)
DEEPEST = 20
CLOSES = {"{": "}", "<": ">"}


@dataclass
class Message:
    """Fields in order; `line` is where the message begins."""

    fields: list[Field] = dataclass_field(default_factory=list)
    line: int = 1

    def all(self, name: str) -> list[Value]:
        """Every value of a field; a list counts as its entries."""
        values: list[Value] = []
        for field in self.fields:
            if field.name == name:
                values += field.value if isinstance(field.value, list) else [field.value]
        return values

    def messages(self, name: str) -> list[Message]:
        return [value for value in self.all(name) if isinstance(value, Message)]

    def text(self, name: str) -> str:
        """The first value of a field as text, without quotes; empty if the field is missing."""
        values = self.all(name)
        return values[0].strip("\"'") if values and isinstance(values[0], str) else ""

    def set(self, name: str, value: Value | list[Value]) -> None:
        """Replaces all fields of that name by a single one with this value, at the place of the first."""
        for place, field in enumerate(self.fields):
            if field.name == name:
                field.value = value
                self.fields = [field for at, field in enumerate(self.fields) if field.name != name or at == place]
                return
        self.fields.append(Field(name, value, self.line))


Value = str | Message


@dataclass
class Field:
    """A field of the message, with its line."""

    name: str
    value: Value | list[Value]
    line: int


class Unreadable(Exception):
    """The text is not a protobuf text at this line."""

    def __init__(self, line: int, what: str) -> None:
        self.line, self.what = line, what
        super().__init__(f"line {line}: {what}")


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


def read(text: str) -> Message:
    """The message; raises `Unreadable` at the first syntax error."""
    return _Reader(list(_tokens(text)))._message("", 0)


def write(message: Message, indent: str = "") -> str:
    return "".join(_written(field, indent) for field in message.fields)


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        if kind == "other":
            raise Unreadable(line, f"`{match.group()}` belongs to no protobuf text")
        if kind not in ("space", "comment"):
            yield _Token(kind, match.group(), line)
        line += match.group().count("\n")


class _Reader:
    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens, self.at = tokens, 0

    @property
    def _here(self) -> _Token:
        last = self.tokens[-1].line if self.tokens else 1
        return self.tokens[self.at] if self.at < len(self.tokens) else _Token("end", "the end", last)

    def _next(self) -> _Token:
        token = self._here
        self.at += 1
        return token

    def _message(self, closing: str, depth: int) -> Message:
        if depth > DEEPEST:
            raise Unreadable(self._here.line, f"nested deeper than {DEEPEST}")
        message = Message(line=self._here.line)
        while self._here.text != closing or self._here.kind != "mark":
            if self._here.kind == "end" and not closing:
                return message
            name = self._next()
            if name.kind != "atom":
                raise Unreadable(name.line, f"a field name, or {closing or 'the end'}, belongs where {name.text} is")
            message.fields.append(Field(name.text, self._value(depth), name.line))
            if self._here.text in (",", ";") and self._here.kind == "mark":
                self._next()
        self._next()
        return message

    def _value(self, depth: int) -> Value | list[Value]:
        colon = self._here.text == ":"
        if colon:
            self._next()
        if self._here.text == "[":
            return self._entries(depth)
        return self._single(depth, colon)

    def _entries(self, depth: int) -> list[Value]:
        self._next()
        entries: list[Value] = []
        while self._here.text != "]":
            if entries:
                if self._here.text != ",":
                    raise Unreadable(self._here.line, "entries of a list have a comma between them")
                self._next()
            entries.append(self._single(depth, True))
        self._next()
        return entries

    def _single(self, depth: int, colon: bool) -> Value:
        token = self._next()
        if token.text in CLOSES and token.kind == "mark":
            return self._message(CLOSES[token.text], depth + 1)
        if token.kind not in ("atom", "string") or not colon:
            raise Unreadable(token.line, f"a value belongs where {token.text} is" if colon else "a colon is missing")
        text = token.text
        while token.kind == "string" and self._here.kind == "string":
            text = f'"{text[1:-1]}{self._next().text[1:-1]}"'
        return text


def _written(field: Field, indent: str) -> str:
    if isinstance(field.value, Message):
        return f"{indent}{field.name} {{\n{write(field.value, indent + '  ')}{indent}}}\n"
    if isinstance(field.value, str):
        return f"{indent}{field.name}: {field.value}\n"
    if all(isinstance(value, str) for value in field.value):
        return f"{indent}{field.name}: [ {', '.join(str(value) for value in field.value)} ]\n".replace("[  ]", "[]")
    entries = ",\n".join(_entry(value, indent + "  ") for value in field.value)
    return f"{indent}{field.name} [\n{entries}\n{indent}]\n"


def _entry(value: Value, indent: str) -> str:
    if isinstance(value, str):
        return f"{indent}{value}"
    return f"{indent}{{\n{write(value, indent + '  ')}{indent}}}"
