"""Sends the secrets of an inventory: on standard input only, read when they are sent, shown as their source.

`SecretText` is passed to pyinfra as `_stdin`, which neither `-vv` nor `--debug` prints, and its own text is the source.
`deploy.io.secrets` reads secrets from their sources.
"""

from collections.abc import Iterator

from deploy.io.secrets import described, read
from deploy.refusals import Refusal
from deploy.spec import Secret

__all__ = ["SecretText", "described", "missing", "read"]


class SecretText:
    """A secret as pyinfra's `_stdin`: read when it is sent, shown as its source. `is_whole`: the secret is the whole
    standard input of a command."""

    def __init__(self, secret: Secret, is_whole: bool = False) -> None:
        self.secret, self.is_whole = secret, is_whole

    def __repr__(self) -> str:
        return f"SecretText({described(self.secret)})"

    def __iter__(self) -> Iterator[str]:
        return iter(self.readlines())

    def readlines(self) -> list[str]:
        """The lines to send, usually one. pyinfra calls this method, and again for a retry."""
        return read(self.secret, is_whole=self.is_whole).splitlines(keepends=True)


def missing(secret: Secret | None) -> Refusal | None:
    """The reason why the secret is missing, before it is sent; None if the secret exists, or is not needed."""
    try:
        if secret:
            read(secret)
    except Refusal as problem:
        return problem
    return None
