"""Comparable versions: `580.65.06`, `1.2.1`, `1.20.0-1`, `0.17.0.post1`."""

import re

_Pieces = tuple[tuple[tuple[int, ...], int], ...]


def version(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: `1.20.0-1` is (1, 20, 0); a text without leading numbers is ()."""
    numbers = re.match(r"\d+(\.\d+)*", text)
    return tuple(_number(part) for part in numbers.group().split(".")) if numbers else ()


def at_least(text: str, floor: str) -> bool:
    """True if version `text` is `floor` or newer; missing parts count as zero."""
    left, right = version(text), version(floor)
    width = max(len(left), len(right))
    return left + (0,) * (width - len(left)) >= right + (0,) * (width - len(right))


def debian_at_least(text: str, floor: str) -> bool:
    """True if package version `text` is `floor` or newer, in dpkg's order: `1.0~rc1` < `1.0` < `1.0+deb12u1`."""
    return _debian(text) >= _debian(floor)


def _debian(text: str) -> tuple[int, _Pieces, _Pieces]:
    """Epoch, upstream version and revision in a form that compares."""
    epoch, _, rest = text.rpartition(":") if ":" in text else ("0", "", text)
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    return _number(epoch) if epoch.isdecimal() else 0, _pieces(upstream), _pieces(revision)


def _pieces(text: str) -> _Pieces:
    """Words and numbers in turn; `~` sorts before the end of a word, letters after it, other characters last."""
    pieces = re.findall(r"(\D*)(\d*)", text)
    return tuple((_word(word), _number(number or "0")) for word, number in pieces)


def _number(digits: str) -> int:
    """The number; only the first digits if it is too long for Python."""
    return int(digits[:18])


def _word(word: str) -> tuple[int, ...]:
    return *(-1 if sign == "~" else ord(sign) + (0 if sign.isalpha() else 256) for sign in word), 0
