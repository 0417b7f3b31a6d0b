"""Unknown options of a command line, replaced by the options and arguments that were probably meant."""

import re
import shlex
from collections.abc import Sequence

import click

from deploy.catalog.synonyms import NEEDLESS_OPTIONS, OPTIONS_MEANT, OPTIONS_WITHOUT
from deploy.cli.lines import line, metavar_of, nearest_option, options_of, value_of, with_everything, words_and_options
from deploy.inventory.words import WORDS

DRY = ("dry", "dry-run", "n", "check", "diff")
WRITING = ("pin", "init", "bundle", "new", "revoke", "tenant")
WRITES = "This verb writes files here, which git diff shows, and touches no host."


def of_unknown_options(command: click.Command, verb: list[str], typed: list[str]) -> str:
    """The line with each unknown option left out, or replaced by the option or argument that was probably meant."""
    words, remarks, options = list(typed), list[str](), options_of(command)
    while (at := _unknown_at(command, words)) is not None:
        remark, mended = _correction(command, words, at)
        if mended is None:
            return f"Options of {' '.join(['enginehouse', *verb])}: {', '.join(sorted(options))}." if options else ""
        remarks += [remark] if remark else []
        words = mended
    wanted = [part for part in command.params if isinstance(part, click.Argument) and part.required]
    is_short = len(words_and_options(command, words)[0]) < len(wanted)
    mended_line = with_everything(command, verb, words) if is_short else f"Write: {line(verb, words)}"
    return " ".join([*dict.fromkeys(remarks), mended_line])


def _unknown_at(command: click.Command, words: Sequence[str]) -> int | None:
    """The place of the first option that the command does not have."""
    known = {name: part for part in command.params if isinstance(part, click.Option) for name in _names(part)}
    is_value = False
    for place, word in enumerate(words):
        name = word.partition("=")[0]
        if word == "--" and not is_value:
            return None
        if is_value or not word.startswith("-") or word == "-":
            is_value = False
        elif name in known:
            is_value = not known[name].is_flag and name == word
        elif name not in ("-h", "--help") and not (word[1] != "-" and word[:2] in known):
            return place
    return None


def _names(option: click.Option) -> list[str]:
    return [*option.opts, *option.secondary_opts]


def _correction(command: click.Command, words: list[str], at: int) -> tuple[str, list[str] | None]:
    """The words without the unknown option at this place, or with its counterpart, and a remark; None without a
    correction."""
    whole, equals, typed_value = words[at].partition("=")
    plain = whole.lstrip("-").lower().replace("_", "-")
    value = typed_value if equals else next((word for word in words[at + 1 : at + 2] if not word.startswith("-")), "")
    before, flagged = words[:at], words[at + 1 :]
    behind = flagged if equals or not value else words[at + 2 :]
    options = {name.lstrip("-"): option for name, option in options_of(command).items()}
    if value.lower() == "json" and "json" in options:
        return "", [*before, "--json", *behind]
    if plain in ("user", "u", "port", "p") and value and any(part.name == "targets" for part in command.params):
        return "", _of_a_target([*before, *behind], value, plain[0] == "p")
    if "data" in options and plain in ("release", *WORDS) and value and not value.endswith(".py"):
        return "", [*before, "--data", f"{plain}={value}", *behind]
    if plain in ("gpu", "gpus", "g") and "gpu" in options and value.isdecimal():
        return "The number of cards is the answer.", [*before, *behind]
    meant = (plain, *OPTIONS_MEANT.get(plain, ()))
    for name in [*(name for name in meant if name in options), nearest_option(plain, options)]:
        if name and options[name].is_flag:
            return "", [*before, f"--{name}", *(behind if "format" in plain else flagged)]
        if name and (accepted := _accepted(options[name], value)):
            return "", [*before, max(options[name].opts, key=len), accepted, *behind]
        if name and (not value or value.endswith(".py")):
            return "", [*before, max(options[name].opts, key=len), value_of(options[name]), *flagged]
    if plain in ("f", "file", "prompt-file") and value and any(part.name == "texts" for part in command.params):
        return f'"$(cat {shlex.quote(value)})" stands for the text of a file.', [*before, *behind]
    arguments = [part for part in command.params if isinstance(part, click.Argument)]
    names = [part.name for part in arguments]
    place = next((names.index(name) for name in (plain, *OPTIONS_MEANT.get(plain, ())) if name in names), None)
    if plain in NEEDLESS_OPTIONS:
        remark = WRITES if command.name in WRITING and plain in DRY else "No verb changes a host or asks a person."
        return remark, [*before, *(behind if value.isdecimal() else flagged)]
    if plain in OPTIONS_WITHOUT and plain not in names:
        return OPTIONS_WITHOUT[plain], [*before, *(flagged if value.endswith(".py") else behind)]
    if place is None:
        return "", None
    kept, others = words_and_options(command, [*before, *behind])
    kept += [metavar_of(argument) for argument in arguments[len(kept) : place]]
    kept[place:place] = [value] if value else []
    return "", [*kept, *others]


def _accepted(option: click.Option, value: str) -> str:
    """The value if the option takes it, or the value that the option's refusal offers; else empty."""
    if not value or (value.endswith(".py") and not isinstance(option.type, click.Path)):
        return ""
    try:
        option.type.convert(value, option, None)
    except click.BadParameter as error:
        meant = re.search(r"Write ([^ ]+)\.$", error.message)
        return meant[1] if meant else ""
    return value


def _of_a_target(words: list[str], value: str, is_port: bool) -> list[str]:
    """The words of `init` with a port or a user as a part of the last machine."""
    *before, last = [word for word in words if word != "ssh"] or ["HOST"]
    return [*before, f"{last}:{value}" if is_port else f"{value}@{last}"]
