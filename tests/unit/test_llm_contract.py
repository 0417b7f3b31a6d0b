"""The contract of the served LLM is consistent: every name occurs once, every output has its input."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from deploy.models import llm_contract as contract

STANDARD = {"__future__", "dataclasses"}


def test_every_tensor_has_a_name_of_its_own() -> None:
    names = [tensor.name for tensor in (*contract.INPUTS, *contract.OUTPUTS)]
    assert sorted(set(names)) == sorted(names)


def test_the_input_that_requests_an_output_exists() -> None:
    inputs = {tensor.name for tensor in contract.INPUTS}
    assert {tensor.asked_by for tensor in contract.OUTPUTS} - inputs == {""}


def test_a_copy_of_the_file_needs_nothing_beside_it() -> None:
    """The file is shipped alone, into containers and gateways."""
    tree = ast.parse(Path(contract.__file__).read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == STANDARD <= set(sys.stdlib_module_names)
    assert not any(isinstance(node, ast.Import) for node in ast.walk(tree))
