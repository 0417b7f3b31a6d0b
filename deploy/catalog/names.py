"""The right name for a misspelled one, so that every refusal of an unknown name can offer it."""

import difflib
from collections.abc import Iterable, Sequence
from functools import lru_cache

FEW = 12
"""Largest number of names that is worth listing beside the nearest one."""


def nearest(word: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """The known name closest to `word`; empty if no name is close."""
    lowered = {name.lower(): name for name in known}
    matches = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=cutoff)
    return lowered[matches[0]] if matches else ""


def slip_of(word: str, known: Iterable[str]) -> str:
    """The name that `word` misspells; empty if `word` is known itself or may be another name.

    Dashes and underscores count as the same. Each part of the name has to equal the intended part, except for two
    letters of a long part: `--max_batchsize` is a slip for `--max_batch_size`, but `--use_custom_all_reduce` is not one
    for `--use_fused_mlp`, nor `--dp_size` for `--tp_size`.
    """
    names = list(known)
    if word in names:
        return ""
    return next((name for name in names if _joined(name) == _joined(word)), "") or next(
        (name for name in names if _is_slip(_parts(word), _parts(name))), ""
    )


@lru_cache(4096)
def _parts(name: str) -> tuple[str, ...]:
    return tuple(name.lower().lstrip("-").replace("-", "_").replace(".", "_").split("_"))


@lru_cache(4096)
def _joined(name: str) -> str:
    return "".join(_parts(name))


def _is_slip(typed: Sequence[str], meant: Sequence[str]) -> bool:
    if len(typed) != len(meant):
        return False
    distances = [_letters_apart(*pair) for pair in zip(typed, meant, strict=True)]
    if [part.rstrip("s") for part in typed] == [part.rstrip("s") for part in meant]:
        return True
    return 0 < sum(distances) <= 2 and all(
        distance <= _allowed(part) for distance, part in zip(distances, meant, strict=True)
    )


def _allowed(part: str) -> int:
    """Number of letters of a part that may differ: 0 in a short part, where each letter matters (`tp`, `fp8`)."""
    return 0 if len(part) < 4 or any(letter.isdigit() for letter in part) else 1 if len(part) < 6 else 2


def _letters_apart(typed: str, meant: str) -> int:
    """Number of letters to insert, remove, replace or swap with their neighbour."""
    rows = [list(range(len(meant) + 1))]
    for row, letter in enumerate(typed, start=1):
        rows.append([row])
        for column, wanted in enumerate(meant, start=1):
            cost = min(rows[row - 1][column], rows[row][column - 1]) + 1
            cost = min(cost, rows[row - 1][column - 1] + (letter != wanted))
            if row > 1 and column > 1 and (letter, typed[row - 2]) == (meant[column - 2], wanted):
                cost = min(cost, rows[row - 2][column - 2] + 1)
            rows[row].append(cost)
    return rows[-1][-1]


def offer(word: str, known: Iterable[str]) -> str:
    """The advice to type instead of `word`: the nearest name, or all names if they are few or no name is near."""
    names = sorted(known)
    close = nearest(word, names)
    every = f"known: {', '.join(names)}"
    if not close:
        return every
    return f"did you mean `{close}`?" + (f"  {every}" if len(names) <= FEW else "")
