"""Plain words of `--data` that an inventory may not define as objects."""

from collections.abc import Iterator, Mapping
from typing import Any

from deploy.refusals import Refusal, described, refuse

WORDS = {
    "expect": "expect=plan-0123456789abcdef",
    "remove": "remove=yes",
    "run": "run=ID",
    "events": "events=FILE",
    "json": "json=yes",
    "report": "report=FILE",
    "only": "only=gateway",
    "promote": "promote=MODEL:RUNTIME",
}


FILES = ("events", "report")
MEANT = {
    **dict.fromkeys(("confirm", "yes", "force", "really", "delete", "purge"), "--data remove=yes, for remove.py"),
    **dict.fromkeys(("to", "id", "run_id", "back", "version"), "--data run=ID, for rollback.py"),
}
"""Words that users of other programs type here, with the option of this project."""


def word_problems(data: Mapping[str, Any]) -> Iterator[Refusal]:
    for key, example in WORDS.items():
        value = data.get(key)
        if value is not None and not isinstance(value, (str, int)):
            yield refuse(
                "wrong-type",
                f"`{key}` takes a text on the command line",
                where=key,
                seen=described(value),
                wanted="a text",
                attempt=f"--data {example}",
            )
        elif key == "remove" and value is not None and str(value).lower() not in ("yes", "no"):
            yield refuse(
                "unknown-choice",
                f"`remove` is yes or nothing: {value} removes nothing",
                where=key,
                seen=described(value) if not isinstance(value, str) else repr(value),
                wanted="yes, or no `remove` for a list of what would be removed",
                attempt=f"--data {example}",
            )
        elif key in FILES and "://" in str(value):
            yield refuse(
                "no-path",
                f"`{key}` is a URL, and only a file of this machine is written",
                where=key,
                seen="a URL",
                wanted="the path of a file on this machine",
                attempt=f"--data {example}",
            )
