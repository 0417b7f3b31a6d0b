"""Verbs that belong to pyinfra, or that other programs have: refused with the command that does the same here."""

from typing import Any

import click

from deploy.cli.slips import advised, eaten_option, strange_sign

CHANGES = {
    **dict.fromkeys(("deploy", "apply", "up", "run", "install", "rollout", "update", "upgrade", "start"), "deploy.py"),
    **dict.fromkeys(("rollback", "undo", "revert"), "rollback.py"),
    **dict.fromkeys(("remove", "destroy", "down", "uninstall", "delete", "purge"), "remove.py"),
    "build": "build.py",
}
"""Programs of pyinfra, which alone change hosts."""
READS = {
    **dict.fromkeys(("status", "ps", "list", "show"), "top INVENTORY --once"),
    **dict.fromkeys(("logs", "diagnose", "health"), "doctor INVENTORY"),
    **dict.fromkeys(("validate", "lint", "dry-run", "preview"), "plan INVENTORY"),
    "diff": "drift INVENTORY",
    **dict.fromkeys(("keys", "token", "tokens"), "key list"),
    **dict.fromkeys(("lock", "pull"), "pin INVENTORY"),
}


WORDS = "deploy.words"
"""Key of the words of a command line in click's context."""


class Verbs(click.Group):
    """The verbs of `enginehouse`; the refusal of an unknown one, or of its words, names the command of its purpose."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> click.Context:
        """The context, which keeps the words for the advice of an error."""
        words = list(args)
        context = super().make_context(info_name, args, parent, **extra)
        context.meta[WORDS] = words
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the verb. Raises: a usage error with the words that were probably meant."""
        if problem := strange_sign(ctx.meta[WORDS]) or eaten_option(self, ctx.meta[WORDS]):
            ctx.fail(problem)
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise advised(error, ctx, ctx.meta[WORDS]) from None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The verb and its words. Raises: a usage error for an unknown verb."""
        word = args[0] if args else ""
        if self.get_command(ctx, word) is None:
            if word in CHANGES:
                ctx.fail(
                    f"enginehouse changes no host. Write: pyinfra INVENTORY {CHANGES[word]} --dry, then without --dry"
                )
            if word in READS:
                ctx.fail(f"No such command '{word}'. Write: enginehouse {READS[word]}")
            if word.endswith(".py"):
                ctx.fail(f"{word} stands in the place of a verb. Write: enginehouse plan {word}")
        return super().resolve_command(ctx, args)
