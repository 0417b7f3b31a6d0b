"""Splitting pasted text into words: a shell's expansions, a program's input, a terminal's prompt."""

from __future__ import annotations

import pytest

from deploy.linter.copied import plain, typed_as
from deploy.linter.manifests import containers
from deploy.linter.words import pasted, varies


@pytest.mark.parametrize(
    "raw",
    ['"$X"', "--a=$X", '"it\'s $X"', '"it\'s" $X', "`x`", "$(x)", "'a'$X", "\"'$X'\"", "${X:-8}", '"${A[@]}"', "$@"],
)
def test_the_shell_fills_a_word_with_a_variable(raw: str) -> None:
    """A variable may be after, between or inside quotes."""
    assert varies(raw)


@pytest.mark.parametrize("raw", ["'$X'", "--a='$'", "--a='$X'", r"\$X", "$", "a$", r'"a\$X"', "'`x`'", "plain"])
def test_the_shell_takes_a_quoted_dollar_as_written(raw: str) -> None:
    """The linter judges the value with its dollar sign."""
    assert not varies(raw)


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("$ ls -l", [["ls", "-l"]]),
        ("me@host:~/x$ ls", [["ls"]]),
        ("(venv) root@host:/w# ls", [["ls"]]),
        ("(cd x && ls) | wc", [["cd", "x"], ["ls"], ["wc"]]),
        ("ls $(dirname $(pwd)) `date +%s`", [["ls", "$(dirname $(pwd))", "`date +%s`"]]),
        ("cat <<EOF > f\nls\n--x\nEOF\nwc f", [["cat"], ["wc", "f"]]),
        ("cat <<-'END'\n  ls\n  END\nwc", [["cat"], ["wc"]]),
        ("cat <<< 'a word'\nwc", [["cat"], ["wc"]]),
        ("echo 1 << 2\nls", [["echo", "1"], ["ls"]]),
    ],
)
def test_commands_are_cut_as_a_terminal_shows_them(text: str, commands: list[list[str]]) -> None:
    """Cases: prompts, subshells, substitutions and here-documents."""
    assert [[word.raw for word in command] for line in pasted(text) for command in line.commands] == commands


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("it's read, and ```x``` stays", "it's read, and ```x``` stays"),
        ("it's\n```sh\n$ ls\n```\nnot", "\n\n$ ls\n\n"),
        ("```sh\nls\n", "```sh\nls\n"),
        ("#!/bin/sh\n```\nls\n```", "#!/bin/sh\n```\nls\n```"),
        ("1 a\n3 b", "1 a\n3 b"),
        ("9: a\n10: b", "a\nb"),
        ("PS C:\\Users\\me> docker run `\n>> x", "docker run `\nx"),
        ("\x1b[1;32mls\x1b[0m\u00a0-l", "ls -l"),
    ],
)
def test_what_copying_added_is_removed_and_line_numbers_stay(text: str, right: str) -> None:
    assert plain(text) == right


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("x –p 1 —model “a b”", 'x -p 1 --model "a b"'),
        ('curl -d \'{"a": "say “hi”"}\'', 'curl -d \'{"a": "say “hi”"}\''),
        ("a – b", "a – b"),
        ("# the “best” –x\nx –p “a”  # “b”", '# the “best” –x\nx -p "a"  # “b”'),
        ("x “a # b” \\“ c”#d –e", 'x "a # b" \\“ c”#d -e'),
    ],
)
def test_typographic_signs_are_a_shells_outside_plain_quotes(text: str, right: str) -> None:
    assert typed_as(text) == right


def test_services_that_extend_each_other_in_a_circle_are_read() -> None:
    text = "services:\n  a: {image: vllm/vllm-openai:v1, extends: b}\n  b: {extends: {service: a}}\n"
    assert [container.name for container in containers(text)] == ["a", "b"]
