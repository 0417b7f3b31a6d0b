"""`enginehouse init` and invalid answers: they are refused, and the written file has only literals."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import sampled_from, text

from deploy.inventory.first_inventory import Answered, Kind, inventory_text
from deploy.inventory.targets import Target
from deploy.io.init import ask
from deploy.refusals.errors import Refusal
from deploy.refusals.quoting import source
from tests.unit.test_init import ANSWERS, TARGET

HOSTILE = (
    'ubuntu-24.04", gpu=__import__("pathlib").Path("ran").write_text("x") and "h100-80") if True else dict(a="',
    "$(touch ran)",
    "\x1b]52;c;cm0gLXJm\x07",
    "\u202egnp.exe",
    "[bold]",
    "x" * 1000,
    "debian-12\r",
    "12\N{ARABIC-INDIC DIGIT FOUR}",
)


@pytest.mark.parametrize("name", ["os", "kernel", "gpu", "bridge", "memory_kib", "disk_mib", "address", "secure_boot"])
@pytest.mark.parametrize("answer", HOSTILE)
def test_an_answer_to_another_question_is_refused_by_name_and_nothing_is_written(name: str, answer: str) -> None:
    """The answer's words would be written to a file that Python runs; the refusal shows them as a literal."""
    with pytest.raises(Refusal) as refused:
        Answered.of(TARGET, f"{ANSWERS}{name}={answer}\n")
    assert refused.value.kind == "strange-answer"
    assert refused.value.problem.startswith("ubuntu@203.0.113.7 gave no answer")
    assert refused.value.facts["seen"].startswith(f"{name}='{repr(answer)[1:9]}")
    assert len(refused.value.facts["seen"]) < 400
    assert refused.value.state == "asking; no file was written, and no host was changed"


def test_an_address_is_an_address_of_four_numbers() -> None:
    """IPv6 may have the name of an interface after `%`, which may be any text."""
    for address in ('fe80::1%x"', "1.2.3", "300.0.0.1", "10.0.0.1/8"):
        with pytest.raises(Refusal):
            Answered.of(TARGET, f"{ANSWERS}address={address}\n")
    assert Answered.of(TARGET, f"{ANSWERS}address=10.0.0.1\n").address == "10.0.0.1"


def test_words_of_a_login_around_the_answers_are_not_read() -> None:
    """Many providers print a greeting."""
    assert Answered.of(TARGET, f'Welcome! "\nhint=__import__("os")\n{ANSWERS}') == Answered.of(TARGET, ANSWERS)


@given(text())
def test_a_literal_is_the_text_on_one_line_in_double_quotes(value: str) -> None:
    """Any text is possible, three quotes included."""
    literal = source(value)
    assert ast.literal_eval(literal) == value
    assert len(literal.splitlines()) == 1
    assert literal[0] == literal[-1] == '"'
    assert ast.literal_eval(f'""{literal}""') == value
    literal.encode()


STRANGE = text(max_size=40) | text(alphabet="\"'\\\n#(){}[],= aeimport_", max_size=20)
NODES = (
    *(ast.Module, ast.Expr, ast.Constant, ast.ImportFrom, ast.alias, ast.Assign, ast.Name, ast.Store, ast.Load),
    *(ast.Call, ast.keyword, ast.Attribute, ast.Tuple, ast.List, ast.Dict),
)
CALLED = {
    "LLM",
    "Reranker",
    "Embedder",
    "Weights.hub",
    "Machine",
    "Server",
    "Balancer",
    "Monitor",
    "Route",
    "Secret.command",
}


@given(STRANGE, STRANGE, STRANGE, STRANGE, STRANGE, STRANGE)
def test_any_name_or_answer_of_a_machine_becomes_a_literal_in_the_file(
    host: str, user: str, os: str, pci_id: str, flavour: str, address: str
) -> None:
    """Even without the refusal of such answers, the file only calls constructors of the spec."""
    kind = Kind(os=os, pci_id=pci_id, gpus=1, kernel_flavour=flavour, secure_boot=False, nvswitch=False)
    machine = Answered(Target(host, user), kind, 1, 1, address)
    tree = ast.parse(inventory_text([machine], [machine], [machine]))
    nodes = list(ast.walk(tree))
    assert [node for node in nodes if not isinstance(node, NODES)] == []
    assert {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)} == CALLED
    assert {host, os, flavour, address} <= {node.value for node in nodes if isinstance(node, ast.Constant)}


@given(STRANGE, sampled_from([line.partition("=")[0] for line in (*ANSWERS.splitlines(), "address=")]))
def test_an_answer_is_refused_or_the_written_file_parses_equally(answer: str, name: str) -> None:
    """The whole path from the answer to the file is tested."""
    try:
        machine = Answered.of(TARGET, f"{ANSWERS}{name}={answer}\n")
    except Refusal:
        return
    assert [node for node in ast.walk(ast.parse(inventory_text([machine]))) if not isinstance(node, NODES)] == []


def test_a_machine_that_answers_without_end_is_cut_off_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endless answer fills no memory."""
    (tmp_path / "ssh").write_text("#!/bin/sh\nexec yes 'os=debian-12'\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(Refusal) as refused:
        ask(Target("endless-1"))
    assert refused.value.problem == "endless-1 cannot be asked over ssh"
    assert refused.value.facts["seen"].startswith("more than 65,536 bytes, beginning with 'os=debian-12\\n")
