"""Command lines for hints: arguments apart from options, and an example value for each option."""

import difflib
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

VALUES = {"INVENTORY": "inventories/h100.py", "URL": "http://127.0.0.1:9090", "MONEY": "12.50", "MIB": "4096"}
"""An example value for each metavar, as hints print it."""


def line(verb: Iterable[str], words: Iterable[str]) -> str:
    """The whole command, quoted for a shell."""
    return shlex.join(["enginehouse", *verb, *words])


def verb_of(command: click.Command, words: Sequence[str]) -> tuple[click.Command, list[str], list[str]]:
    """The verb of the words, its name in one or two words, and the words behind it."""
    typed = list(words)
    while isinstance(command, click.Group) and typed and typed[0] in command.commands:
        command = command.commands[typed.pop(0)]
    if isinstance(command, click.Group) and typed:  # `bench INVENTORY` is `bench run INVENTORY`
        command = command.commands.get("run", command)
    return command, list(words[: len(words) - len(typed)]), typed


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Each option of the command by its longest name."""
    return {max(option.opts, key=len): option for option in command.params if isinstance(option, click.Option)}


def words_and_options(command: click.Command, typed: Sequence[str]) -> tuple[list[str], list[str]]:
    """Arguments, and options with their values, as two lists of words."""
    options = {word: option for option in options_of(command).values() for word in option.opts}
    words, options_typed, is_value = list[str](), list[str](), False
    for word in typed:
        if is_value or (word.startswith("-") and word != "-"):
            options_typed.append(word)
            is_value = not is_value and word in options and not options[word].is_flag
        else:
            words.append(word)
    return words, options_typed


def metavar_of(argument: click.Argument) -> str:
    return (argument.metavar or argument.name or "WORD").strip("[].").partition("[")[0].upper()


def value_of(option: click.Parameter) -> str:
    """A value that the option takes: its default, its first choice, the least number, or its metavar."""
    kind, default = option.type, getattr(option, "default", None)
    if isinstance(kind, click.Choice):
        return str(kind.choices[0])
    if (
        isinstance(default, (str, int, float, Path))
        and not isinstance(default, bool)
        and re.match(r"\w", str(default))
        and default != 0
    ):
        return f"{default:g}" if isinstance(default, float) else str(default)
    if isinstance(kind, (click.IntRange, click.FloatRange)):
        return f"{max(kind.min or 0, 1):g}"
    if isinstance(kind, click.DateTime):
        return "2026-11-01"
    example = re.search(r": ([0-9A-Za-z][\w.,=-]*)", getattr(option, "help", None) or "")
    if example:
        return example[1].rstrip(".,")
    word = option.metavar or ("NUMBER" if isinstance(kind, click.types.IntParamType) else (option.name or "").upper())
    return VALUES.get(word, word)


def with_everything(command: click.Command, verb: list[str], typed: list[str]) -> str:
    """A complete command line: the typed words, a metavar for each missing word, and the verb's example."""
    words, options = words_and_options(command, typed)
    for name, option in options_of(command).items():
        if option.required and not set(option.opts) & set(options):
            choices = list(map(str, option.type.choices)) if isinstance(option.type, click.Choice) else []
            chosen = next((word for word in words if word in choices), "")
            words = [word for word in words if word != chosen]
            options += [name, chosen or (option.name or "").upper()]
    filled = []
    for argument in command.params:
        if not isinstance(argument, click.Argument) or not argument.required:
            continue
        is_inventory = argument.name == "inventory"
        fitting = [word for word in words if word.endswith(".py")] if is_inventory else words
        filled.append(fitting[0] if fitting else metavar_of(argument))
        words = [word for word in words if word != filled[-1]]
    return f"Write: {line(verb, [*filled, *words, *options])}\n{command.epilog or ''}".rstrip()


def nearest_option(word: str, known: Iterable[str]) -> str:
    """The option nearest to a word of three letters or more; shorter words are near to anything."""
    return next(iter(difflib.get_close_matches(word, list(known), 1, 0.65)), "") if len(word) > 2 else ""
