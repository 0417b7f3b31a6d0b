"""Usage errors with the command line that was probably meant, by rules that hold for every verb and option."""

import difflib
import re
import shlex
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import click

from deploy.catalog.names import nearest
from deploy.catalog.other_words import COMMANDS, NEEDLESS_OPTIONS, OPTIONS_MEANT
from deploy.inventory.slips import SYNONYMS, meant_by

VALUES = {"INVENTORY": "inventories/h100.py", "URL": "http://127.0.0.1:9090", "MONEY": "12.50", "MIB": "4096"}
"""A value for each metavar that stands alone in a hint."""


def advised(error: click.UsageError, group: click.Context, words: Sequence[str]) -> click.UsageError:
    """The error with a command to type; `words` are those behind `enginehouse`, which is `group`."""
    if "Write" in error.message or type(error).__name__ == "NoArgsIsHelpError":
        return error
    command, verb, typed = _verb_of(group.command, words)
    command = error.ctx.command if error.ctx else command
    advice = _advice(error, command, verb, typed)
    text = error.message if isinstance(error, click.NoSuchOption) else error.format_message()
    return click.UsageError(f"{text.rstrip()} {advice}" if advice else text, ctx=error.ctx or group)


def _verb_of(command: click.Command, words: Sequence[str]) -> tuple[click.Command, list[str], list[str]]:
    """The verb of the words, its name in one or two words, and the words behind it."""
    typed = list(words)
    while isinstance(command, click.Group) and typed and typed[0] in command.commands:
        command = command.commands[typed.pop(0)]
    if isinstance(command, click.Group) and typed:  # `bench INVENTORY` is `bench run INVENTORY`
        command = command.commands.get("run", command)
    return command, list(words[: len(words) - len(typed)]), typed


def _advice(error: click.UsageError, command: click.Command, verb: list[str], typed: list[str]) -> str:
    of_words = (click.MissingParameter, click.BadParameter, click.BadOptionUsage)
    if any(part.name == "pasted" for part in command.params) and not isinstance(error, of_words):
        return f"The whole paste stands in one pair of quotes. Write: {line(verb, [' '.join(typed)])}"
    if isinstance(error, click.NoSuchOption):
        return _of_unknown_option(error, command, verb, typed)
    if isinstance(error, click.MissingParameter):
        return _with_everything(command, verb, typed)
    if isinstance(error, click.BadOptionUsage):
        return _of_a_value(command, error.option_name, "does not take" in error.message)
    if isinstance(error, click.BadParameter):
        param = error.param
        word = re.search(r"'([^']*)' is not a valid integer", error.message)
        number = meant_by(word[1], "int", "x").partition("=")[2] if word else ""
        if param and number:
            return f"Write: {max(param.opts, key=len)} {number}"
        return (_near_choice(error) or _of_a_value(command, max(param.opts, key=len))) if param else ""
    if error.message.startswith("No such command") and isinstance(command, click.Group):
        return _of_unknown_command(command, verb, typed)
    return _without_extra(command, verb, typed) if error.message.startswith("Got unexpected extra") else ""


def line(verb: Iterable[str], words: Iterable[str]) -> str:
    """The whole command, quoted for a shell."""
    return shlex.join(["enginehouse", *verb, *words])


def strange_sign(words: Sequence[str]) -> str:
    """The problem of a dash or a quote of a word processor, which no shell reads as one; empty without one."""
    dash = next((word for word in words if re.match("[\u2010-\u2015\u2212]", word)), "")
    quote = next((word for word in words if re.match("[\u201c\u201e\u2018]", word)), "")
    if dash:
        fixed = [re.sub("^[\u2010-\u2015\u2212]+", "--", word) if word == dash else word for word in words]
        return f"{dash} begins with U+{ord(dash[0]):04X} in the place of two dashes. Write: {line((), fixed)}"
    if quote and not re.search("[\u201c\u201d\u2019]$", quote):
        text = " ".join(words)
        inside = re.sub("[\u201c\u201d\u201e\u2018\u2019]", '"', text)
        return (
            f"{quote} begins with U+{ord(quote[0]):04X}, which no shell takes for a quote. Write: enginehouse {inside}"
        )
    return ""


