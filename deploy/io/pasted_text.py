"""Reads the argument of `enginehouse check` and `migrate`: a text, a file, or standard input for `-`."""

import codecs
import re
import shlex
import sys
from pathlib import Path

from deploy.refusals import Refusal, refuse

LONGEST_PATH = 1024
MOST_BYTES = 2**20
MISSING = "is the name of a text, and there is none"
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""Beginnings of a file that PowerShell's `>` writes."""


def text_of(argument: str, verb: str = "check") -> str:
    """The text to judge: the content of a file, or the argument itself.

    Raises: a Refusal for a directory, a file too large to be pasted, and bytes that are not text.
    """
    if argument == "-":
        return decoded(sys.stdin.buffer.read(MOST_BYTES + 1), "standard input", verb)
    if len(argument) < LONGEST_PATH and "\n" not in argument and "\0" not in argument:
        try:
            if ("/" in argument or "." in argument) and Path(argument).is_dir():
                raise _unfit(argument, "a directory", verb)
            if Path(argument).is_file():
                with Path(argument).open("rb") as stream:
                    text = decoded(stream.read(MOST_BYTES + 1), argument, verb)
                if argument.endswith(".py") and "from deploy.spec import" in text:
                    raise _unfit(argument, "an inventory", verb, f"enginehouse plan {shlex.quote(argument)}")
                return text
            if address := re.fullmatch(r"https?://\S+", argument):
                attempt = f"curl -fsSL {shlex.quote(address[0])} | enginehouse {verb} -"
                raise _unfit(argument, "an address", verb, attempt, MISSING)
            if re.fullmatch(r"[\w./~-]+\.(?:ya?ml|json|sh|txt|tf|hcl|py|service|pbtxt|toml|env)", argument):
                raise _unfit(
                    argument, f"no such file in {Path.cwd()}", verb, f"ls; then enginehouse {verb} FILE", MISSING
                )
        except OSError:  # longer than a name of this file system, so it is not a path
            return argument
    return argument


def decoded(content: bytes, place: str, verb: str = "check") -> str:
    """The text of a file's bytes. Raises: a Refusal for too many bytes, or bytes that are not text."""
    if len(content) > MOST_BYTES:
        raise _unfit(place, f"more than {MOST_BYTES >> 20} MiB", verb)
    if content.startswith(UTF_16):
        return content.decode("utf-16", errors="replace").removeprefix("\ufeff")
    if b"\0" in content:
        raise _unfit(place, "bytes that are not text", verb)
    return content.decode("utf-8", errors="replace").removeprefix("\ufeff")


def _unfit(place: str, seen: str, verb: str, attempt: str = "", problem: str = "is not a pasted text") -> Refusal:
    return refuse(
        "no-text",
        f"{place} {problem}",
        where=place,
        seen=seen,
        wanted="a command, a script, a compose file, a manifest, a Dockerfile or a config.pbtxt, of up to 1 MiB: "
        "a file, - for standard input, or the text itself in quotes",
        attempt=attempt or f"enginehouse {verb} FILE, with one file",
    )
