"""Misplaced words of a command line: a host or a model instead of an inventory, ssh, a program of pyinfra, a card."""

import re
from collections.abc import Sequence
from pathlib import Path

import click

from deploy.cli.lines import line, verb_of, words_and_options
from deploy.io.inventory_file import PROGRAMS
from deploy.io.local_paths import is_file


def misplaced_word(group: click.Group, words: Sequence[str]) -> str:
    """The problem of a misplaced word, with the line that was probably meant; empty without a problem."""
    command, verb, typed = verb_of(group, words)
    names = [part.name for part in command.params if isinstance(part, click.Argument)]
    texts, options = words_and_options(command, typed)
    if "targets" in names:
        return _of_machines(verb, texts, options, [name for part in command.params for name in part.opts])
    if names[:1] != ["inventory"] or not texts or (is_file(Path(texts[0])) and texts[0] not in PROGRAMS):
        is_read = "inventory" in names and command.name != "ask"  # its further words are a question
        program = next((word for word in texts[1:] if Path(word).name in PROGRAMS), "") if is_read else ""
        return f"{program} is a program of pyinfra. Write: pyinfra {texts[0]} {program} --dry" if program else ""
    inventory = next((word for word in texts[1:] if word.endswith(".py") and is_file(Path(word))), "")
    if texts[0] in PROGRAMS and inventory:
        return f"{texts[0]} is a program of pyinfra. Write: pyinfra {inventory} {texts[0]} --dry"
    if texts[0] == "ssh" and len(texts) > 1:
        return f"ssh is no inventory. Write: {line(['init'], texts[1:2])}"
    if inventory and not texts[0].endswith(".py"):
        rest = [word for word in texts if word != inventory]
        return f"The inventory comes first. Write: {line(verb, [inventory, *rest, *options])}"
    return ""


def _of_machines(verb: list[str], texts: list[str], options: list[str], known: list[str]) -> str:
    """The problem of a word that is no machine, for a verb that logs in to machines."""
    split = [part for word in texts for part in word.split()]
    machines = [re.sub("^ssh://", "", word) for word in split if word != "ssh"]
    # .py is the top-level domain of Paraguay as well.
    file = next((word for word in machines if word.endswith(".py") and (is_file(Path(word)) or "/" in word)), "")
    if file and len(machines) > 1:
        return f"init names the file itself. Write: {line(verb, [word for word in machines if word != file])}"
    if file:
        return f"{file} is an inventory, and init writes one. Write: {line(['plan'], [file])}"
    is_known = all(option.partition("=")[0] in known for option in options if option.startswith("-"))
    is_meant = machines and machines != texts and is_known
    return f"A machine is USER@HOST. Write: {line(verb, [*machines, *options])}" if is_meant else ""


def card_missing(command: click.Command, typed: Sequence[str]) -> str:
    """The line of `fit` with a card in front of its models; empty if the first word is a card."""
    from deploy.planning.card_words import is_card

    texts, options = words_and_options(command, typed)
    words = [part for word in texts for part in re.split(r"[,\s]+", word) if part]
    if not words or (is_card(words[0]) and len(words) == 1):
        return ""
    if words[0].endswith(".py"):
        return f"Write: {line(['plan'], words[:1])}"
    fitting = words if is_card(words[0]) else ["h100-80", *words]
    return f"The card comes first. Write: {line(['fit'], [*fitting, *options])}"
