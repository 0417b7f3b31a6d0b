"""Secrets are named, never typed out. A text that looks like a key is refused without being shown."""

import re
from collections.abc import Iterator

from deploy.inventory.path_texts import slip_of
from deploy.refusals import Refusal, refuse, secret_in
from deploy.spec import Host, Secret
from deploy.validation.secret_commands import command_problems

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
KEY_LIKE = re.compile(r"(hf_|nvapi-|ghp_|sk-)\S{8,}|[A-Za-z0-9+/_-]{40,}")


def secret_problems(host: Host) -> Iterator[Refusal]:
    for where, secret in (("hub.token", host.hub.token), ("registry.key", host.registry.key)):
        if secret is not None:
            yield from named_secret(where, secret, "NGC_API_KEY" if where == "registry.key" else "HF_TOKEN")


def named_secret(where: str, secret: Secret, variable: str) -> Iterator[Refusal]:
    if any(KEY_LIKE.fullmatch(word) or secret_in(word) for word in secret.source):
        yield refuse(
            "literal-secret",
            f"`{where}` holds the secret itself; an inventory only names the place of a secret",
            where=where,
            seen=f"Secret.{secret.kind} of something that looks like a key, not shown",
            wanted="the name of an environment variable, a vault file and key, or a command",
            attempt='Secret.env("NAME_OF_THE_VARIABLE"); the value is in a file now, so make a new one',
        )
    elif not _names_a_place(secret):
        yield refuse(
            "nameless-secret",
            f"`{where}` does not say where its secret is",
            where=where,
            seen=f"Secret.{secret.kind}, an argument of which is missing, empty or not a name",
            wanted="the name of an environment variable, a vault file and key, or a command",
            attempt=_place_meant(secret, variable),
        )
    else:
        yield from command_problems(where, secret)
        path, key = secret.source[0], secret.source[-1]
        problem, attempt = slip_of(path) if secret.kind == "vault" else ("", "")
        if secret.kind == "vault" and re.search(r"\.ya?ml$", key) and not re.search(r"[./]", path):
            problem, attempt = "and the key in it are swapped", f'Secret.vault("{key}", "{path}")'
        if problem:
            yield refuse(
                "no-path",
                f"the file of `{where}` {problem}",
                where=where,
                seen=f"Secret.vault of {path!r}",
                wanted="the path of a file of ansible-vault on this machine, and the key in it",
                attempt=f'Secret.vault("secrets.yml", "{key}")' if "://" in path else attempt,
            )


def _place_meant(secret: Secret, variable: str) -> str:
    """The secret in its intended form; for a variable, its name without the shell's `$` and blanks."""
    if secret.kind == "vault":
        path = secret.source[0] if secret.source and secret.source[0] else "secrets.yml"
        return f'Secret.vault("{path}", "{variable.lower()}")'
    if secret.kind == "env" and secret.source and re.fullmatch(r"[\w./~-]*[/.][\w./-]+", secret.source[0]):
        return f'Secret.command("cat", "{secret.source[0]}")'
    bare = secret.source[0].strip().strip("${}%") if secret.kind == "env" and secret.source else ""
    return f'Secret.env("{bare if VARIABLE.fullmatch(bare) else variable}")'


def _names_a_place(secret: Secret) -> bool:
    if not secret.source or not all(secret.source):
        return False
    return secret.kind != "env" or VARIABLE.fullmatch(secret.source[0]) is not None
