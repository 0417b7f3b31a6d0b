"""Commands that print a secret: a program and its words without a shell, and never the file itself."""

import re
from collections.abc import Iterator

from deploy.refusals import Refusal, refuse
from deploy.spec import Secret

PROGRAMS = frozenset(
    {
        *("cat", "curl", "echo", "gpg", "head", "jq", "openssl", "printf", "sed", "tail"),
        *("age", "aws", "az", "bw", "gcloud", "gopass", "keyring", "kubectl", "lpass", "op", "pass", "secret-tool"),
        *("security", "sops", "vault", "sh", "bash"),
    }
)
"""Programs that usually print secrets."""
OF_A_SHELL = re.compile(r"\||\|\||&&?|;|[0-9]?>{1,2}|<{1,3}|[0-9]>&[0-9]")
SUBSTITUTED = re.compile(r"\$\(|`|\$\{?[A-Za-z_]\w*\}?")
DATA = re.compile(r"\.(?:ya?ml|json|toml|env|txt|pem|key|crt|token|secret|age|gpg|asc|conf|ini)$", re.IGNORECASE)
"""Endings of the names of data files, which are no programs."""


def command_problems(where: str, secret: Secret) -> Iterator[Refusal]:
    """A refusal for a command that is a line of a shell, or the name of the secret's file."""
    if secret.kind != "command" or not secret.source or not all(isinstance(word, str) for word in secret.source):
        return
    program = secret.source[0]
    if len(secret.source) == 1 and " " in program.strip() and _is_line(program):
        words = ", ".join(f'"{word}"' for word in program.split())
        yield refuse(
            "command-in-one-word",
            f"`{where}`: Secret.command takes each word separately, and this is one string",
            where=where,
            seen=f"a single argument of {len(program.split())} words",
            wanted="the program, then each argument",
            attempt=f"Secret.command({words})",
        )
    elif program.rpartition("/")[2] not in PROGRAMS and len(secret.source) == 1 and DATA.search(program):
        yield refuse(
            "file-as-command",
            f"`{where}` runs {program}, which is a file and not a program",
            where=where,
            seen="Secret.command of 1 word, a file",
            wanted="a program that prints the secret",
            attempt=f'Secret.command("cat", "{program}")',
        )
    elif program.rpartition("/")[2] not in ("sh", "bash", "dash", "zsh") and (sign := _sign(secret.source)):
        line = " ".join(secret.source).replace('"', "'")
        yield refuse(
            "command-of-a-shell",
            f"`{where}`: {sign} is shell syntax, and this command runs without a shell",
            where=where,
            seen=f"Secret.command of {len(secret.source)} words, {sign} among them",
            wanted="a program and its arguments; or a shell as the program",
            attempt=f'Secret.command("sh", "-c", "{line}")',
        )


def _is_line(text: str) -> bool:
    """True if the first word of the text is a program; a path may itself have blanks."""
    program = text.split()[0]
    return "/" not in program or program.rpartition("/")[2] in PROGRAMS


def _sign(words: tuple[str, ...]) -> str:
    """The first sign of a shell among the words; empty without such a sign."""
    if word := next((word for word in words if OF_A_SHELL.fullmatch(word)), ""):
        return word
    match = next(filter(None, map(SUBSTITUTED.search, words)), None)
    return match[0] if match else ""
