"""Mistakes on command lines, drawn by kind: each is refused with the words that were probably meant.

Of 112 that were typed before the answers were known, 77 were refused well, 31 poorly, and 4 were accepted. Of 42 later
mistakes the numbers were 31, 9 and 2; of the 70 of `TYPED` and its like, 16, 44 and 5, and 5 ended with a traceback.
Of 190 more, 141 were refused well, 45 poorly, and 4 accepted: a word `ssh` or a file taken for a machine or a model.
Of 66, 44 were refused well, 16 poorly; 6 were accepted, or got a line that does something else. Of 116 more, 88
were answered well, 26 poorly, one was accepted, and one ended with a traceback; of the last 45, 29, 15 and one.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from deploy.__main__ import main
from deploy.cli.misplaced import misplaced_word
from deploy.io.local_paths import turn
from deploy.io.model_lock import add_entry, read_entries
from deploy.io.pin import write_runtimes

INVENTORY = str(Path(__file__).parents[2] / "inventories/h100.py")
SIZE = ("size", "gpt-oss-20b", "--users", "4", "--prompt", "20", "--answer", "20")
NEW = ("key", "new", "search", "--file", "keys.json")


TYPED = [
    (("plan", INVENTORY, "--tags", "docker"), "--data only=gateway"),
    (("plan", INVENTORY, "--check", "--diff"), f"Write: enginehouse plan {INVENTORY}"),
    (("drift", INVENTORY, "--ask-become-pass"), "NOPASSWD"),
    (("doctor", INVENTORY, "-l", "gpu-1", "-vvv"), f"enginehouse doctor {INVENTORY} --limit gpu-1"),
    (("top", INVENTORY, "-n", "5"), f"enginehouse top {INVENTORY} --every 5"),
    (("top", INVENTORY, "--watch"), f"enginehouse top {INVENTORY} --every 5"),
    (("drift", INVENTORY, "-o", "json"), f"enginehouse drift {INVENTORY} --json"),
    (("logs", INVENTORY, "-f", "--tail", "100"), f"enginehouse doctor {INVENTORY}"),
    (("apply", "-f", INVENTORY), f"pyinfra {INVENTORY} deploy.py --dry"),
    (("get", "hosts"), "enginehouse plan INVENTORY"),
    (("bench", INVENTORY, "--clients", "16,32"), "Write 16."),
    (("bench", INVENTORY, "--request-rate", "4", "--num-prompts", "200"), f"enginehouse bench {INVENTORY} --rate 4"),
    (("bench", INVENTORY, "--concurrency", "16", "--isl", "9", "--osl", "8"), "--clients 16 --prompt 9 --answer 8"),
    (("fit", "h100", "gpt-oss-20b", "--gpu-memory-utilization", "0.9"), "Write: enginehouse fit h100 gpt-oss-20b"),
    (("size", "gpt-oss-20b", "--users", "1", "--isl", "2", "--osl", "3"), "--users 1 --prompt 2 --answer 3"),
    (("export", "kubernetes", INVENTORY, "-o", "out", "-n", "llm"), f"{INVENTORY} -o out --namespace llm"),
    (("key", "rotate", "search"), "enginehouse key new search"),
    (("key", "tenant", "search"), "enginehouse key tenant search --none"),
    ((*NEW, "--tokens-per-day", "1M"), "--tokens-per-day 1000000"),
    (("init", "-i", "key", "ubuntu@gpu-1"), "enginehouse init ubuntu@gpu-1"),
    (("init", "ssh", "ubuntu@gpu-1", "-p", "2222"), "enginehouse init ubuntu@gpu-1:2222"),
    (("ask", INVENTORY, "--prompt", "Hello"), f"enginehouse ask {INVENTORY} MODEL Hello"),
    (("pin", INVENTORY, "--dry-run"), "writes files here, which git diff shows"),
    (("export", "kubernetes", INVENTORY, "-o", "-"), "-o export"),
    (("--json", "plan", INVENTORY), f"enginehouse plan --json {INVENTORY}"),
    (("-i", INVENTORY, "plan"), f"enginehouse plan {INVENTORY}"),
    (("$", "plan", INVENTORY), f"enginehouse plan {INVENTORY}"),
    (("enginehouse", "plan", INVENTORY), f"enginehouse plan {INVENTORY}"),
    (("pyinfra", INVENTORY, "deploy.py"), f"pyinfra {INVENTORY} deploy.py --dry"),
    (("plan", "ssh", "ubuntu@gpu-1"), "enginehouse init ubuntu@gpu-1"),
    (("plan", "ubuntu@gpu-1"), "enginehouse init ubuntu@gpu-1"),
    (("plan", "10.0.0.5"), "enginehouse init 10.0.0.5"),
    (("plan", "gpu-1,gpu-2"), "enginehouse init gpu-1 gpu-2"),
    (("ask", "gpt-oss-20b", "Hello"), "gpt-oss-20b is the name of a model"),
    (("ask", "Hello", INVENTORY), f"enginehouse ask {INVENTORY} Hello"),
    (("promote", "gpt-oss-20b", INVENTORY, "--to", "vllm"), f"enginehouse promote {INVENTORY} gpt-oss-20b --to vllm"),
    (("plan", INVENTORY, "deploy.py"), f"pyinfra {INVENTORY} deploy.py --dry"),
    (("plan", "deploy.py", INVENTORY), f"pyinfra {INVENTORY} deploy.py --dry"),
    (("plan", INVENTORY, "--data", "release:26.07"), "--data release=26.07"),
    (("init", "ssh", "ubuntu@gpu-1"), "enginehouse init ubuntu@gpu-1"),
    (("init", "ssh ubuntu@gpu-1"), "enginehouse init ubuntu@gpu-1"),
    (("init", "ssh://ubuntu@gpu-1:2222"), "enginehouse init ubuntu@gpu-1:2222"),
    (("init", INVENTORY), f"enginehouse plan {INVENTORY}"),
    (("fit", "gpt-oss-20b"), "enginehouse fit h100-80 gpt-oss-20b"),
    (("fit", "h100,gpt-oss-20b"), "enginehouse fit h100 gpt-oss-20b"),
    (("fit", INVENTORY), f"enginehouse plan {INVENTORY}"),
    (("fit", "h100", INVENTORY), f"enginehouse plan {INVENTORY}"),
    (("fit", "h100", "gpt-oss-20b,qwen3-8b"), "gpt-oss-20b qwen3-8b each model is a word"),
    (("fit", "h100", "h100"), "h100 is a card"),
    (("usage", INVENTORY, "--by", "user"), "--by person"),
    (("usage", INVENTORY, "--by", "models"), "--by model"),
    (("export", INVENTORY, "kubernetes"), f"enginehouse export kubernetes {INVENTORY} -o FOLDER"),
    (("fit", "gpt-oss-20b", "--json"), "enginehouse fit h100-80 gpt-oss-20b --json"),
    (("init", "ubuntu@gpu-1,ubuntu@gpu-2"), "enginehouse init ubuntu@gpu-1 ubuntu@gpu-2"),
    (("init", "gpu-1.example.com/24"), "names no machine"),
    (("init",), "enginehouse init USER@HOST "),
    (("bench", INVENTORY, "gpt-oss-20b"), f"enginehouse bench {INVENTORY} --model gpt-oss-20b"),
    (("migrate", "Qwen/Qwen3-8B"), "enginehouse migrate 'vllm serve Qwen/Qwen3-8B'"),
    (("migrate", "missing.yml"), "no such file in"),
    (("migrate", "https://files.example/a.yml"), "curl -fsSL https://files.example/a.yml | enginehouse migrate -"),
    (("migrate", "--from", "vllm", INVENTORY), f"enginehouse migrate {INVENTORY}"),
    ((*NEW, "--tokens-per-minute", "1e6"), "--tokens-per-minute 1000000"),
    (("usage", INVENTORY, "--csv", "--json"), "Write: --csv, --budgets-csv or --json"),
    (("ask", INVENTORY, "gpt-oss-20b", "-f", "prompt.txt"), '"$(cat prompt.txt)"'),
    (("ask", INVENTORY, "gpt-oss-20b", "Hello", "--stream"), f"Write: enginehouse ask {INVENTORY} gpt-oss-20b Hello"),
    (("key", "show", "eh-4k2pxt", "--file", "keys.json"), "Write: enginehouse key list --file keys.json"),
    (("key", "list", "search"), "It takes no further word. Write: enginehouse key list"),
    (("cost", INVENTORY, "--per-month", "1800"), "a month has 730 hours"),
    (("cost", INVENTORY, "--per-hour", "2", "--currency", "EUR"), f"Write: enginehouse cost {INVENTORY} --per-hour 2"),
    (("init", "--from-ansible", "hosts.ini"), "inventories/from_ansible.py"),
    (("init", "root@10.0.0.5", "--gpu", "h100"), "Write: enginehouse init root@10.0.0.5"),
    (("init", "10.0.0.5", "10.0.0.6", "--to", "inventories/new.py"), "Write: enginehouse init 10.0.0.5 10.0.0.6"),
    (("doctor", INVENTORY, "--since", "yesterday"), f"Write: enginehouse doctor {INVENTORY}"),
    (("doctor", INVENTORY, "--gpu", "0"), f"Write: enginehouse doctor {INVENTORY}"),
    (("check", "--file", "Dockerfile"), "Write: enginehouse check Dockerfile"),
    (("migrate", "vllm serve Qwen/Qwen3-8B", "--output", "new.py"), "'vllm serve Qwen/Qwen3-8B' --to new.py"),
    (("completion", "zsh"), "Write: _ENGINEHOUSE_COMPLETE=zsh_source enginehouse"),
    (("config", INVENTORY), f"Write: enginehouse plan {INVENTORY}"),
    (("plan", INVENTORY, "--limit", "!h100-01.example.internal"), "--exclude h100-01.example.internal"),
    (("plan", INVENTORY, "--limit", "!h100"), "--exclude h100"),
    (("plan", "--", INVENTORY, "--json"), f"Write: enginehouse plan {INVENTORY} --json"),
    (("plan", "a", "b.py"), "Write: enginehouse plan 'a b.py'"),
    (("plan", INVENTORY, "--data", "release=2510"), 'release="25.10"'),
    (("plan", INVENTORY, "--data", "release=26.2"), 'release="26.02"'),
    (("plan", INVENTORY, "--data", "release=26.07,only=gateway"), "--data release=26.07 --data only=gateway"),
    (("plan", INVENTORY, "--data", "driver=Driver(branch='580')"), "driver = Driver(branch='580') in the inventory"),
    (("plan", INVENTORY, "--data", "model=qwen3-8b"), '"servers": (Server(name="main"'),
    (("plan", INVENTORY, "--data", "@vars.yml"), "--data KEY=VALUE for each line of vars.yml"),
    (("plan", INVENTORY, "--var-file", "prod.tfvars"), f"Write: enginehouse plan {INVENTORY}"),
    (("plan", INVENTORY, "--no-color"), f"Write: enginehouse plan {INVENTORY}"),
    (("plan", INVENTORY, "--format", "yaml"), f"Write: enginehouse plan {INVENTORY} --json"),
    (("monitoring", "--grafana", INVENTORY), f"Write: enginehouse monitoring {INVENTORY} FOLDER"),
    (("monitoring", INVENTORY, "--port", "3000"), f"Write: enginehouse monitoring {INVENTORY} FOLDER"),
    (("key", "new", "--tenant", "search"), "Write: enginehouse key new search"),
    (("key", "list", "--tenant", "search"), "Write: enginehouse key list"),
    (("export", "kubernetes", INVENTORY, "-o", "out.yaml"), "-o out"),
    (("export", "slurm", INVENTORY, "-o", "out", "--partition=gpu"), f"enginehouse export slurm {INVENTORY} -o out"),
    (("fit", "h100", "gpt-oss"), "gpt-oss-20b or gpt-oss-120b"),
    (("fit", "h100", "gpt-oss-20b=2"), "try gpt-oss-20b "),
    (("fit", "h100", "qwen3-8b", "--max-seq-len", "-1"), "or leave it out"),
    (("bench", "http://10.0.0.5:8080/v1"), "curl http://10.0.0.5:8080/v1/models"),
    (("usage", INVENTORY, "--month", "2025-11"), "--since 2025-11-01"),
    (("check", INVENTORY), f"enginehouse plan {INVENTORY}"),
    (("migrate", INVENTORY), f"enginehouse plan {INVENTORY}"),
    (("migrate", "docker compose up -d"), "enginehouse migrate compose.yaml"),
    (("migrate", "docker-compose -f prod.yml up"), "enginehouse migrate prod.yml"),
    (("plan", INVENTORY, "--release", "26.07"), f"enginehouse plan {INVENTORY} --data release=26.07"),
    (
        ("fit", "h100", "qwen3-8b", "--context", "8k", "--batch", "4"),
        "enginehouse fit h100 qwen3-8b --max-seq-len 8192",
    ),
    ((*SIZE, "--sla", "1s"), "--first-token 1s"),
    (("key", "revoke", "--all"), "enginehouse key revoke PREFIX"),
    (("key", "revoke", "eh-abc", "eh-def"), "One at a time. Write: enginehouse key revoke eh-abc"),
    (("key", "export"), "Write: enginehouse key list"),
    (("promote", INVENTORY, "gpt-oss-20b", "--to", "vllm", "--canary", "10%"), "Rollout(canary_hosts=1)"),
    (("init", "gpu-[1-3]"), "enginehouse init gpu-1 gpu-2 gpu-3"),
    (("init", "root:canary4711@gpu-1"), "ssh-copy-id root@gpu-1"),
    (("plan", "folder.d"), "enginehouse plan 'folder.d/$(id) x.py'"),
]
"""Options and verbs of pyinfra, Ansible, kubectl, vLLM and others, as they were drawn on 2026-11-28."""


def typed(*words: str) -> str:
    """Everything that the command printed; it ends with an error and without a traceback."""
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code in (1, 2), done.output
    assert isinstance(done.exception, SystemExit)
    return done.output


SLIPS = pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("deploy", INVENTORY), f"pyinfra {INVENTORY} deploy.py --dry"),
        (("rollback", INVENTORY), f"pyinfra {INVENTORY} rollback.py --dry"),
        (("status", INVENTORY), f"enginehouse top {INVENTORY} --once"),
        (("mine.py",), "enginehouse plan mine.py"),
        (("plan", "-"), "enginehouse plan inventories/mine.py"),
        (("plan", str(Path(INVENTORY).parents[1] / "deploy.py")), "pyinfra inventories/h100.py deploy.py --dry"),
        (("plan", INVENTORY, "--data", "release"), "--data release=26.07"),
        (("plan", INVENTORY, "--data", "=26.07"), "--data release=26.07"),
        (("plan", INVENTORY, "--data", "only"), "--data only=VALUE"),
        (("plan", INVENTORY, "--data", "release="), "--data release=26.07"),
        ((*SIZE, "--gpu", "h100,a100"), "--gpu h100-80 --gpu a100-80"),
        ((*SIZE, "--gpu", "rtx6000"), "known: a10-24"),
        ((*NEW, "--expires", "yesterday"), "--expires 90d"),
        ((*NEW, "--expires", "90"), "--expires 90d"),
        ((*NEW, "--expires", "3 months"), "--expires 90d"),
        ((*NEW, "--expires", "31.12.2030"), "--expires 2030-12-31"),
        ((*NEW, "--cost-per-day", "10,50"), "--cost-per-day 10.50"),
        ((*NEW, "--cost-per-day", "$1,000"), "--cost-per-day 1000"),
        ((*NEW, "--cost-per-day", "10", "--currency", "euro"), "--currency EUR"),
        ((*NEW, "--concurrent", "0"), "--concurrent 64"),
        ((*NEW, "--tokens-per-minute", "-5"), "leave --tokens-per-minute out"),
        ((*NEW, "--models", "llama, "), "--models llama;"),
        (("key", "new", "my team", "--file", "keys.json"), "enginehouse key new my-team"),
        (("key", "new", "search", "--file", "."), "gateway-keys.json"),
        (("key", "revoke", "eh-abc", "--file", "keys.json"), "enginehouse key list --file"),
        (("usage", INVENTORY, "--since", "yesterday"), "Write 20"),
        (("usage", INVENTORY, "--since", "2999-01-01"), "has not begun"),
        (("promote", INVENTORY, "gpt-oss", "--to", "vllm"), "gpt-oss-20b --to vllm"),
        (("promote", INVENTORY, "gpt-oss-20b", "--to", "vllm", "--image", "latest"), "--image vllm/vllm-openai:"),
        (("promote", INVENTORY, "gpt-oss-20b", "--to", "sglang"), "'triton', 'trtllm-serve', 'vllm'"),
        ((*SIZE, "--first-token", "1m"), "Write 60s."),
        ((*SIZE, "--at-once", "20%"), "Write 20."),
        (("cost", INVENTORY, "--per-hour", "2", "--utilisation", "0.6"), "Write 60."),
        (("cost", INVENTORY, "--per-hour", "2", "--from-prometheus", "prometheus:9090"), "http://prometheus:9090"),
        (("bench", INVENTORY, "--tokenizer", "nowhere"), "no directory here and no OWNER/NAME"),
        (("key", "list", "--file", "https://files.example/keys.json"), "is a URL"),
        (("migrate", "folder.d"), "enginehouse migrate FILE"),
        (("check", "folder.d"), "a directory"),
        (("export", "kubernetes", INVENTORY, "-o", "out", "--namespace", "My_Team"), "--namespace my-team"),
        (("export", "kubernetes", INVENTORY, "-o", "out", "--storage-class", "Fast SSD"), "--storage-class fast-ssd"),
        (("plan", INVENTORY, "--dry"), f"Write: enginehouse plan {INVENTORY}"),
        (("plan", "--inventory", INVENTORY), f"Write: enginehouse plan {INVENTORY}"),
        (("plan", INVENTORY, "gpu-1"), f"enginehouse plan {INVENTORY} --limit gpu-1"),
        (("plan", INVENTORY, "release=26.07"), f"enginehouse plan {INVENTORY} --data release=26.07"),
        (("plan", INVENTORY, "-json"), f"enginehouse plan {INVENTORY} --json"),
        (("plan", INVENTORY, "\u2014limit", "gpu-1"), f"enginehouse plan {INVENTORY} --limit gpu-1"),
        (("check", "\u201ctrtllm-build", "--workers", "2\u201d"), 'enginehouse check "trtllm-build --workers 2"'),
        (("pin", INVENTORY, "--update", "gpt-oss-20b"), f"--update takes no word. Write: enginehouse pin {INVENTORY}"),
        (("bundle", "folder.d", "--verify"), "enginehouse bundle INVENTORY folder.d --verify"),
        (("bundle", INVENTORY, "folder.d", "--split", "4GB"), "Write 4096."),
        (("fit", "--gpu", "h100", "gpt-oss-20b"), "enginehouse fit h100 gpt-oss-20b"),
        (("fit", "h100", "qwen3-8b", "--max-model-len", "8192"), "enginehouse fit h100 qwen3-8b --max-seq-len 8192"),
        (("fit", "h100", "qwen3-8b", "--precision", "bf16"), "Write: --precision bfloat16"),
        (("fit", "h100"), "enginehouse fit h100 MODELS"),
        (("size", "gpt-oss-20b", "--users", "4"), "--users 4 --prompt PROMPT --answer ANSWER"),
        ((*SIZE, "--first-token", "500"), "Write 500ms."),
        (("usage", INVENTORY, "--by", "tenant", "model"), f"enginehouse usage {INVENTORY} --by tenant,model"),
        (("usage", INVENTORY, "--since", "01.11.2026"), "Write 2026-11-01."),
        (("usage", INVENTORY, "--since", "Nov 1, 2026"), "Write 2026-11-01."),
        (("key", "delete", "eh-abcdef"), "enginehouse key revoke eh-abcdef"),
        (("key", "new", "search", "bge"), "enginehouse key new search --models bge"),
        (("export", "k8s", INVENTORY, "-o", "out"), f"enginehouse export kubernetes {INVENTORY} -o out"),
        (("migrate", "vllm", "serve", "Qwen/Qwen3-8B"), "enginehouse migrate 'vllm serve Qwen/Qwen3-8B'"),
        (("migrate", "vllm serve $1 --port 8000"), "with your model's name in the place of $1"),
        (("migrate", "vllm serve --model ${MODEL_ID}"), "it names its model by ${MODEL_ID}"),
        (("promote", INVENTORY, "gpt-oss-20b", "vllm"), f"enginehouse promote {INVENTORY} gpt-oss-20b --to vllm"),
        (("plan", INVENTORY, "--limit", "--json"), "--limit takes a value, and --json is an option."),
        (("bench", INVENTORY, "--client", "8"), f"enginehouse bench {INVENTORY} --clients 8"),
        (("bench", INVENTORY, "--cancel", "0.05"), "Write 5%."),
        ((*NEW, "--models", "all"), "or no --models for all"),
        ((*NEW, "--currency", "euro"), "--currency EUR"),
        (("key", "new", "mine.py"), "enginehouse key new TENANT --inventory mine.py"),
        (("key", "list", "--file", "none"), "--file secrets/gateway-keys.json"),
        (("plan", INVENTORY, "--data", "release", "26.07"), f"enginehouse plan {INVENTORY} --data release=26.07"),
        (("fit", "h100", "gpt-oss-20b", "--tp=2x"), "Write 2."),
        ((*SIZE, "--gpus", "8"), "The number of cards is the answer."),
        (("usage", INVENTORY, "--last", "7d"), f"enginehouse usage {INVENTORY} --since 20"),
        ((*NEW, "--tokens-per-minute", "100k"), "--tokens-per-minute 100000"),
        (("bench", INVENTORY, "--url", "10.0.0.5:8080"), "--url http://10.0.0.5:8080"),
        (("doctor", INVENTORY, "--repair"), f"Write: enginehouse doctor {INVENTORY}"),
        (("pin", "Qwen/Qwen3-8B"), "enginehouse migrate 'vllm serve Qwen/Qwen3-8B' --to inventories/mine.py"),
        (("cost", INVENTORY, "--per-hour", "249"), "--per-hour 2.49"),
        (("cost", INVENTORY, "--per-hour", "h100=1800"), "--per-hour h100=2.466"),
        (("cost", INVENTORY, "--per-hour", "h100:2,49"), "--per-hour h100=2.49"),
        *TYPED,
    ],
)
INVOKED = re.compile(r"Write: enginehouse (.+)")
FILLED = {"MODELS": "gpt-oss-20b", "PROMPT": "20", "ANSWER": "20", "TENANT": "search", "RUNTIME": "vllm"}
"""Values for the words of a hint that stand for something."""


def directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Makes the working directory, with a file and a folder whose names a shell would not leave as they are."""
    monkeypatch.chdir(tmp_path)
    Path("folder.d").mkdir()
    Path("folder.d/$(id) x.py").touch()
    Path("a b.py").touch()