def eaten_option(group: click.Group, words: Sequence[str]) -> str:
    """The problem of an option that stands where the value of another one belongs; empty without one."""
    command, _, _ = _verb_of(group, words)
    known = {word: option for option in _options(command).values() for word in option.opts}
    for before, word in pairwise(words):
        if before in known and not known[before].is_flag and word in known:
            return f"{before} takes a value, and {word} is an option. Write: {before} {_value(known[before])} {word}"
    return ""


def _options(command: click.Command) -> dict[str, click.Option]:
    """Each option of the command by its longest name."""
    return {max(option.opts, key=len): option for option in command.params if isinstance(option, click.Option)}


def _of_unknown_option(error: click.NoSuchOption, command: click.Command, verb: list[str], typed: list[str]) -> str:
    """The line without a needless option, or with the option or argument that was probably meant."""
    at = next((place for place, word in enumerate(typed) if _is_word_of(word, error.option_name)), None)
    options = _options(command)
    listed = f"Options of {' '.join(['enginehouse', *verb])}: {', '.join(sorted(options))}." if options else ""
    if at is None:
        return listed
    whole, equals, value = typed[at].partition("=")
    plain = whole.lstrip("-").lower().replace("_", "-")
    bare = {name.lstrip("-"): name for name in options}
    value = value if equals else next(iter(word for word in typed[at + 1 : at + 2] if not word.startswith("-")), "")
    behind = typed[at + 1 :] if equals or not value else typed[at + 2 :]
    if plain in NEEDLESS_OPTIONS:
        return f"No verb changes a host or asks a person. Write: {line(verb, [*typed[:at], *typed[at + 1 :]])}"
    if plain in ("user", "u", "port", "p") and any(part.name == "targets" for part in command.params):
        return f"Write: {line(verb, ['USER@HOST:PORT'])}"
    near = next((name for name in (plain, *OPTIONS_MEANT.get(plain, ())) if name in bare), "") or _nearest(plain, bare)
    if near == "gpu" and value.isdecimal():
        return f"The number of cards is the answer. Write: {line(verb, [*typed[:at], *behind])}"
    if near and options[bare[near]].is_flag:
        kept = behind if value == "json" else typed[at + 1 :]
        return f"Write: {line(verb, [*typed[:at], bare[near], *kept])}"
    if near and (value or plain == near):
        return f"Write: {line(verb, [*typed[:at], bare[near], value or _value(options[bare[near]]), *behind])}"
    if near:
        return f"Write: {bare[near]} {_value(options[bare[near]])}"
    arguments = [part for part in command.params if isinstance(part, click.Argument)]
    named = next((part for name in OPTIONS_MEANT.get(plain, ()) for part in arguments if name == part.name), None)
    if named is None:
        return listed
    words, apart = _apart(command, [*typed[:at], *behind])
    place = 0 if named.name == "inventory" else arguments.index(named)
    words[place:place] = [value] if value else []
    return _with_everything(command, verb, [*words, *apart])


def _nearest(word: str, known: Iterable[str]) -> str:
    """The option nearest to a word of three letters or more; shorter words are near to anything."""
    return next(iter(difflib.get_close_matches(word, list(known), 1, 0.65)), "") if len(word) > 2 else ""


def _of_unknown_command(group: click.Group, verb: list[str], typed: list[str]) -> str:
    """The line with the command of the group that was probably meant."""
    word = typed[0] if typed else ""
    meant = next((name for name in COMMANDS.get(word.lower(), ()) if name in group.commands), "")
    meant = meant or nearest(word, group.commands)
    return f"Write: {line([*verb, meant], typed[1:])}" if meant else f"Known: {', '.join(group.commands)}."


def _is_word_of(word: str, option: str) -> bool:
    """True if click took `option` from this word: of `-json` it names `-j`."""
    return word.partition("=")[0] == option or (
        len(option) == 2 and word.startswith(option) and not word.startswith("--")
    )


