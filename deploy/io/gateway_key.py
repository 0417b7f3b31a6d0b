"""A key of a gateway, read from a file or from an environment variable."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deploy.io.endpoints import ASKING
from deploy.refusals import Refusal

VARIABLE = "ENGINEHOUSE_KEY"
TEXT = re.compile(r"[!#-\[\]-~]{1,512}")
"""Characters allowed between quotes in curl's configuration, and in a header."""


@dataclass(frozen=True)
class GivenKey:
    """The key, which no message shows, and the place from which a shell reads it."""

    text: str = field(repr=False)
    shell: str


def given_key(file: str, environment: Mapping[str, str]) -> GivenKey | None:
    """The key in `file`, else the environment's key; None without a key.

    Raises: a Refusal for a file that cannot be read, and for a text that is not a key. Neither shows the text.
    """
    if not file:
        text = environment.get(VARIABLE, "").strip()
        return GivenKey(_checked(text, VARIABLE), f'"${VARIABLE}"') if text else None
    try:
        text = Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _no_key(file, getattr(error, "strerror", "") or "no text in UTF-8") from None
    return GivenKey(_checked(text, file), f'"$(cat {shlex.quote(file)})"')


def _checked(text: str, where: str) -> str:
    if not TEXT.fullmatch(text):
        raise _no_key(where, f"{len(text)} characters, some of which no key has" if text else "nothing")
    return text


def key_wanted(model: str) -> Refusal:
    return Refusal(
        f"{model} is asked through the gateway alone, and no key was given",
        facts={"seen": f"{VARIABLE} is empty, and no --key-file", "wanted": "a key, as enginehouse key new printed it"},
        attempt=f"write the key into a file of mode 0600 and name it with --key-file, or export {VARIABLE}",
        state=ASKING,
        kind="no-key",
    )


def _no_key(where: str, seen: str) -> Refusal:
    return Refusal(
        f"{where} has no key of a gateway",
        facts={"seen": seen, "wanted": "a key, as enginehouse key new printed it"},
        attempt=f"write the key into a file of mode 0600 and name it with --key-file, or export {VARIABLE}",
        state=ASKING,
        kind="no-key",
    )
