"""Words of `--limit` that match no host."""

import shlex
from collections.abc import Iterable
from fnmatch import fnmatch

from deploy.catalog.names import nearest
from deploy.refusals import Refusal, refuse


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
