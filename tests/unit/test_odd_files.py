"""Files and words that a verb is given by mistake: directories, other encodings, no text, words of other verbs."""

from __future__ import annotations

import os
import subprocess
import sys
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
    "nbsp.py": 'h100 = (["a"],\u00a0{})\n'.encode(),
    "comma.py": 'h100 = (["a"]\uff0c {})\n'.encode(),
    "signs.py": "h100 = ([‘a’], {“k”: 1})\n".encode(),
    "dash.py": "port = 8000 \u2013 1\n".encode(),
    "slash.py": "half = 4\uff0f2\n".encode(),
    "tabs.py": b"if True:\n    a = 1\n\tb = 2\n",
    "env.py": b"export HF_TOKEN=abc\n",
    "dict.py": b'h100 = (["a"], dict(ssh_user="b", "_sudo"=True))\n',
    "position.py": b'h100 = (["a"], dict(ssh_user="b", "c"))\n',
    "odd.py": b'settings = {"hosts": 3, "b": {}}\n',
    "return.py": b'return {"h100": ["a"]}\n',
    "null.py": b'from deploy import spec\nh100 = (["a"], {"servers": (spec.Sever(name="main"),)})\n',
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
        ("plan nbsp.py", "sed -i 's/\\xc2\\xa0/ /g' nbsp.py"),
        ("plan comma.py", "sed -i 's/\\xef\\xbc\\x8c/,/g' comma.py"),
        ("plan signs.py", r"""sed -i 's/“/"/g;s/”/"/g;s/‘/\x27/g;s/’/\x27/g;' signs.py"""),
        ("plan dash.py", "sed -i 's/\u2013/-/g;' dash.py"),
        ("plan slash.py", r"sed -i 's/\xef\xbc\x8f/\x2f/g' slash.py"),
        ("plan odd.py", "a public name for a list of hosts"),
        ("plan tabs.py", "sed -i 's/\\t/    /g' tabs.py"),
        ("plan env.py", 'os.environ["HF_TOKEN"], and Secret.env("HF_TOKEN")'),
        ("plan return.py", "h100 = …: pyinfra reads the variables of the file"),
        ("plan dict.py", '{"_sudo": …} in braces'),
        ("plan position.py", "NAME=VALUE for each value"),
        ("plan null.py", "did you mean `Server`?"),
        ("plan good.yml", "enginehouse plan good.py"),
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


def test_data_of_a_misspelt_group_are_refused() -> None:
    """A name that another inventory beside it has may be a group there."""
    Path("group_data").mkdir()
    Path("group_data/h100_eu.py").write_text("ssh_port = 2222\n", "utf-8")  # of an inventory in another folder
    Path("us.py").write_text(TEXT.replace("h100 = (", "h100_us = ("), "utf-8")
    assert typed("plan", "us.py").exit_code == 0
    Path("group_data/h_100.py").write_text("ssh_port = 2222\n", "utf-8")
    assert "mv group_data/h_100.py group_data/h100.py" in typed("plan", "good.py").output
    Path("other.py").write_text('h_100 = ["b"]\n', "utf-8")
    assert typed("plan", "good.py").exit_code == 0


def test_a_list_below_main_is_no_group() -> None:
    """Only hosts with their data are one."""
    Path("good.py").write_text(f'{TEXT}\nif __name__ == "__main__":\n    rows = []\n    print(rows, h100)\n', "utf-8")
    assert typed("plan", "good.py").exit_code == 0


def test_an_output_without_all_signs_ends_without_a_traceback() -> None:
    """A locale or PYTHONIOENCODING may lack the signs of a plan."""
    words = [sys.executable, "-m", "deploy", "fit", "h100", "gpt-oss-20b"]
    surroundings = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(INVENTORY.parents[1])}
    done = subprocess.run(words, capture_output=True, env=surroundings)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
