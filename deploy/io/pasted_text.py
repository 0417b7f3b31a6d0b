"""Reads the argument of `enginehouse check`: a text, a file, or standard input for `-`."""

from __future__ import annotations

import sys
from pathlib import Path

LONGEST_PATH = 1024


def text_of(argument: str) -> str:
    """The text to judge: the content of a file, or the argument itself."""
    if argument == "-":
        return sys.stdin.read()
    if len(argument) < LONGEST_PATH and "\n" not in argument and "\0" not in argument:
        try:
            if Path(argument).is_file():
                return Path(argument).read_text("utf-8", errors="replace")
        except OSError:  # longer than this file system's names: then it is no path
            return argument
    return argument