@SLIPS
def test_a_typo_is_refused_with_the_intended_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], meant: str
) -> None:
    directory(monkeypatch, tmp_path)
    assert meant in " ".join(typed(*words).split())
    assert not Path("keys.json").exists()


@SLIPS
def test_the_line_of_a_hint_is_parsed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], meant: str
) -> None:
    """Every `Write: enginehouse …` is typed, and no word of it is refused as a usage error."""
    directory(monkeypatch, tmp_path)
    hint = INVOKED.search(typed(*words))
    command, rest = main, shlex.split(hint[1]) if hint else ["plan", INVENTORY]
    rest = [FILLED.get(word, word) for word in rest]
    while isinstance(command, click.Group):
        is_named = rest[0] in command.commands
        name, rest = (rest[0], rest[1:]) if is_named else ("run", rest)
        command = command.commands[name]
    command.make_context(name, rest)


def test_a_password_in_a_target_is_not_shown() -> None:
    """A test of `init`, which would have given the word to ssh."""
    assert "canary4711" not in typed("init", "root:canary4711@gpu-1")


def test_help_and_version_are_verbs_and_options() -> None:
    assert CliRunner().invoke(main, ["help", "plan"]).output == CliRunner().invoke(main, ["plan", "--help"]).output
    assert re.search(r"[0-9]+\.[0-9]+", CliRunner().invoke(main, ["--version"]).output)
    assert "enginehouse --version" in typed("version")


