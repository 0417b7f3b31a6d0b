"""First steps on every host, before anything is changed on it."""

from __future__ import annotations

from roles import removal
from roles._pyinfra import undo
from roles._shipping import programs


def lay() -> None:
    """The host as it was is written down; our programs are there, and what takes back a change that shuts us out."""
    removal.remember()  # so that remove.py leaves it
    programs.installed()  # before anything names them
    undo.installed()  # before the first such change
