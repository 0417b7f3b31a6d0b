"""Hosts that answer with escapes, markup, Python and shell.

None of it runs or reaches a terminal, and the message names the host.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deploy.__main__ import main
from tests.unit.ssh_host import SshHost, serving

ROOT = Path(__file__).parents[2]
WORDS = (
    "\x1b[2J\x1b]0;title\x07\x1b]52;c;cm0gLXJm\x07\x9b31m\x7f\r\b",
    "\u202eevil\u2066\u200f",
    "[bold red]x[/bold red] [link=http://example.com]y[/link] :skull:",
    '"""; __import__("pathlib").Path("ran").write_text("x"); """',
    "$(touch ran) `touch ran`; touch ran #",
    "os=$(touch ran)",
    "release\n  state   all is well",
)
HOSTILE = "\n".join(WORDS).encode() + b"\n\xff\xfe\x80 invalid\n" + b"x" * 100_000 + b"\n"
INVENTORY = """
from deploy.spec import Embedder, Machine, Server, Weights
embedder = Embedder(
    name="nomic", checkpoint="nomic-embed-text-v2-moe",
    weights=Weights.hub("nomic-ai/nomic-embed-text-v2-moe", "1066b6599d099fbb93dfcb64f9c37a7c9e503e85"),
)
hosts = (
    [("gpu-1", {data})],
    {{
        "machine": Machine(os="ubuntu-24.04", gpu="h100-80"),
        "release": "26.07",
        "servers": (Server(name="main", models=(embedder,)),),
    }},
)
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SshHost]:
    """A host with hostile answers, and a directory with its inventory and its key."""
    with serving(SshHost(HOSTILE)) as host:
        (tmp_path / "known_hosts").write_text(host.line)
        pinned = {"ssh_known_hosts_file": str(tmp_path / "known_hosts"), "ssh_strict_host_key_checking": "yes"}
        (tmp_path / "hosts.py").write_text(INVENTORY.format(data=repr(host.data(tmp_path, **pinned))))
        yield host


def enginehouse(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A verb in a separate process, for verbs that start others."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(directory)}
    argv = [sys.executable, "-m", "deploy", *words]
    return subprocess.run(
        argv, cwd=directory, env=environment, capture_output=True, encoding="utf-8", timeout=120, check=False
    )


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which a verb runs, with its `ssh`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "ssh").write_text(f"#!/bin/sh\ncat {tmp_path}/answer\n")
    (tmp_path / "ssh").chmod(0o755)
    return tmp_path


def here(*words: str) -> Result:
    """The result of a verb that runs in this process."""
    return CliRunner().invoke(main, words)


def assert_harmless(done: subprocess.CompletedProcess[str] | Result, directory: Path) -> None:
    """Fails if a command ran, an exception ended it, or a character of its output controls a terminal."""
    shown = done.stdout + done.stderr
    assert not list(directory.rglob("ran"))
    assert "Traceback" not in shown
    assert not isinstance(done, Result) or isinstance(done.exception, SystemExit | None)
    assert {character for character in shown if unicodedata.category(character) in ("Cc", "Cf")} <= {"\n"}
    assert "\n  state   all is well" not in shown


