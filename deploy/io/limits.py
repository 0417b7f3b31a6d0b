"""Words of `--limit` that match no host, and words of `--data` that are no pair."""

import re
import shlex
from collections.abc import Iterable
from fnmatch import fnmatch

from deploy.catalog import DEFAULT_RELEASE
from deploy.catalog.names import nearest
from deploy.refusals import Refusal, refuse

PAIRS = re.compile(r"[a-z_]+=[^,=\s]+(?:,[a-z_]+=[^,=\s]+)+")
"""Several pairs in one word of `--data`."""
OBJECT = re.compile(r"[A-Z]\w+\([^)]*")
"""An object of Python in a word of `--data`."""


def no_host_in_limit(word: str, hosts: Iterable[str], groups: Iterable[str]) -> Refusal:
    """The refusal of a `--limit` that matches no host of the inventory."""
    names, group_names = sorted(hosts), sorted(groups)
    parts = [nearest(part, [*names, *group_names], 0.85) for part in word.split(",") if part] if "," in word else []
    close = " --limit ".join(parts) if all(parts) else ""
    close = close or nearest(word, [*names, *group_names]) or (names or ["HOST"])[0]
    if word.startswith(("!", "^")):  # Ansible's exclusion
        left = [name for name in names if not fnmatch(name, word[1:])]
        close = " --limit ".join(left) if 0 < len(left) <= 8 and word[1:] not in group_names else ""
    return refuse(
        "no-host-in-limit",
        f"--limit {word} matches no host of this inventory",
        where=f"--limit {word}",
        seen=f"hosts {', '.join(names[:8])}{f' and {len(names) - 8} more' if len(names) > 8 else ''}",
        wanted=f"a host's name, a pattern such as 'h100-*', or a group: {', '.join(group_names)}",
        attempt=f"--limit {close}"
        if close
        else f"--exclude {shlex.quote(word[1:])} of pyinfra; a verb of enginehouse takes the hosts to keep, by --limit",
    )


def no_data_pair(key: str, value: str, has_value: bool) -> Refusal | None:
    """The refusal of a word of `--data` that is not one pair of a key and a value; None for a pair."""
    several = PAIRS.fullmatch(f"{key}={value}")
    if key.strip() and has_value and not several and not OBJECT.match(value):
        return None
    colon = re.fullmatch(r"([a-z_]+): ?(\S+)", key)
    words = (key.strip() or "release", DEFAULT_RELEASE if key in ("", "release") else "VALUE")
    typed = f"--data {'='.join(colon.groups() if colon else words)}"
    if several:
        typed = " ".join(f"--data {pair}" for pair in several[0].split(","))
    elif value:
        typed = f"{key} = {value[:80]} in the inventory" if key.strip() else typed
    elif key.startswith("@"):
        typed = f"--data KEY=VALUE for each line of {key[1:]}"
    return refuse(
        "no-data-pair",
        "--data takes one pair; another --data takes the next"
        if several
        else f"--data {key} takes a word or a number, and this is an object"
        if key.strip() and value
        else f"--data {key} has no value"
        if key.strip()
        else "--data has a value and no key",
        where="--data",
        seen=key.strip() or f"={value}",
        wanted="KEY=VALUE in one word, without blanks around the sign",
        attempt=typed,
    )
