"""Texts of an inventory that no file or command can take: unfilled, unprintable, or with surrounding blanks."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_args

from deploy.inventory.types import hints_of
from deploy.refusals import Refusal, refuse, secret_in, shortened, without_secrets
from deploy.spec import Secret

UNSET = re.compile(r"(?:^|[/@:.])(?:None|null|undefined)(?:$|[/@:.])")
NOTHING = frozenset(("none", "null", "nil", "auto", "n/a", "undefined", "unset", "todo", "changeme", "change-me"))
TEMPLATE = re.compile(r"\{\{|\$\{|<[A-Z][A-Z_ -]+>|^\$[A-Z][A-Z0-9_]+$|^%[A-Z][A-Z0-9_]+%$")
QUOTED = re.compile(r"\s*([\"'`]).+\1\s*|\s*[\u201c\u201e\u2018].*[\u201c\u201d\u2019]\s*")
TEMPLATES_MEANT = re.compile(r"^docker\.daemon|^gateway\.aliases|\.reason$|\.prefixes\[")
"""Places whose texts are for a person or for another program's templates."""
BLANKS_MEANT = re.compile(r"^docker\.daemon|\.prefixes(\[|$)|\.reason$")
"""Places whose texts may end with a blank, such as `query: ` before a text to embed."""


def unsafe_texts(value: Any, where: str, refused: Collection[str] = ()) -> Iterator[Refusal]:
    """A refusal for every text inside `value` that is unfit for a line of a file or a word of a command.

    Unfit are line breaks, control characters, and a leading dash, which makes an option. Keys of dictionaries are
    included. Words of the command of a Secret may be options. No text is shown, because it may be a key. Places in
    `refused` are skipped.
    """
    if isinstance(value, str):
        if where not in refused and (slip := _unfilled(value, where)):
            yield refuse(
                "unfilled-text",
                f"`{where}` {slip}",
                where=where,
                seen=shortened(without_secrets(value)),
                wanted="the text itself",
                attempt=_filled(value),
            )
        elif where not in refused and (not value.isprintable() or value.startswith("-")):
            strange = next((sign for sign in value if not sign.isprintable()), "-")
            yield refuse(
                "unsafe-text",
                f"`{where}` cannot be written into a file or command of a host",
                where=where,
                seen=f"{len(value):,} characters, among them U+{ord(strange):04X}",
                wanted="one line of printable characters, without a dash in front",
                attempt="the path of the file that holds it"
                if value.startswith("-----BEGIN ")
                else "type it again; the pasted text may have invisible characters",
            )
    elif isinstance(value, Secret):
        texts = [text for text in value.source if isinstance(text, str)] if isinstance(value.source, tuple) else []
        if any(not text.isprintable() for text in texts):
            yield from unsafe_texts("".join(texts), where, refused)
    elif isinstance(value, Mapping):
        for key, inside in value.items():
            yield from unsafe_texts(key, f"{where}, a key of it", refused)
            # A dictionary's value may be an option of a program, so its leading dashes are ignored.
            text = inside.lstrip("-") if isinstance(inside, str) else inside
            yield from unsafe_texts(text, f'{where}["{key}"]', refused)
    elif isinstance(value, (tuple, list)):
        for number, item in enumerate(value):
            yield from unsafe_texts(item, f"{where}[{number}]", refused)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from unsafe_texts(getattr(value, field.name), f"{where}.{field.name}", refused)


def words_for_nothing(value: Any, where: str, kind: Any = str) -> Iterator[Refusal]:
    """A refusal for each free text (not a choice) that is a word for nothing: "none", "null", "auto"."""
    if isinstance(value, str) and kind is str and value.strip().lower() in NOTHING and not BLANKS_MEANT.search(where):
        field = re.sub(r"\[[^]]*\]", "", where).rpartition(".")[2]
        yield refuse(
            "unfilled-text",
            f"`{where}` is a word for nothing, and any text counts here",
            where=where,
            seen=repr(value),
            wanted="the text itself, or nothing",
            attempt=f"leave {field} out",
        )
    elif isinstance(value, (tuple, list)):
        inner = get_args(kind)[0] if get_args(kind) else None
        for number, item in enumerate(value):
            yield from words_for_nothing(item, f"{where}[{number}]", inner)
    elif is_dataclass(value) and not isinstance(value, (type, Secret)):
        hints = hints_of(type(value))
        for inside in fields(value):
            if inside.default is MISSING and hints[inside.name] is str:
                continue  # a field without a default cannot be left out; other checks judge it
            yield from words_for_nothing(getattr(value, inside.name), f"{where}.{inside.name}", hints[inside.name])


def _filled(text: str) -> str:
    """The text without surrounding blanks, if they are the only mistake; else advice on where to look."""
    bare = text.strip(" \"'`\u201c\u201d\u201e\u2018\u2019")
    if (
        bare
        and bare != text
        and not UNSET.search(bare)
        and not TEMPLATE.search(bare)
        and len(bare) < 80
        and not secret_in(bare)
    ):
        return f'"{bare}"'
    if variable := re.fullmatch(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?|%([A-Za-z_][A-Za-z0-9_]*)%", bare):
        return f'os.environ["{variable[1] or variable[2]}"], with `import os` above it'
    return "print the value where the inventory builds it; an unset variable is None there"


def _unfilled(text: str, where: str) -> str:
    """The mark of an unfilled template in a text; "" without one. Docker's own keys take templates."""
    if UNSET.search(text):
        return "holds the word None, as the text of an unset variable does"
    if TEMPLATE.search(text) and not TEMPLATES_MEANT.search(where):
        return "is a template with a placeholder that was not filled in"
    if QUOTED.fullmatch(text) and not BLANKS_MEANT.search(where):
        return "has quotes of its own inside the quotes of Python"
    has_blanks = text != text.strip(" ") and not BLANKS_MEANT.search(where)
    return "begins or ends with a blank" if has_blanks else ""
