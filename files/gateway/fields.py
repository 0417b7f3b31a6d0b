"""The fields of a JSON object, read by name; unread fields are refused by name, or noted.

It serves requests and settings. Requests note fields that do not change an answer's meaning, and the answer names them;
settings refuse every unknown field. A field with the value null counts as absent, because OpenAI's clients send such
fields.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any

MOST_IGNORED = 16
MOST_UNKNOWN = 64
"""Unknown fields of a request: each is compared with all known names, which takes some 50 µs (2026-11-26)."""
MOST_SHOWN = 64
"""Number of ignored fields that an answer names."""
TYPO = 0.85
"""Similarity (difflib's ratio) from which an unknown name counts as a misspelt known one, and is refused."""
NESTS = ("options", "parameters", "generation_config", "sampling_params", "extra_body")
"""Objects in which other APIs, and calls by mistake, have fields that belong beside `model`."""
ALIKE = (
    ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "max_tokens_to_sample", "max_length",
     "n_predict", "num_predict"),
    ("stop", "stop_sequences", "stop_strings"),
    ("system", "instructions", "preamble", "messages", "system_prompt", "system_instruction", "developer_instructions"),
    ("response_format", "output_format", "format", "json_mode", "response_schema", "response_mime_type"),
    ("repetition_penalty", "repeat_penalty"),
    ("n", "num_return_sequences", "num_generations", "candidate_count"),
    ("dimensions", "output_dimension", "output_dimensionality", "embedding_dimension", "truncate_dim"),
    ("prompt", "system", "system_prompt", "instructions", "template"),
    ("input_type", "task", "task_type", "text_type", "prompt_name", "instruction", "query_instruction"),
    ("model", *NESTS),
)  # fmt: skip
"""Names of one meaning in the APIs that clients know. A name with a value is refused if the path reads another one of
its row: an ignored instruction or limit makes another answer."""
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
PLACE = re.compile(r"\[\d+\]")
"""An item's number in its list."""