FAULTS = [
    ("", "an empty file"),
    ('// ours\n{"form": 1}', "a comment in line 1"),
    ('{\n  # ours\n  "form": 1}', "a comment in line 2"),
    ('{"form": 1,\n}', "a comma before a closing bracket in line 1"),
    ("<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> main\n", "two versions of a merge, from line 1 on"),
    ("{'form': 1}", "texts in single quotes"),
    ('{"form": 1', "no JSON: "),
]


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_a_fault_of_a_json_file_is_named_by_its_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, fault: str
) -> None:
    """The files are the lock of models, the file of keys and the file of prices."""
    monkeypatch.chdir(tmp_path)
    inventory = 'from deploy.spec import *\nh100 = (["h"], {"machine": Machine(os="debian-12", gpu="h100-80"), '
    Path("mine.py").write_text(inventory + '"servers": (Server(name="main", models=(LLM("Qwen/Qwen3-4B"),)),)})\n')
    for name in ("models.lock.json", "keys.json", "prices.json"):
        Path(name).write_text(text, "utf-8")
    assert fault in typed("plan", "mine.py")
    assert fault in typed("key", "list", "--file", "keys.json")
    assert fault in typed("cost", INVENTORY, "--prices", "prices.json")


def test_a_price_list_with_another_date_is_refused_with_the_day(tmp_path: Path) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text('{"date": "01.11.2026", "source": "x", "per_hour": {"h100": 2.49}}', "utf-8")
    assert 'write "date": "2026-11-01"' in typed("cost", INVENTORY, "--prices", str(prices))


