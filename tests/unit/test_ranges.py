"""Numbers on the command line have a range, like those of an inventory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from deploy.__main__ import main


def numeric_options(
    command: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str, object]]:
    """(verb, option, type) for each numeric option of a command and its subcommands."""
    for parameter in command.params:
        if isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType):
            yield words, parameter.opts[-1], parameter.type
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from numeric_options(below, (*words, name))


OPTIONS = list(numeric_options(main))
CASES = pytest.mark.parametrize(
    ("words", "option", "kind"), OPTIONS, ids=[" ".join((*words, option)) for words, option, _ in OPTIONS]
)


@CASES
def test_every_numeric_option_has_a_least_and_a_most(words: tuple[str, ...], option: str, kind: object) -> None:
    """Both ends matter: a value in milliseconds or bytes is as wrong as a negative value. Options of keys have their
    own refusals."""
    is_ranged = isinstance(kind, click.IntRange | click.FloatRange)
    assert words[0] == "key" or (is_ranged and None not in (kind.min, kind.max))


@CASES
@pytest.mark.parametrize("number", ["-1", "nan", "inf", "1e400", "9" * 30, "", "1,5", "0x10", "²"])
def test_an_absurd_number_ends_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], option: str, kind: object, number: str
) -> None:
    """The message comes before the first request, and never as an exception."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, [*words, "name", f"{option}={number}"])
    assert isinstance(done.exception, SystemExit), done.output
    assert done.exit_code in (1, 2), done.output
    assert option in done.output or "Missing" in done.output


def test_the_documented_options_exist() -> None:
    """Without these options, the other tests of this file would test nothing."""
    assert {("fit", "--tp"), ("cost", "--utilisation")} <= {(words[-1], option) for words, option, _ in OPTIONS}


@pytest.mark.parametrize("tp", ["0", "-2", "17"])
def test_fit_answers_for_no_other_number_of_gpus_than_the_typed_one(tp: str) -> None:
    done = CliRunner().invoke(main, ["fit", "h100", "gpt-oss-20b", "--tp", tp])
    assert (done.exit_code, f"{tp} is not in the range 1<=x<=16" in done.output) == (2, True)
