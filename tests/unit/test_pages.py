"""Pages name existing commands and targets, in short sentences.

A command in a `sh` block is tried here as far as this machine can. A block that needs more has a mark in the line
above: `<!-- needs: machine -->`, `<!-- needs: H100 -->`, `<!-- needs: root -->`. In a marked block only names and
options are checked.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from deploy.__main__ import main as enginehouse
from rehearsal.__main__ import main as rehearsal
from tests.unit.pages import ROOT, Block, anchors, blocks, code_spans, commands, links, pages, sentences

SHELL = [block for page in pages() for block in blocks(page) if block.language == "sh"]
NEEDED = {"H100", "Triton", "machine", "root"}
LONGEST_SENTENCE = 25
NOT_OURS = re.compile(r"^(\w+)=")


def tried(words: list[str], block: Block, tmp_path: Path) -> None:
    """Fails if this command could not be typed; runs it if it needs only this clone."""
    while NOT_OURS.match(words[0]):
        words = words[1:]
    assert words[0] in CHECKS, f"{block.where}: no check for `{words[0]}`"
    CHECKS[words[0]](words[1:], block, tmp_path)


def nothing(_words: list[str], _block: Block, _tmp_path: Path) -> None:
    """Accepts a command that every shell has."""


def make(words: list[str], block: Block, _tmp_path: Path) -> None:
    """Checks that the target exists, and that the Makefile reads every variable."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for word in words:
        if "=" in word:
            assert f"$({word.partition('=')[0]})" in makefile or f"$(if $({word.partition('=')[0]})" in makefile, word
        else:
            assert re.search(rf"^{re.escape(word)}:.*## ", makefile, flags=re.M), f"{block.where}: no target {word}"


def our_verb(words: list[str], block: Block, _tmp_path: Path) -> None:
    """Runs `plan`, `fit`, `check`, `cost` and `size`; of other verbs checks the words."""
    assert words[0] in enginehouse.commands, f"{block.where}: no verb {words[0]}"
    if words[0] in ("plan", "fit", "check", "cost", "size") and not block.needs:
        answer = CliRunner().invoke(enginehouse, words)
        assert answer.exit_code == 0, f"{block.where}: {answer.output}"
    else:
        understood(enginehouse.commands[words[0]], words[1:])


def understood(command: click.Command, words: list[str]) -> None:
    """Checks that the command accepts these words. Raises: click's own error."""
    command.make_context(command.name, list(words), resilient_parsing=False).close()


def _program(name: str) -> ModuleType:
    """The module that `python -m NAME` runs; for a package its `__main__`."""
    module = importlib.import_module(name)
    return importlib.import_module(f"{name}.__main__") if hasattr(module, "__path__") else module


def python(words: list[str], block: Block, _tmp_path: Path) -> None:
    """Checks the words of `python -m` with the module's own parser."""
    assert words[0] == "-m", block.where
    module, rest = words[1], words[2:]
    if module == "rehearsal":
        assert rest[0] in rehearsal.commands, f"{block.where}: no verb {rest[0]}"
        understood(rehearsal.commands[rest[0]], rest[1:])
    elif module == "benchmarks.chart":
        assert (ROOT / rest[0]).exists(), block.where
    else:
        assert module.startswith("benchmarks."), block.where
        _program(module).parser().parse_args(rest)


def pyinfra(words: list[str], block: Block, _tmp_path: Path) -> None:
    """Checks that the inventory plans, the verb exists, and pyinfra knows the options."""
    from pyinfra_cli.cli import cli

    inventory, verb = words[0], words[1]
    assert (ROOT / verb).exists(), f"{block.where}: no {verb}"
    our_verb(["plan", inventory], Block(block.page, block.line, "sh", "", ""), _tmp_path)
    cli.make_parser(click.Context(cli)).parse_args(list(words))


def bash(words: list[str], block: Block, _tmp_path: Path) -> None:
    """Checks that the script exists, and knows the verb and the steps."""
    from rehearsal.real_gpu.steps import parser

    script, verb, *rest = words
    assert re.search(rf"^    {verb}\)", (ROOT / script).read_text(), re.MULTILINE), block.where
    if verb == "run":
        parser().parse_args(rest)


def pytest_(words: list[str], block: Block, _tmp_path: Path) -> None:
    """Checks that the paths exist."""
    named = [word.partition("::")[0] for word in words if word.startswith(("tests/", "inventories/"))]
    assert named, block.where
    assert [name for name in named if not (ROOT / name).exists()] == [], block.where