def test_two_commands_that_write_digests_at_once_wait_for_each_other(tmp_path: Path) -> None:
    """Each changes its own text of the file, and neither loses the other's."""
    images = [f"registry.example.com/model-{number}:1" for number in range(8)]
    file = tmp_path / "mine.py"
    file.write_text("".join(f'"{image}"\n' for image in images), "utf-8")
    digest = f"sha256:{'a' * 64}"
    threads = [threading.Thread(target=write_runtimes, args=(file, {image: digest}), daemon=True) for image in images]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert file.read_text("utf-8").count(digest) == len(images)


def test_a_second_command_for_the_same_bundle_is_refused(tmp_path: Path) -> None:
    with turn(tmp_path), pytest.raises(BlockingIOError), turn(tmp_path, is_patient=False):
        pass
    with turn(tmp_path, is_patient=False):
        pass


def test_a_lock_ends_with_its_command_although_gevent_closes_the_folder_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that locked a folder twice, after pyinfra had loaded an inventory, waited for itself."""
    unclosed: list[int] = []
    monkeypatch.setattr("deploy.io.local_paths.os.close", unclosed.append)
    for _ in range(2):
        with turn(tmp_path, is_patient=False):
            pass
    with pytest.raises(ZeroDivisionError), turn(tmp_path, is_patient=False):
        raise ZeroDivisionError
    with turn(tmp_path, is_patient=False):
        pass
    monkeypatch.undo()
    for handle in unclosed:
        os.close(handle)


def test_prices_with_a_byte_order_mark_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text('\ufeff{"date": "2026-11-01", "source": "x", "per_hour": {"h100": 2.49}}', "utf-8")
    assert CliRunner().invoke(main, ["cost", INVENTORY, "--prices", str(prices)]).exit_code == 0


def test_entries_that_several_commands_lock_at_once_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "models.lock.json"
    names = [f"owner/model-{number}" for number in range(12)]
    threads = [threading.Thread(target=add_entry, args=(file, name, {"commit": name}), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(read_entries(file)) == sorted(names)
    assert [path.name for path in tmp_path.iterdir()] == ["models.lock.json"]


INTERRUPTED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started this with SIGINT ignored
class Finder:
    def find_spec(self, name, *rest):
        if name == "deploy.cli.usage":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
import deploy.__main__
"""


