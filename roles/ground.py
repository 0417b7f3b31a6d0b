"""First steps on every host, before any change."""

from roles import removal
from roles._pyinfra import undo
from roles._shipping import programs


def apply() -> None:
    """Records the host's state before the first change, and installs the programs and the lockout switch."""
    removal.remember()  # so that remove.py can leave that state
    programs.installed()  # before any unit or command uses the programs
    undo.installed()  # before the first change that may lock us out
