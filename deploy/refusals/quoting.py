"""Foreign text, quoted: as a literal of Python, and as text without an effect on a terminal."""

import json
import re
import unicodedata
from dataclasses import dataclass

UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of characters that control a terminal, change the direction of writing, or are unassigned."""
JOINERS = "\u200c\u200d"
"""The two characters of `Cf` that occur in words of Persian and Hindi and in emoji, and have no other effect."""
SHORTENED = 80
LONG_WORD = re.compile(r"\S{1000,}")


def source(value: str | bool | float | tuple[str | bool | float, ...]) -> str:
    """The Python literal of this value, on one line; a text is in double quotes."""
    if isinstance(value, tuple):
        return f"({', '.join(map(source, value))}{',' if len(value) == 1 else ''})"
    return str(value) if isinstance(value, (bool, int, float)) else f'"{inside_quotes(value)}"'


def inside_quotes(text: str) -> str:
    """The text between the quotes of `source`, with its own quotes and line breaks escaped."""
    # After a leading double quote repr() chooses single quotes, and escapes only those.
    return repr(f'"{text}')[2:-1].replace("\\'", "'").replace('"', '\\"')


def visible(text: str) -> str:
    """The text with `\\u…` for each character that a terminal would obey or not show; line breaks and tabs are kept.

    The escapes are those of JSON, so that visible JSON has the same meaning.
    """
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(character if _is_shown(character) else _escape(character) for character in text)


def shortened(text: str, most: int = SHORTENED) -> str:
    return repr(text) if len(text) <= most else f"{text[:most]!r}… ({len(text):,} characters)"


LOOKALIKES = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    **dict.fromkeys("\u201c\u201d\u201e\u2033", '"'),
    **dict.fromkeys("\u2018\u2019\u201a\u2032", "'"),
    **dict(zip("\u0430\u0435\u043e\u0441\u0440\u0445\u0443\u0456\u0458\u03bf", "aeocpxyijo", strict=True)),
    **dict(zip("\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425", "ABEKMHOPCTX", strict=True)),
}
"""Characters of word processors and of other alphabets that look like one of ASCII."""


def lookalike_in(text: str) -> str:
    """The first character that looks like one of ASCII and is another, with its code point; empty without one.

    A word wholly in another alphabet may have such letters: only words that also have ASCII letters or digits count.
    """
    for word in re.findall(r"[^\s,;]+", text) if not text.isascii() else ():
        strange = next((sign for sign in word if sign in LOOKALIKES), "")
        if strange and re.search("[A-Za-z0-9]", word):
            return f"U+{ord(strange):04X} in the place of {LOOKALIKES[strange]!r}"
    return ""


def clipped(text: str) -> str:
    return LONG_WORD.sub(lambda word: f"{word[0][:SHORTENED]}… ({len(word[0]):,} characters)", text)


def _is_shown(character: str) -> bool:
    return character in "\n\t" or character in JOINERS or unicodedata.category(character) not in UNSHOWN


def _escape(character: str) -> str:
    return json.dumps(character)[1:-1]


def on_one_line(text: str) -> str:
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


WORDS = {
    "int": "a whole number",
    "str": "a text",
    "bool": "True or False",
    "float": "a number",
    "dict": "a dictionary",
    "NoneType": "None",
}
AN = ("LLM", "Https")
"""Classes whose names take the article "an"."""


@dataclass(frozen=True)
class ForeignObject:
    """The place-holder of an object of an unknown class; `words` name its kind."""

    words: str
    is_choice: bool = False
    """True for a member of an Enum."""


def described(value: object) -> str:
    """The kind of a value for a person, without the value: it may be a key, or endless."""
    if isinstance(value, ForeignObject):
        return value.words
    return f"the class {value.__name__} itself" if isinstance(value, type) else kind_of(type(value).__name__)


def kind_of(name: str) -> str:
    return WORDS.get(name, f"{'an' if name[:1] in 'AEIOUaeiou' or name in AN else 'a'} {name}")
