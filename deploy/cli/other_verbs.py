"""Verbs that belong to pyinfra, or that other programs have: refused with the command that does the same here."""

import errno
import os
import shlex
from typing import Any

import click

from deploy.cli.misplaced import misplaced_word
from deploy.cli.slips import advised, eaten_option, strange_sign

CHANGES = {
    **dict.fromkeys(("deploy", "apply", "up", "run", "install", "rollout", "update", "upgrade", "start"), "deploy.py"),
    **dict.fromkeys(("rollback", "undo", "revert"), "rollback.py"),
    **dict.fromkeys(("remove", "destroy", "down", "uninstall", "delete", "purge"), "remove.py"),
    "build": "build.py",
}
"""Programs of pyinfra, the only ones that change hosts."""
READS = {
    **dict.fromkeys(("status", "ps", "list", "watch", "stats", "rollout status"), "top INVENTORY --once"),
    **dict.fromkeys(("logs", "log", "diagnose", "health", "debug"), "doctor INVENTORY"),
    **dict.fromkeys(("validate", "lint", "dry-run", "preview", "template"), "plan INVENTORY"),
    **dict.fromkeys(("show", "get", "describe", "inspect", "hosts", "models", "config"), "plan INVENTORY"),
    "diff": "drift INVENTORY",
    **dict.fromkeys(("keys", "token", "tokens"), "key list"),
    **dict.fromkeys(("lock", "pull"), "pin INVENTORY"),
    **dict.fromkeys(("chat", "query", "prompt", "generate", "curl", "test"), "ask INVENTORY"),
}
ON_HOSTS = ("exec", "ssh", "shell", "restart", "stop")
"""Verbs of other programs that run a command on hosts."""
SERVERS = ("serve", "vllm", "trtllm-serve", "docker", "podman")
BEFORE = ("enginehouse", "$", "#", "sudo", "python", "pyinfra")
"""Words that often precede a pasted command and do not belong to it."""


WORDS = "deploy.words"
"""Key of the words of a command line in click's context."""


class Verbs(click.Group):
    """The verbs of `enginehouse`; the refusal of an unknown one, or of its words, names the command of its purpose."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> click.Context:
        """The context, which keeps the words for the advice of an error. `help VERB` is `VERB --help`."""
        words = [*args[1:], "--help"] if args[:1] == ["help"] else list(args)
        try:
            context = super().make_context(info_name, list(words), parent, **extra)
        except click.UsageError as error:
            raise (advised(error, error.ctx, words) if error.ctx else error) from None
        context.meta[WORDS] = words
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the verb. Raises: a usage error with the words that were probably meant."""
        words = ctx.meta[WORDS]
        if problem := strange_sign(words) or eaten_option(self, words) or misplaced_word(self, words):
            ctx.fail(problem)
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise advised(error, ctx, words) from None
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the rest of the output, which Python writes at its end
            raise click.ClickException(f"the output could not be written: {error.strerror}") from None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The verb and its words. Raises: a usage error for an unknown verb."""
        if args and self.get_command(ctx, args[0]) is None and (advice := verb_meant(args)):
            ctx.fail(advice)
        return super().resolve_command(ctx, args)


def verb_meant(words: list[str]) -> str:
    """The refusal of an unknown verb with the command of its purpose; empty if no command is likely."""
    verb, rest = words[0], words[1:]
    inventory = next((word for word in rest if word.endswith(".py")), "INVENTORY")
    phrase = next((phrase for phrase in (" ".join(words[:2]), verb) if phrase in READS), "")
    if phrase:
        return f"No such command '{phrase}'. Write: enginehouse {READS[phrase].replace('INVENTORY', inventory)}"
    if verb in CHANGES:
        return f"enginehouse changes no host. Write: pyinfra {inventory} {CHANGES[verb]} --dry, then without --dry"
    if verb in ON_HOSTS:
        default = "systemctl restart triton@main" if verb in ("restart", "stop") else "COMMAND"
        command = shlex.join(word for word in rest if word != inventory and word != "--") or default
        return f"enginehouse runs nothing on hosts. Write: pyinfra {inventory} exec --sudo -- {command}"
    if verb in SERVERS:
        pasted = f"vllm serve {shlex.join(rest)}" if verb == "serve" else shlex.join(words)
        return f"enginehouse starts no server here. Write: enginehouse migrate {shlex.quote(pasted)}"
    if verb == "pyinfra" and any(word.endswith(".py") for word in rest):
        return f"pyinfra is a command of its own. Write: {shlex.join(words)} --dry"
    if verb in ("completion", "completions"):
        shell = next((word for word in rest if word in ("bash", "zsh", "fish")), "bash")
        return f"No such command '{verb}'. Write: _ENGINEHOUSE_COMPLETE={shell}_source enginehouse"
    if verb == "version":
        return "No such command 'version'. Write: enginehouse --version"
    if verb in BEFORE:
        return f"{verb} stands in front of the command. Write: {shlex.join(['enginehouse', *rest])}"
    return f"{verb} stands in the place of a verb. Write: enginehouse plan {verb}" if verb.endswith(".py") else ""