@pytest.mark.parametrize("words", [("doctor", "hosts.py"), ("drift", "hosts.py"), ("drift", "hosts.py", "--json")])
def test_a_hostile_answer_is_attributed_to_its_host_and_has_no_effect(
    host: SshHost, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """The answer is sent over SSH, as for every verb of pyinfra."""
    done = enginehouse(tmp_path, *words)
    assert_harmless(done, tmp_path)
    assert "gpu-1" in done.stdout
    assert done.returncode != 0
    assert len(host.heard) > 1, "the host was asked"
    if "--json" in words:
        assert json.loads(done.stdout)["hosts"] == ["gpu-1"]


def test_top_shows_a_host_that_answers_anything(there: Path) -> None:
    """Pages are parsed as samples, or ignored; the release of a server is shown as text."""
    (there / "hosts.py").write_text(INVENTORY.format(data="{}"))
    release = "[b]r\x1b\x07\u202e"
    pages = f"# enginehouse page 1\n# enginehouse page 2\n# server main active {release}\n".encode() + HOSTILE
    (there / "answer").write_bytes(pages)
    done = here("top", "hosts.py", "--once")
    assert_harmless(done, there)
    assert done.exit_code == 0
    assert "gpu-1" in done.stdout
    assert r"[b]r\u001b\u0007\u202e" in done.stdout
    as_json = here("top", "hosts.py", "--json")
    assert_harmless(as_json, there)
    assert json.loads(as_json.stdout)["hosts"]["gpu-1"]["servers"]["main"]["release"] == release


def test_top_names_a_host_that_answers_no_page(there: Path) -> None:
    (there / "hosts.py").write_text(INVENTORY.format(data="{}"))
    (there / "answer").write_bytes(HOSTILE)
    done = here("top", "hosts.py", "--once")
    assert_harmless(done, there)
    assert "gpu-1  no answer" in done.stdout


@pytest.mark.parametrize("words", WORDS[:-1])
@pytest.mark.parametrize("name", ["os", "kernel", "gpu", "memory_kib", "address"])
def test_init_writes_nothing_of_a_host_that_answers_anything(there: Path, name: str, words: str) -> None:
    (there / "answer").write_bytes(f"gpu=10de:2330\n{name}={words}\n".encode())
    done = here("init", "ubuntu@gpu-1")
    assert_harmless(done, there)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"ubuntu@gpu-1 gave no answer to the question for `{name}`")
    assert not (there / "inventories").exists()


def test_init_writes_nothing_of_bytes_that_are_no_text(there: Path) -> None:
    (there / "answer").write_bytes(b"gpu=10de:2330\nos=debian-12\xff\n")
    done = here("init", "ubuntu@gpu-1")
    assert_harmless(done, there)
    assert done.stderr.startswith("ubuntu@gpu-1 gave no answer to the question for `os`")


@pytest.mark.parametrize("words", WORDS)
def test_a_pasted_text_is_shown_and_does_nothing(there: Path, words: str) -> None:
    """`check` and `migrate` show their input; migrate writes only literals."""
    option = f"vllm serve m --{words} '{words}' --served-model-name '{words}' --tokenizer '{words}'"
    for text in (words, f"vllm serve '{words}'", option, f"trtllm-build --{words} {words}"):
        (there / "pasted").write_text(text)
        for verb in ("check", "migrate"):
            assert_harmless(here(verb, "pasted"), there)
        done = here("migrate", "pasted", "--to", "written.py")
        if (there / "written.py").exists():
            tree = ast.parse((there / "written.py").read_text())
            called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
            assert called <= {"LLM", "Weights.hub", "Machine", "Server", "Gateway"}, done.stdout
            (there / "written.py").unlink()


@pytest.mark.parametrize("number", ["9" * 400, "9" * 5000, "\u00b2", "\u0664", "1e999", "999999999", "0x10"])
def test_an_invalid_number_raises_no_exception(there: Path, number: str) -> None:
    """The numbers include an inventory of a billion servers."""
    image = "nvcr.io/nvidia/tritonserver:26.07-py3 tritonserver --model-repository=/m"
    for pasted in (
        f"docker run --gpus {number} -p {number}:{number} --shm-size {number} {image} --http-port={number}",
        f"trtllm-build --max_input_len {number} --max_seq_len {number} --moe_ep_size {number} --tp_size {number}",
    ):
        (there / "pasted").write_text(pasted)
        assert_harmless(here("check", "pasted"), there)
    for option in ("-tp", "-dp", "--port", "--max-model-len", "--max-lora-rank", "--max-num-seqs"):
        done = here("migrate", f"vllm serve m {option} {number} -tp 2")
        assert_harmless(done, there)
        assert len(done.stdout) < 50_000


def test_another_key_than_the_pinned_one_gets_nothing(host: SshHost, tmp_path: Path) -> None:
    """No login and no command are sent, because the machine at the address is not the host."""
    impostor = SshHost(port=host.port)
    (tmp_path / "known_hosts").write_text(impostor.line)
    done = enginehouse(tmp_path, "drift", "hosts.py")
    assert_harmless(done, tmp_path)
    assert "could not be asked: gpu-1" in done.stdout
    assert host.heard == []


def test_a_host_without_a_pinned_key_gets_nothing_either(host: SshHost, tmp_path: Path) -> None:
    """`yes` does not trust a host at its first connection."""
    (tmp_path / "known_hosts").write_text(host.line.replace("127.0.0.1", "127.0.0.2"))
    enginehouse(tmp_path, "drift", "hosts.py")
    assert host.heard == []