def test_an_interrupt_during_the_imports_ends_without_a_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, cwd=Path(INVENTORY).parents[1])
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


@pytest.mark.parametrize(
    "words",
    [
        ("init", "root@gpu1.example.com.py"),  # a host of Paraguay
        ("ask", INVENTORY, "deploy.py"),
        ("ask", INVENTORY, "-m", "qwen3-8b", "doctor.py"),
    ],
)
def test_a_host_or_a_question_that_ends_like_a_program_is_no_mistake(words: tuple[str, ...]) -> None:
    assert misplaced_word(main, words) == ""


def test_prints_of_an_inventory_are_no_part_of_the_json(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text('print("ours")\nh100 = (["gpu-1"], {})\n', "utf-8")
    done = CliRunner().invoke(main, ["plan", str(file), "--json"])
    assert json.loads(done.stdout)["refusals"] and "ours" in done.stderr


def test_data_of_a_group_in_another_format_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("group_data").mkdir()
    Path("group_data/all.yml").write_text("ssh_user: ubuntu\n", "utf-8")
    assert "group_data/all.py in its place" in typed("plan", INVENTORY)
    Path("group_data/all.py").write_text(
        'import pathlib\n_text = pathlib.Path("group_data/all.yml").read_text()\n', "utf-8"
    )
    assert "in its place" not in typed("plan", INVENTORY)
