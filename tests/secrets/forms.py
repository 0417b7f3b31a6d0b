"""The forms in which a secret may be found: plain, base64 at any offset, percent-encoded, hexadecimal.

Tests also search for each half of a secret, so that a cut or wrapped line is found too. A search gets texts with their
names and reports the names: its answer never contains a secret.
"""

from __future__ import annotations

import base64
import secrets
import string
from collections.abc import Iterable
from urllib.parse import quote

Forms = dict[str, str]
"""Text to look for, and its name: the secret's name and the form of writing."""
# A secret needs these, or its percent-encoded and URL-safe base64 forms would equal the plain one.
SPECIAL = "+/="
LETTERS = string.ascii_letters + string.digits
HALF = 20


def canary(prefix: str) -> str:
    """Returns a unique secret, each half of which has characters that other forms encode differently."""
    parts = ("".join(secrets.choice(LETTERS) for _ in range(HALF - len(SPECIAL))) for _ in range(2))
    return prefix + "".join(part[:8] + SPECIAL + part[8:] for part in parts)


def forms(named: dict[str, str]) -> Forms:
    """Returns every form of both halves of each secret (the last 40 characters: a prefix is not a secret)."""
    return {
        text: f"{name} ({shape})"
        for name, secret in named.items()
        for half in (secret[-2 * HALF : -HALF], secret[-HALF:])
        for shape, texts in _shapes(half)
        for text in texts
    }


def names_in(text: str, looked_for: Forms) -> list[str]:
    """Returns names of the secrets' forms that a text contains."""
    return sorted({name for form, name in looked_for.items() if form in text})


def in_base64(secret: str) -> list[str]:
    """Returns the part of its base64 that is independent of its neighbours, at each of three alignments."""
    encoded = (base64.b64encode(b"\0" * before + secret.encode()).decode().rstrip("=") for before in range(3))
    return [text[4 if before else 0 : -2] for before, text in enumerate(encoded)]


def _shapes(secret: str) -> Iterable[tuple[str, list[str]]]:
    """Returns the forms, with the plain form last, since percent-encoding may leave a secret unchanged."""
    percent, hexadecimal = quote(secret, safe=""), secret.encode().hex()
    yield "base64", [form for text in in_base64(secret) for form in (text, text.translate(str.maketrans("+/", "-_")))]
    yield "percent-encoded", [percent, _lower_escapes(secret)]
    yield "hexadecimal", [hexadecimal, hexadecimal.upper()]
    yield "plain", [secret]


def _lower_escapes(secret: str) -> str:
    """Returns the text with %2b in place of %2B."""
    return "".join(quote(letter, safe="").lower() if letter in SPECIAL else letter for letter in secret)