def run_it(program: str) -> Callable[[list[str], Block, Path], None]:
    """Runs a small program in an empty directory."""

    def run(words: list[str], block: Block, tmp_path: Path) -> None:
        executable = shutil.which(program)
        if not executable:
            pytest.skip(f"no {program} on this machine")
        done = subprocess.run([executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{block.where}: {done.stderr}"

    return run


CHECKS: dict[str, Callable[[list[str], Block, Path], None]] = {
    "bash": bash,
    "git": nothing,
    "cd": nothing,
    ".": nothing,
    "export": nothing,
    "make": make,
    "enginehouse": our_verb,
    "python": python,
    "pyinfra": pyinfra,
    "pytest": pytest_,
    "mkdir": run_it("mkdir"),
    "ssh-keygen": run_it("ssh-keygen"),
}


def test_there_are_commands_to_try() -> None:
    """The first page and the rooms' pages have some."""
    assert {block.page.parent.name for block in SHELL} >= {ROOT.name, "benchmarks", "inventories", "rehearsal"}


@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.where)
def test_commands_of_a_page_can_be_typed(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands are typed in the root of a clone."""
    monkeypatch.chdir(ROOT)
    assert not block.needs or block.needs in NEEDED, f"{block.where}: needs {block.needs}"
    for words in commands(block.text):
        tried(words, block, tmp_path)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_have_targets(page: Path) -> None:
    """A link names an existing file of the repository, or an existing heading."""
    lost = []
    for target in links(page):
        name, _, anchor = target.partition("#")
        place = (page.parent / name) if name else page
        if not place.exists() or (anchor and anchor not in anchors(place)):
            lost.append(target)
    assert lost == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_files_targets_and_verbs_that_a_page_names_exist(page: Path) -> None:
    """The whole text of each page is checked."""
    assert [span for span in code_spans(page) if not named_rightly(span, page)] == []


EXAMPLES = re.compile(r"dcgm.exporter|calibration/|keys/|replay/|^inventories/engines/$")
"""Files made by the operator or by a deploy, or examples of them."""
ROOMS = ("benchmarks/", "deploy/", "files/", "inventories/", "rehearsal/", "roles/", "templates/", "tests/")


def named_rightly(span: str, page: Path) -> bool:
    """False if a span names a file, a make target or a verb that does not exist."""
    first, _, rest = span.partition(" ")
    if EXAMPLES.search(span):
        return True
    if first == "make" and re.match(r"[a-z]", rest):
        return (
            re.search(rf"^{re.escape(rest.split()[0])}:.*## ", (ROOT / "Makefile").read_text("utf-8"), re.M) is not None
        )
    if first == "enginehouse" and rest:
        return rest.split()[0] in {*enginehouse.commands, "--help"}
    if span.startswith(ROOMS) and re.fullmatch(r"[\w./*-]+", span):
        return any(ROOT.glob(span.rstrip("/"))) or any(page.parent.glob(span.rstrip("/")))
    return True


def test_every_test_that_a_page_names_is_there() -> None:
    """A page's promise is only as good as its test."""
    sources = (file.read_text("utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    known = {name for source in sources for name in re.findall(r"^(?:async )?def (test_\w+)", source, re.M)}
    named = {span for page in pages() for span in code_spans(page) if re.fullmatch(r"test_[a-z0-9_]+", span)}
    assert "test_a_pasted_text_is_shown_and_does_nothing" in named
    assert named - known == set()


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_of_a_page_are_short(page: Path) -> None:
    """A sentence has at most 25 words."""
    assert [sentence for sentence in sentences(page) if len(sentence.split()) > LONGEST_SENTENCE] == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_its_prose_leaves_nothing_out(page: Path) -> None:
    """No sentence ends in dots; placeholders are in code."""
    assert [sentence for sentence in sentences(page) if "…" in sentence] == []


def test_the_first_page_is_short() -> None:
    """At most 150 lines, without the table of pasted commands."""
    text = (ROOT / "README.md").read_text("utf-8")
    shown = re.sub(r"### Commands that guides print.*<!-- end of guides -->\n", "", text, flags=re.S)
    assert len(shown.splitlines()) <= 150


def test_every_shipped_inventory_is_in_the_pages_table() -> None:
    """The table has no other inventory."""
    table = (ROOT / "inventories/README.md").read_text("utf-8")
    named = set(re.findall(r"^\| `(\w+\.py)` \|", table, flags=re.M))
    assert named == {file.name for file in (ROOT / "inventories").glob("*.py")}


def test_every_role_stands_in_the_table_of_roles() -> None:
    """The table uses the names of the folders."""
    table = (ROOT / "roles/README.md").read_text("utf-8").split("## pyinfra underneath")[0]
    named = set(re.findall(r"^\| (\w+) \|", table, flags=re.M)) - {"role"}
    assert named == {folder.parent.name for folder in (ROOT / "roles").glob("[!_]*/__init__.py")}


def test_the_refusal_on_the_first_page_is_a_kept_one() -> None:
    """The text is compared word for word."""
    shown = [block for block in blocks(ROOT / "README.md") if "state   planning" in block.text]
    kept = (ROOT / "tests/golden/refusals/gpt-oss-has-no-engine.txt").read_text("utf-8")
    assert [block.text for block in shown] == [kept.rstrip("\n")]


def test_as_many_refusals_are_kept_as_the_first_page_says() -> None:
    """The tables have more than 500 refusals."""
    assert len(list((ROOT / "tests/golden/refusals").glob("*.txt"))) > 500


def test_the_recorded_run_shows_operations_that_exist() -> None:
    """Role and verb of every label are in the code."""
    source = "".join(file.read_text("utf-8") for file in [ROOT / "deploy.py", *(ROOT / "roles").rglob("*.py")])
    shown = re.findall(r"Starting operation: (\w+ \| \w+)", (ROOT / "README.md").read_text("utf-8"))
    assert shown
    assert [label for label in shown if label not in source] == []
