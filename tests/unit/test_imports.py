"""The shape of the repository: imports point one way, files are short, deploy.py fits a page."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BOUNDARY = ("deploy/__main__.py", "deploy/io/", "deploy/cli/")
ACTS = ("subprocess", "socket", "urllib", "requests", "paramiko", "shutil", "tempfile", "huggingface_hub")
LONGEST = 300


def python_files() -> list[Path]:
    """Every Python file in git, or to be added."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [Path(name) for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def imports(file: Path) -> Iterator[str]:
    """All imports of a file, relative imports by their full name."""
    for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = list(file.parts[: len(file.parts) - node.level]) if node.level else []
            yield ".".join([*above, *([node.module] if node.module else [])])


@functools.cache
def module_names() -> frozenset[str]:
    """Every module of this repository, as an import names it."""
    return frozenset(".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in python_files())


def imported_modules(file: Path) -> Iterator[str]:
    """The modules of this repository that a file imports; `from a import b` names `a.b` if that is a module."""
    known = module_names()
    for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from {name if name in known else node.module for name in names}


def circle(arrows: dict[str, list[str]]) -> list[str]:
    """The modules of one circle of imports, the first repeated at the end; empty if there is none."""
    finished: set[str] = set()

    def walk(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in finished:
            return []
        for target in arrows.get(module, []):
            if way := walk(target, [*path, module]):
                return way
        finished.add(module)
        return []

    return next(filter(None, (walk(module, []) for module in arrows)), [])


def crossings(pattern: str, forbidden: str, *except_in: str) -> list[str]:
    """`file imports module`, for files that match `pattern` and modules that match `forbidden`."""
    files = [
        file for file in python_files() if re.match(pattern, str(file)) and not str(file).startswith(except_in or "/")
    ]
    return [f"{file} imports {name}" for file in files for name in imports(file) if re.match(forbidden, name)]


def test_deploy_imports_nothing_that_acts() -> None:
    """No role, no rehearsal, no test; only the command line passes in knobs, packages and the roles' renderings."""
    allowed = ("deploy/cli/knobs.py", "deploy/cli/rendered.py", "deploy/cli/bundle.py")
    assert crossings(r"deploy/", r"(roles|rehearsal|tests|inventories)\b", *allowed) == []
    assert crossings(r"deploy/cli/rendered\.py", r"(rehearsal|tests|inventories)\b") == []
    assert crossings(r"deploy/cli/bundle\.py", r"(roles\b(?!\.bundle_needs$)|rehearsal|tests|inventories)") == []
    assert crossings(r"deploy/cli/knobs\.py", r"(roles\.(?!_pyinfra\.settings)|rehearsal|tests|inventories)") == []


def test_only_errors_and_the_boundary_import_pyinfra() -> None:
    """The rest of deploy/, the command `enginehouse` included, runs on a laptop without it."""
    files = ("deploy/refusals/errors.py", "deploy/io/inventory.py", "deploy/io/dry_run.py")
    assert crossings(r"deploy/", r"pyinfra", *files) == []


def test_the_verbs_of_pyinfra_take_their_plan_from_the_boundary() -> None:
    """`deploy/__main__.py` has only the command line, and no code that a deploy file needs."""
    assert crossings(r"(deploy|rollback|build|remove|doctor)\.py|roles/|rehearsal/", r"deploy\.__main__") == []


def test_only_the_boundary_opens_files_or_connections() -> None:
    """Decisions are pure."""
    assert crossings(r"deploy/", rf"({'|'.join(ACTS)})\b", *BOUNDARY) == []


def test_only_the_boundary_is_imported_by_the_boundary() -> None:
    """Pure folders import no module that acts."""
    assert crossings(r"deploy/", r"deploy\.(io|cli|__main__)", *BOUNDARY) == []


def test_the_judge_of_pasted_text_and_the_checks_of_a_fleet_know_nothing_of_each_other() -> None:
    """Shared facts are in the catalog."""
    assert crossings(r"deploy/linter/", r"deploy\.validation") == []
    assert crossings(r"deploy/validation/", r"deploy\.linter") == []


@pytest.mark.parametrize("call", [r"\bopen\(", r"\.read_text\(", r"\.write_text\(", r"date\.today\(", r"\.now\("])
def test_decisions_open_no_file_and_read_no_clock(call: str) -> None:
    """Callers pass in files' contents and the date."""
    files = [file for file in python_files() if str(file).startswith("deploy/") and not str(file).startswith(BOUNDARY)]
    assert [str(file) for file in files if re.search(call, (ROOT / file).read_text("utf-8"))] == []


FLOORS = (
    # A checkpoint of the catalog has the spec's type, and the spec's default release is a row of the catalog.
    ("catalog", "spec"),
    ("refusals",),
    ("slices",),
    ("models",),
    ("engine",),
    ("inventory",),
    ("topology",),
    ("validation",),
    ("planning",),
    ("rollout",),
    ("doctor", "monitoring"),  # a finding of the doctor names the remedy of an alert
    ("linter", "reports", "exports", "bundle"),
    ("migrate", "cost", "bench"),
    ("io",),
    ("cli",),
)
"""The folders of deploy/, the lowest first: a folder imports from its own floor and from those below."""


def test_no_folder_of_deploy_imports_from_a_floor_above() -> None:
    """No module of deploy/ except the command itself is outside the folders."""
    floor = {folder: number for number, folders in enumerate(FLOORS) for folder in folders}
    files = [file for file in python_files() if file.parts[0] == "deploy" and file.parts[1] != "edge"]
    assert [str(file) for file in files if len(file.parts) == 2] == ["deploy/__init__.py", "deploy/__main__.py"]
    climbing = [
        f"{file} imports {module}"
        for file in files
        if len(file.parts) > 2
        for module in imported_modules(file)
        if module.startswith("deploy.") and floor[module.split(".")[1]] > floor[file.parts[1]]
    ]
    assert climbing == []


def test_inventories_import_the_spec_and_the_hosts_of_other_tools_only() -> None:
    """An inventory only declares; the rehearsal's inventory also reads the rehearsal's services."""
    assert crossings(r"inventories/(?!rehearsal)", r"(roles|rehearsal|tests|deploy\.(?!spec|io\.hosts))") == []


def test_roles_do_not_import_each_other() -> None:
    """A role is a package under roles/; `_pyinfra`, `_shipping` and the modules beside the packages are shared."""
    folders = {file.parts[1] for file in python_files() if file.parts[0] == "roles" and len(file.parts) > 2}
    roles = sorted(folder for folder in folders if not folder.startswith("_"))
    imports = [
        crossing
        for role in roles
        for crossing in crossings(rf"roles/{role}/", rf"roles\.(?!{role}\b)({'|'.join(roles)})\b")
    ]
    assert imports == []


FLEETS = ("against_ansible", "changes", "converge", "doctor", "first_deploy", "fleet", "gateway/engine", "rollout")
"""Modules of benchmarks/ that measure rehearsal machines, or the model that the sittings on a GPU serve."""


def test_nothing_imports_the_rehearsal() -> None:
    """Production code does not depend on the rehearsal."""
    allowed = ("rehearsal/", "tests/", "inventories/rehearsal", *(f"benchmarks/{name}" for name in FLEETS))
    assert crossings(r"", r"rehearsal\b", *allowed) == []


def test_modules_of_the_rehearsal_import_each_other_one_way() -> None:
    """An import inside a function or for the type checker counts like any other."""
    files = [file for file in python_files() if file.parts[0] == "rehearsal" and "llmapi" not in file.parts]
    names = {file: ".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files}
    assert circle({names[file]: sorted(imported_modules(file)) for file in files}) == []


def test_an_import_cycle_is_reported_by_its_modules() -> None:
    assert circle({"a": ["b"], "b": ["c", "d"], "c": [], "d": ["b"]}) == ["b", "d", "b"]


def test_production_code_does_not_mention_the_rehearsal() -> None:
    """No `if` of deploy and roles asks for the rehearsal."""
    files = [file for file in python_files() if file.parts[0] in ("deploy", "roles")]
    asks = re.compile(r"\bif\b[^\n]*rehears", re.IGNORECASE)
    assert [str(file) for file in files if asks.search((ROOT / file).read_text("utf-8"))] == []


def test_no_file_is_longer_than_300_lines_without_saying_why() -> None:
    """The reason is in the module's docstring, with the word `lines`."""
    long = [file for file in python_files() if len((ROOT / file).read_text("utf-8").splitlines()) > LONGEST]
    reasons = {file: ast.get_docstring(ast.parse((ROOT / file).read_text("utf-8"))) or "" for file in long}
    assert [str(file) for file, reason in reasons.items() if "lines" not in reason] == []


def test_every_type_ignore_has_a_code_and_a_reason() -> None:
    """The mark has a code, and a comment after it the reason; folders that mypy does not read have none."""
    reasoned = re.compile(r"#\s*type:\s*ignore\[[a-z, -]+\]  # \w+")
    lines = [
        f"{file}:{number}"
        for file in python_files()
        for number, line in enumerate((ROOT / file).read_text("utf-8").splitlines(), start=1)
        if re.search(r"#\s*type:\s*ignore", line)
        if file.parts[0] not in ("deploy", "roles", "files") or not reasoned.search(line)
    ]
    assert lines == []


@pytest.mark.parametrize("package", ["deploy", "roles", "inventories"])
def test_every_module_has_a_docstring(package: str) -> None:
    """The docstring gives the module's purpose, and the parts that other modules have."""
    files = [file for file in python_files() if file.parts[0] == package]
    assert [str(file) for file in files if not ast.get_docstring(ast.parse((ROOT / file).read_text("utf-8")))] == []


def test_no_two_modules_have_the_same_docstring() -> None:
    """A module that was begun as a copy of another one describes itself."""
    files: dict[str, list[str]] = {}
    for file in python_files():
        if file.parts[0] in ("deploy", "roles", "files", "rehearsal", "benchmarks"):
            text = ast.get_docstring(ast.parse((ROOT / file).read_text("utf-8"))) or ""
            files.setdefault(text, []).append(str(file))
    assert [names for text, names in files.items() if text and len(names) > 1] == []


def test_every_public_function_of_deploy_has_a_docstring() -> None:
    """The docstring states the result, or the state after the call; a function of one statement needs none."""
    missing = []
    for file in python_files():
        if file.parts[0] != "deploy":
            continue
        for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                is_short = isinstance(node, ast.FunctionDef) and len(node.body) == 1
                missing += [] if is_short or ast.get_docstring(node) else [f"{file}: {node.name}"]
    assert missing == []


@pytest.mark.parametrize(
    "lock", sorted([*ROOT.glob("locks/*.lock"), *ROOT.glob("rehearsal/*/*.lock")]), ids=lambda file: file.name
)
def test_a_lock_names_hashes_but_no_address_and_no_folder_of_a_machine(lock: Path) -> None:
    """A lock compiled by an absolute path would name the folder of whoever compiled it, and an index its host."""
    text = lock.read_text("utf-8")
    assert "--hash=sha256:" in text
    assert re.findall(r"https?://\S+|file:\S+|(?<![\w.-])/\w+/\S+", text) == []


def test_deploy_py_is_under_forty_lines() -> None:
    """A file of this length can be read in one minute."""
    assert len((ROOT / "deploy.py").read_text("utf-8").splitlines()) < 40


@pytest.mark.parametrize("module", ["deploy.spec", "deploy.catalog", "deploy.linter", "deploy.spec.server"])
def test_a_module_can_be_the_first_that_is_imported(module: str) -> None:
    """The spec takes its default release from the catalog, whose checkpoints are of the spec's type."""
    subprocess.run([sys.executable, "-c", f"import {module}"], cwd=ROOT, check=True)