class FieldError(ValueError):
    """A field is missing, unknown, of a wrong type, or asks for something impossible."""

    def __init__(self, param: str, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.param, self.message, self.code = param, message, code


class Ignored(list[str]):
    """Names of the request's ignored fields: the first ones as items, all of them in `names`.

    A field of every message counts as a single name, so that a long chat does not differ from a short one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()


class Fields:
    """An object's fields; each reader takes its field out, and `close` refuses the remaining ones."""

    def __init__(self, data: object, where: str = "", ignored: Ignored | None = None) -> None:
        """`ignored` collects the names of ignored fields; without it such fields are refused."""
        self._where, self._ignored = where, ignored
        if not isinstance(data, dict):
            raise FieldError(where, f"{where or 'the body'} must be a JSON object")
        self._left: dict[str, Any] = {name: value for name, value in data.items() if value is not None}
        self._known: dict[str, tuple[tuple[object, ...], str] | None] = {}
        """The names that were read; of one with a single meaning, its values without an effect and the reason."""

    @property
    def where(self) -> str:
        return self._where

    def path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def has(self, name: str) -> bool:
        """True if the field is present and was not read yet."""
        self._known[name] = None
        return name in self._left

    def value(self, name: str) -> Any:
        """The field's value of any type; None if it is absent."""
        self._known[name] = None
        return self._left.pop(name, None)

    def text(self, name: str, default: str | None = None, choices: tuple[str, ...] = (), most: int = 0) -> str:
        """A text. Raises: FieldError if it is absent without a default, is not a choice, or is longer than `most`."""
        value = self._or_default(name, default)
        if not isinstance(value, str):
            raise self.wrong(name, "a text")
        if choices and value not in choices:
            raise self.wrong(name, f"one of {', '.join(choice for choice in choices if choice)}")
        if most and len(value) > most:
            raise self.wrong(name, f"a text of at most {most} characters")
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        """The field's value, which has to be a boolean."""
        value = self._or_default(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def whole(self, name: str, least: int, most: int, default: int | None = None) -> int:
        """A whole number from `least` to `most`."""
        value = self._or_default(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(name, f"a whole number from {least} to {most}")
        return value

    def number(self, name: str, least: float, most: float) -> float | None:
        """A number from `least` to `most`; None if it is absent."""
        value = self.value(name)
        if value is None:
            return None
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:  # excludes NaN and infinity
            raise self.wrong(name, f"a number from {least:g} to {most:g}")
        return float(value)

    def maybe_whole(self, name: str, least: int, most: int) -> int | None:
        return self.whole(name, least, most) if self.has(name) else None

    def items(self, name: str, most: int, least: int = 1) -> list[Any]:
        """A list of `least` to `most` values of any type; an absent one is an empty list if that is allowed."""
        value = self._or_default(name, None if least else [])
        if not isinstance(value, list):
            raise self.wrong(name, "a list")
        if not least <= len(value) <= most:
            raise self.wrong(name, f"a list of {least} to {most} items")
        return value

    def texts(self, name: str, most: int, least: int = 1) -> list[str]:
        """A list of `least` to `most` texts, like `items`."""
        values = self.items(name, most, least)
        for number, value in enumerate(values):
            if not isinstance(value, str):
                raise FieldError(f"{self.path(name)}[{number}]", f"`{self.path(name)}[{number}]` must be a text")
        return values

    def inner(self, name: str) -> Fields:
        """The fields of an object; none if it is absent."""
        value = self.value(name)
        return self.within({} if value is None else value, self.path(name))

    def within(self, value: object, where: str) -> Fields:
        return Fields(value, where, self._ignored)

    def elements(self, name: str, values: Iterable[object]) -> Iterator[Fields]:
        """The fields of each object in a list that is the field's value."""
        where = self.path(name)
        return (Fields(value, f"{where}[{number}]", self._ignored) for number, value in enumerate(values))

    def objects(self, name: str, most: int, least: int = 1) -> Iterator[Fields]:
        """The fields of each object in a list, like `items`."""
        return self.elements(name, self.items(name, most, least))

    def only(self, name: str, *accepted: object, because: str) -> None:
        """Accepts an absent field or a value that changes nothing; refuses every other value with the reason."""
        self._known[name] = accepted, because
        value = self._left.pop(name, None)  # without a call of `value`: a chat of 20 messages has 120 of these
        if value is not None and not any(type(value) is type(choice) and bool(value == choice) for choice in accepted):
            raise FieldError(self.path(name), f"`{self.path(name)}`: {because}", "unsupported")

    def ignore(self, name: str, *accepted: object, because: str) -> None:
        """Drops the field, which does not change the meaning of an answer.

        Raises: FieldError if unknown fields are refused and the value is not a neutral one.
        """
        if self._ignored is None:
            self.only(name, *accepted, because=because)
        elif (value := self.value(name)) is not None and value not in accepted:
            self.note(name)

    def note(self, name: str) -> None:
        """Records an ignored field, which the answer then names; only if `passes_over`."""
        shown = shown_name(self.path(name))
        if self._ignored is not None and shown not in self._ignored and len(self._ignored) < MOST_IGNORED:
            self._ignored.append(shown)

    @property
    def passes_over(self) -> bool:
        return self._ignored is not None

    def close(self) -> None:
        """Notes or refuses the remaining fields, which are unknown.

        Raises: FieldError with the first unread field, and the nearest known name.
        """
        for name, value in self._left.items():
            meant = self._meant(name) if value else []
            if meant and (rule := self._known[meant[0]]):
                Fields({name: value}, self._where).only(name, *rule[0], because=rule[1])
                meant = []
            shown = name if len(name) <= MOST_SHOWN else name[:MOST_SHOWN] + "…"
            if self._ignored is not None:
                path = PLACE.sub("[]", self.path(shown))
                if path in self._ignored.names:
                    continue
                if len(self._ignored.names) == MOST_UNKNOWN:
                    message = f"unknown field `{self.path(shown)}`, after {MOST_UNKNOWN} others"
                    raise FieldError(self.path(shown), message, "unknown_parameter")
                if not meant and not difflib.get_close_matches(shown, self._known, 1, TYPO):
                    self._ignored.names.add(path)
                    self.note(shown)
                    continue
            near = meant or difflib.get_close_matches(shown, self._known, 1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            if meant == ["model"]:
                hint = "; send its fields beside `model`"
            raise FieldError(self.path(shown), f"unknown field `{self.path(shown)}`{hint}", "unknown_parameter")

    def _meant(self, name: str) -> list[str]:
        """The path's own names for a request's field that another API has; none if the path has no such field."""
        words = HUMP.sub("_", name).lower()
        rows = [row for row in ALIKE if words in row] if not self._where else []
        return [known for known in (words, *(known for row in rows for known in row)) if known in self._known]

    def wrong(self, name: str, wanted: str) -> FieldError:
        return FieldError(self.path(name), f"`{self.path(name)}` must be {wanted}", "invalid_value")

    def missing(self, name: str) -> FieldError:
        return FieldError(self.path(name), f"`{self.path(name)}` is missing", "missing_required_parameter")

    def _or_default(self, name: str, default: object) -> Any:
        self._known[name] = None
        value = self._left.pop(name, None)
        if value is None and default is None:
            raise self.missing(name)
        return default if value is None else value


def shown_name(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.\[\]-]", "?", PLACE.sub("[]", path[: 4 * MOST_SHOWN]))[:MOST_SHOWN]