def _metavar(argument: click.Argument) -> str:
    return (argument.metavar or argument.name or "WORD").strip("[].").upper()


def _value(option: click.Parameter) -> str:
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


def _of_a_value(command: click.Command, name: str, is_flag: bool = False) -> str:
    """The option with a value it takes, or without one."""
    option = next((part for part in command.params if name in part.opts), None)
    if option is None:
        return ""
    return f"Write: {name}" if is_flag else f"Write: {name} {_value(option)}" if name.startswith("-") else ""


def _near_choice(error: click.BadParameter) -> str:
    """The choice nearest to the word, if the option has choices."""
    kind = error.param.type if error.param else None
    if not isinstance(kind, click.Choice) or error.param is None:
        return ""
    word = (re.match(r"'([^']*)'", error.message) or ["", ""])[1].lower().replace("_", "-")
    choices = list(map(str, kind.choices))
    meant = SYNONYMS.get(word, "")
    return f"Write: {error.param.opts[-1]} {meant if meant in choices else nearest(word, choices) or choices[0]}"


def _with_everything(command: click.Command, verb: list[str], typed: list[str]) -> str:
    """The line with the typed words at their arguments, and a metavar for each missing one; then an example."""
    words, options = _apart(command, typed)
    for name, option in _options(command).items():
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
        filled.append(fitting[0] if fitting else _metavar(argument))
        words = [word for word in words if word != filled[-1]]
    return f"Write: {line(verb, [*filled, *words, *options])}\n{command.epilog or ''}".rstrip()


def _apart(command: click.Command, typed: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words that are arguments, and the options with their values."""
    options = {word: option for option in _options(command).values() for word in option.opts}
    words, apart, is_value = list[str](), list[str](), False
    for word in typed:
        if is_value or (word.startswith("-") and word != "-"):
            apart.append(word)
            is_value = not is_value and word in options and not options[word].is_flag
        else:
            words.append(word)
    return words, apart


def _without_extra(command: click.Command, verb: list[str], typed: list[str]) -> str:
    """The line without the words beyond the last argument, or with the option that they belong to."""
    words, options = _apart(command, typed)
    arguments = [part for part in command.params if isinstance(part, click.Argument)]
    kept, extra = words[: len(arguments)], words[len(arguments) :]
    known = _options(command)
    if not extra:
        return ""
    if "--data" in known and all(re.fullmatch(r"[a-z_]+=\S+", word) for word in extra):
        return f"Write: {line(verb, [*kept, *options, *(part for pair in extra for part in ('--data', pair))])}"
    before = typed[: typed.index(extra[0])]
    flag = known.get(before[-1]) if before else None
    valued = known.get(before[-2]) if len(before) > 1 else None
    if flag is not None and flag.is_flag:
        return f"{before[-1]} takes no word. Write: {line(verb, [*kept, *options])}"
    if valued is not None and not valued.is_flag and isinstance(valued.type, click.types.StringParamType):
        at = options.index(before[-2])
        more = [name for word in extra for name in (before[-2], word)]
        joined = [*options, *more] if valued.multiple else [*options]
        if valued.multiple and "=" not in options[at + 1] and before[-2] == "--data":
            return (
                f"Write: {line(verb, [*kept, *options[: at + 1], f'{options[at + 1]}={extra[0]}', *options[at + 2 :]])}"
            )
        joined[at + 1] = joined[at + 1] if valued.multiple else ",".join([joined[at + 1], *extra])
        return f"Write: {line(verb, [*kept, *joined])}"
    if any(word.endswith(".py") for word in extra):
        return f"One inventory at a time. Write: {line(verb, [*kept, *options])}"
    for option in ("--models", "--limit"):
        if option in known:
            return (
                f"Write: {line(verb, [*kept, *options, option, ','.join(extra) if option == '--models' else extra[0]])}"
            )
    return f"A text with blanks stands in quotes. Write: {line(verb, [*kept, *options])}"
