"""Files and words that a verb is given by mistake: directories, other encodings, no text, words of other verbs."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deploy.__main__ import main

INVENTORY = Path(__file__).parents[2] / "inventories/h100.py"
TEXT = INVENTORY.read_text("utf-8")
SERVES = "vllm serve Qwen/Qwen3-8B\n"
FILES = {
    "latin.py": "# caf\xe9\n".encode("latin-1") + TEXT.encode(),
    "marked.py": b"\xef\xbb\xbf" + TEXT.encode(),
    "wide.py": TEXT.encode("utf-16"),
    "windows.py": TEXT.replace("\n", "\r\n").encode(),
    "good.py": TEXT.encode(),
    "bytes": bytes(range(256)) * 20,
    "large": b"# 40 bytes of a comment, and again .....\n" * 30_000,
    "wide.sh": SERVES.encode("utf-16"),
    "marked.sh": b"\xef\xbb\xbf" + SERVES.encode(),
    "other.json": b"[]",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with these files, where verbs are typed."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for name, content in FILES.items():
        Path(name).write_bytes(content)


def typed(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("plan latin.py", "iconv -f ISO-8859-1 -t UTF-8 latin.py > new.py"),
        ("plan wide.py", "iconv -f UTF-16 -t UTF-8 wide.py > new.py"),
        ("plan marked.py", "sed -i '1s/^\\xEF\\xBB\\xBF//' marked.py"),
        ("plan bytes", "enginehouse plan inventories/h100.py"),
        ("plan good.py/", "enginehouse plan good.py"),
        ("plan folder", "folder is a directory"),
        ("check ./folder", "a directory"),
        ("check bytes", "bytes that are not text"),
        ("check large", "more than 1 MiB"),
        ("migrate ./folder", "a directory"),
        ("migrate marked.sh --to nowhere/new.py", "nowhere/new.py: No such file or directory"),
        ("cost good.py --per-hour 2 --bench folder", "ls -ld folder"),
        ("cost good.py --per-hour 2 --bench other.json", "is not a result of"),
        ("fit h100 ./good.py", "a file"),
        ("key new acme --file folder", "folder cannot be read or written"),
        ("plan good.py --data confirm=yes", "--data remove=yes, for remove.py"),
        ("plan good.py --data to=yesterday", "--data run=ID, for rollback.py"),
        ("plan good.py --data events=https://hooks.example/x", "--data events=FILE"),
        ("key new acme --models llama;bge", "this is not a model's name"),
    ],
)
def test_an_odd_file_is_refused_with_its_kind(words: str, meant: str) -> None:
    """The command exits with code 1, and without a traceback."""
    answer = typed(*words.split())
    assert (answer.exit_code, meant in answer.output) == (1, True), answer.output
    assert isinstance(answer.exception, SystemExit)


@pytest.mark.parametrize("file", ["wide.sh", "marked.sh"])
def test_a_paste_that_windows_wrote_is_read(file: str) -> None:
    assert '"Qwen/Qwen3-8B"' in typed("migrate", file).output


def test_an_inventory_with_lines_of_windows_is_planned() -> None:
    assert "digest" in typed("plan", "windows.py", "--json").output
