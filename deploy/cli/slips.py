"""Usage errors with the command line that was probably meant, by rules that hold for every verb and option."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import click

from deploy.catalog.names import nearest
from deploy.catalog.synonyms import COMMANDS
from deploy.cli.lines import line, options_of, value_of, verb_of, with_everything, words_and_options
from deploy.cli.misplaced import card_missing
from deploy.cli.unknown_options import of_unknown_options
from deploy.inventory.slips import SYNONYMS, meant_by
from deploy.io.local_paths import is_file


def advised(error: click.UsageError, group: click.Context, words: Sequence[str]) -> click.UsageError:
    """The error with a command to type; `words` are those behind `enginehouse`, which is `group`."""
    if "Write" in error.message or type(error).__name__ == "NoArgsIsHelpError":
        return error
    command, verb, typed = verb_of(group.command, words)
    command = error.ctx.command if error.ctx else command
    if command is group.command and isinstance(command, click.Group) and words and words[0].startswith("-"):
        place = next((place for place, word in enumerate(words) if word in command.commands), 0)
        command, verb, typed = verb_of(command, [words[place], *words[:place], *words[place + 1 :]])
    advice = _advice(error, command, verb, typed)
    text = error.message if isinstance(error, click.NoSuchOption) else error.format_message()
    return click.UsageError(f"{text.rstrip()} {advice}" if advice else text, ctx=error.ctx or group)


def _advice(error: click.UsageError, command: click.Command, verb: list[str], typed: list[str]) -> str:
    of_words = (click.MissingParameter, click.BadParameter, click.BadOptionUsage)
    is_paste = any(part.name == "pasted" for part in command.params) and typed[:1] != ["-f"]
    files = [word for word in typed if is_file(Path(word))]
    if is_paste and files and typed[0].startswith("-"):
        return f"Write: {line(verb, files[:1])}"
    is_quoted = bool(typed) and " " in typed[0]
    if is_paste and re.fullmatch("--?(?:f|file|input|path)", typed[0]) and len(typed) == 2:
        return f"Write: {line(verb, typed[1:])}"
    if is_paste and not isinstance(error, of_words) and not (is_quoted and isinstance(error, click.NoSuchOption)):
        return f"The whole paste stands in one pair of quotes. Write: {line(verb, [' '.join(typed)])}"
    if isinstance(error, click.NoSuchOption):
        return of_unknown_options(command, verb, typed)
    if isinstance(error, click.MissingParameter):
        if command.name == "fit" and typed and (advice := card_missing(command, typed)):
            return advice
        return with_everything(command, verb, typed)
    if isinstance(error, click.BadOptionUsage):
        return _of_a_value(command, error.option_name, "does not take" in error.message)
    if isinstance(error, click.BadParameter):
        param = error.param
        word = re.search(r"'([^']*)' is not a valid integer", error.message)
        power = re.fullmatch(r"[0-9](?:\.[0-9]+)?e[0-9]", word[1]) if word else None
        number = f"{float(power[0]):.0f}" if power else ""
        number = number or (meant_by(word[1], "int", "x_count").partition("=")[2] if word else "")
        if param and number:
            return f"Write: {max(param.opts, key=len)} {number}"
        typed_value = (_near_choice(error) or _of_a_value(command, max(param.opts, key=len))) if param else ""
        is_needless = param and not param.required and param.default is None and "not in the range" in error.message
        return f"{typed_value}, or leave it out" if is_needless else typed_value
    if error.message.startswith("No such command") and isinstance(command, click.Group):
        return _of_unknown_command(command, verb, typed)
    return _without_extra(command, verb, typed) if error.message.startswith("Got unexpected extra") else ""


def strange_sign(words: Sequence[str]) -> str:
    """The problem of a typographic dash or quote, which a shell reads as a letter; empty without a problem."""
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
    """The problem of an option in the place of another option's value; empty without a problem."""
    command, _, _ = verb_of(group, words)
    known = {word: option for option in options_of(command).values() for word in option.opts}
    for before, word in pairwise(words):
        if before in known and not known[before].is_flag and word in known:
            return f"{before} takes a value, and {word} is an option. Write: {before} {value_of(known[before])} {word}"
    return ""


def _of_unknown_command(group: click.Group, verb: list[str], typed: list[str]) -> str:
    """The line with the command of the group that was probably meant."""
    word = typed[0] if typed else ""
    if word.endswith(".py"):
        name = next((part for part in typed[1:] if part in group.commands), next(iter(group.commands)))
        rest = [part for part in typed[1:] if part != name]
        return with_everything(group.commands[name], [*verb, name], [word, *rest])
    meant = next((name for name in COMMANDS.get(word.lower(), ()) if name in group.commands), "")
    meant = meant or nearest(word, group.commands)
    takes_words = meant and any(isinstance(part, click.Argument) for part in group.commands[meant].params)
    rest = typed[1:] if takes_words or not meant else words_and_options(group.commands[meant], typed[1:])[1]
    return f"Write: {line([*verb, meant], rest)}" if meant else f"Known: {', '.join(group.commands)}."


def _of_a_value(command: click.Command, name: str, is_flag: bool = False) -> str:
    """The option with a value it takes, or without one."""
    option = next((part for part in command.params if name in part.opts), None)
    if option is None:
        return ""
    return f"Write: {name}" if is_flag else f"Write: {name} {value_of(option)}" if name.startswith("-") else ""


def _near_choice(error: click.BadParameter) -> str:
    """The choice nearest to the word, if the option has choices."""
    kind = error.param.type if error.param else None
    if not isinstance(kind, click.Choice) or error.param is None:
        return ""
    word = (re.match(r"'([^']*)'", error.message) or ["", ""])[1].lower().replace("_", "-")
    choices = list(map(str, kind.choices))
    meant = SYNONYMS.get(word, "")
    return f"Write: {error.param.opts[-1]} {meant if meant in choices else nearest(word, choices) or choices[0]}"


def _without_extra(command: click.Command, verb: list[str], typed: list[str]) -> str:
    """The line without the words beyond the last argument, or with the option that they belong to."""
    words, options = words_and_options(command, typed)
    arguments = [part for part in command.params if isinstance(part, click.Argument)]
    kept, extra = words[: len(arguments)], words[len(arguments) :]
    known = options_of(command)
    if "--" in typed:
        return f"Write: {line(verb, [word for word in typed if word != '--'])}"
    parts = [" ".join(words[:count]) for count in range(2, len(words) + 1)]
    if whole := next((part for part in parts if is_file(Path(part))), ""):
        rest = words[whole.count(" ") + 1 :]
        return f"A path with blanks stands in quotes. Write: {line(verb, [whole, *rest, *options])}"
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
    for option in ("--models", "--model", "--limit"):
        if option in known:
            return (
                f"Write: {line(verb, [*kept, *options, option, ','.join(extra) if option == '--models' else extra[0]])}"
            )
    is_text = any(part.name in ("pasted", "texts") for part in arguments)
    reason = (
        "A text with blanks stands in quotes."
        if is_text
        else "One at a time."
        if arguments
        else "It takes no further word."
    )
    return f"{reason} Write: {line(verb, [*kept, *options])}"
