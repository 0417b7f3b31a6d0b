"""Secrets typed into a text: a password in a URL, a token in its query or beside its name, a key by its shape.

An inventory names the source of a secret. A typed secret would be in the plan, in `--json`, and in files of the host,
so it is refused by its place, and masked wherever a message would show the text around it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

from deploy.spec import Secret

MASK = "(not shown)"

_NAMES = r"(?:token|passw(?:or)?d|secret|api[_-]?key)"
_USER = re.compile(r"(?P<before>\b(?P<scheme>[a-z][a-z0-9+.-]*)://)(?P<user>[^\s/?#'\"]+)@", re.IGNORECASE)
_ASSIGNED = re.compile(rf"(?P<before>[\w-]*{_NAMES}=)(?!Secret\.|\$|…)[^\s&#'\",)]+", re.IGNORECASE)
_QUERY = re.compile(
    r"(?P<before>[?&](?:key|sig|signature|x-amz-signature|x-amz-credential)=)[^\s&#'\"]+", re.IGNORECASE
)
_BEARER = re.compile(r"(?P<before>\b(?:bearer|basic) )[A-Za-z0-9+/=._~-]{12,}", re.IGNORECASE)
_SHAPES = (
    *(r"hf_[A-Za-z0-9]{8,}", r"nvapi-[\w-]{8,}", r"gh[pousr]_[A-Za-z0-9]{8,}", r"github_pat_\w{8,}"),
    *(r"glpat-[\w-]{8,}", r"sk-[\w-]{16,}", r"AKIA[0-9A-Z]{16}", r"xox[abp]-[\w-]{8,}"),
)
_WHOLE = (r"hf_[A-Za-z0-9]{20,}", r"nvapi-[\w-]{20,}", r"gh[pousr]_[A-Za-z0-9]{20,}", r"github_pat_\w{20,}")
"""Patterns of keys at their full length, which are recognised in the middle of a word, too."""
_KEY = re.compile(
    rf"(?P<before>)(?<![\w-])(?:{'|'.join(_SHAPES)})|{'|'.join(_WHOLE)}|-----BEGIN [A-Z ]*PRIVATE KEY-----[^\"']*"
)
_KINDS = (
    ("=", _ASSIGNED, "a token or password beside its name"),
    ("=", _QUERY, "a URL with a key in its query"),
    (" ", _BEARER, "an Authorization header"),
    ("", _KEY, "something of a key's shape"),
)
"""A character without which the pattern cannot match (most texts lack it), the pattern, and its name."""
_SECRET_NAME = re.compile(rf"{_NAMES}$", re.IGNORECASE)


@lru_cache(4096)  # hosts of a fleet have many equal texts
def secret_in(text: str) -> str:
    """The kind of secret in the text, in words; empty without one."""
    if any(_is_secret_user(match) for match in _USER.finditer(text)):
        return "a URL with a password or token before its @"
    return next((words for mark, pattern, words in _KINDS if mark in text and pattern.search(text)), "")


@lru_cache(4096)
def without_secrets(text: str) -> str:
    """The text with every secret masked."""
    masked = _USER.sub(lambda match: f"{match['before']}{MASK}@" if _is_secret_user(match) else match[0], text)
    for mark, pattern, _words in _KINDS:
        if mark in masked:
            masked = pattern.sub(lambda match: f"{match['before'] or ''}{MASK}", masked)
    return masked


def typed_out(value: Any, where: str) -> Iterator[tuple[str, str]]:
    """(place, kind of secret and length of the text) for every text inside `value` that holds a secret.

    A `Secret` object, which names a source, is judged elsewhere.
    """
    if isinstance(value, str):
        if words := secret_in(value):
            yield where, f"{words}, {len(value)} characters"
    elif isinstance(value, Secret):
        return
    elif isinstance(value, Mapping):
        for name, inside in value.items():
            yield from _named(str(name), inside, f'{where}["{name}"]')
    elif isinstance(value, (tuple, list)):
        for number, item in enumerate(value):
            name = getattr(item, "name", None)
            yield from typed_out(item, f'{where}["{name}"]' if isinstance(name, str) else f"{where}[{number}]")
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from typed_out(getattr(value, field.name), f"{where}.{field.name}")


def _named(name: str, value: Any, where: str) -> Iterator[tuple[str, str]]:
    """Like `typed_out` for one entry of a dictionary: every text under the name of a secret is a secret."""
    if isinstance(value, str) and value and _SECRET_NAME.search(name):
        yield where, f"a token or password under its name, {len(value)} characters"
    else:
        yield from typed_out(value, where)


def _is_secret_user(match: re.Match[str]) -> bool:
    """True for `user:password@`, and over HTTP for any user, as tokens are written so. False for `ssh://git@host`."""
    return ":" in match["user"] or match["scheme"].lower() in ("http", "https")
