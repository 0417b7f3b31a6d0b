"""Files that are not inventories: each gives a whole message, from `enginehouse` and from pyinfra, and no traceback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.io.inventory import load_inventory, load_plan, names_in
from deploy.refusals.errors import Refusal
from deploy.refusals.renamed import RENAMED

ROOT = Path(__file__).parents[2]
STATE = "  state   planning; no host was changed"
GROUP = '(["h100-01.example.internal"], {"machine": Machine(…), "servers": (Server(…),)})'


def refused(directory: Path, text: str, name: str = "fleet.py") -> str:
    """The printed refusal of an inventory with this text, without the test's directory."""
    file = directory / name
    file.write_text(text)
    with pytest.raises(Refusal) as refusal:
        load_inventory(str(file), {})
    return str(refusal.value).replace(f"{directory}/", "")


def test_an_import_by_a_former_name_is_refused_with_the_new_name(tmp_path: Path) -> None:
    """`deploy.edge` became `deploy.io`; the command of the message changes the file."""
    message = refused(tmp_path, "from deploy.edge.hosts import terraform_hosts\n")
    assert message == (
        "`deploy.edge` is now `deploy.io`\n"
        "  where   the imports of the inventory\n"
        "  seen    from deploy.edge.hosts import …\n"
        "  wanted  from deploy.io.hosts import …\n"
        "  try     sed -i 's/deploy\\.edge\\.hosts/deploy.io.hosts/' INVENTORY\n" + STATE
    )


@pytest.mark.parametrize(
    ("text", "word", "place"),
    [
        ("from deploy.spec import Door\n", "Door", ":1"),
        ("from deploy.spec import DoorLimits\n", "DoorLimits", ":1"),
        (
            'from deploy.spec import Route\nRoute(pool="chat", http_port=1, grpc_port=2, door_port=3)\n',
            "door_port",
            ":2: Route(door_port=…)",
        ),
        ("from deploy.spec import Traffic\nTraffic(doors_port=8009)\n", "doors_port", ":2: Traffic(doors_port=…)"),
    ],
)
def test_a_former_word_is_refused_with_the_new_one(tmp_path: Path, text: str, word: str, place: str) -> None:
    """`Door` became `Gateway`; the command of the message rewrites the file, after which the word is accepted."""
    message = refused(tmp_path, text)
    assert message.startswith(f"`{word}` is now `{RENAMED[word]}`\n  where   fleet.py{place}\n")
    (command,) = re.findall(r"  try     (sed .*)", message)
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    rewritten = (tmp_path / "fleet.py").read_text()
    assert rewritten == text.replace(word, RENAMED[word])
    exec(compile(rewritten, "fleet.py", "exec"), {})


def test_a_former_key_is_refused_with_the_new_one_and_no_host_is_renamed(tmp_path: Path) -> None:
    """A host may be called `door`; `"door": None` is a key."""
    file = tmp_path / "fleet.py"
    file.write_text('hosts = (["door"], {"door": None})\n')
    with pytest.raises(Refusal) as refusal:
        load_plan(str(file))
    message = str(refusal.value)
    assert "`door` is now `gateway`\n" in message
    (command,) = re.findall(r"  try     (sed .*) INVENTORY", message)
    subprocess.run(["bash", "-c", f"{command} fleet.py"], cwd=tmp_path, check=True)
    assert file.read_text() == 'hosts = (["door"], {"gateway": None})\n'


def test_an_unclosed_bracket_is_named_by_line_and_column(tmp_path: Path) -> None:
    """Python reports the position of the open bracket."""
    assert refused(tmp_path, 'x = 1\nhosts = (["a"], {\n') == (
        "fleet.py is not Python: '{' was never closed, line 2, column 17\n"
        "  where   fleet.py:2:17\n"
        '  seen    hosts = (["a"], {\n'
        "  wanted  a line Python can read\n"
        "  try     correct line 2, then: enginehouse plan fleet.py\n" + STATE
    )


def test_a_syntax_error_is_named_by_line_and_column(tmp_path: Path) -> None:
    """The message has the line itself."""
    assert refused(tmp_path, 'hosts = (["a"], dict(a=1 b=2))\n') == (
        "fleet.py is not Python: invalid syntax. Perhaps you forgot a comma?, line 1, column 24\n"
        "  where   fleet.py:1:24\n"
        '  seen    hosts = (["a"], dict(a=1 b=2))\n'
        "  wanted  a line Python can read\n"
        "  try     correct line 1, then: enginehouse plan fleet.py\n" + STATE
    )


def test_a_syntax_error_beside_the_inventory_names_its_own_file(tmp_path: Path) -> None:
    """`group_data/` is read with every inventory of its directory."""
    (tmp_path / "group_data").mkdir()
    (tmp_path / "group_data" / "all.py").write_text("release = (\n")
    assert refused(tmp_path, 'hosts = ["a"]\n').startswith(
        "group_data/all.py is not Python: '(' was never closed, line 1, column 11\n"
    )


@pytest.mark.parametrize(
    ("name", "text", "kind", "first", "copy"),
    [
        ("fleet.yml", "# ours\nall:\n  hosts:\n", "YAML", "all:", "fleet.py"),
        ("fleet.py", "all:\n  hosts:\n", "YAML", "all:", "fleet_hosts.py"),
        ("hosts", "[h100]\nh100-01 ansible_user=ubuntu\n", "INI", "[h100]", "hosts.py"),
        ("fleet.ini", "; ours\n[h100:children]\n", "INI", "[h100:children]", "fleet.py"),
    ],
)
def test_an_ansible_inventory_is_distinguished_from_python(
    tmp_path: Path, name: str, text: str, kind: str, first: str, copy: str
) -> None:
    """The file's name or its first line decides."""
    assert refused(tmp_path, text, name) == (
        f"{name} is {kind}, and an inventory is Python\n"
        f"  where   {name}\n"
        f"  seen    {first}\n"
        f"  wanted  h100 = {GROUP}\n"
        f"  try     cp inventories/h100.py {copy}, and write your hosts there\n" + STATE
    )


def test_a_directory_is_no_inventory(tmp_path: Path) -> None:
    """The refusal offers its first Python file."""
    (tmp_path / "b.py").write_text("hosts = []")
    with pytest.raises(Refusal) as refusal:
        load_inventory(str(tmp_path), {})
    assert str(refusal.value).replace(str(tmp_path), "fleets") == (
        "fleets is a directory, and an inventory is one file\n"
        "  where   fleets\n"
        "  seen    a directory that holds b.py\n"
        "  wanted  one Python file with hosts, such as inventories/h100.py\n"
        "  try     enginehouse plan fleets/b.py\n" + STATE
    )


def test_a_binary_file_is_refused_as_an_inventory(tmp_path: Path) -> None:
    """The file holds bytes that are not UTF-8."""
    (tmp_path / "fleet.py").write_bytes(b"\x80\x00\x81")
    with pytest.raises(Refusal) as refusal:
        load_inventory(str(tmp_path / "fleet.py"), {})
    assert str(refusal.value).replace(f"{tmp_path}/", "") == (
        "fleet.py cannot be read as text\n"
        "  where   fleet.py\n"
        "  seen    bytes that are not UTF-8\n"
        "  wanted  a Python file in UTF-8 that you may read\n"
        "  try     enginehouse plan inventories/h100.py\n" + STATE
    )


def test_an_exception_is_named_by_line(tmp_path: Path) -> None:
    """The line is the inventory's own, not that of a called function."""
    assert refused(tmp_path, "import os\nuser = os.sched_getaffinity(2**31 - 1)\n") == (
        "fleet.py is Python, and it ended with ProcessLookupError\n"
        "  where   fleet.py:2\n"
        "  seen    [Errno 3] No such process\n"
        "  wanted  a file Python can run\n"
        "  try     python fleet.py\n" + STATE
    )


def test_an_unknown_connector_is_offered_the_nearest(tmp_path: Path) -> None:
    """The message has the connector's line in the file."""
    assert refused(tmp_path, 'hosts = ["a", "@docket/x"]\n') == (
        "pyinfra has no connector @docket\n"
        "  where   fleet.py:1:15\n"
        "  seen    @docket/x\n"
        "  wanted  a host's name or address, or a connector pyinfra has\n"
        "  try     did you mean `@docker`?  known: @docker, @dockerssh, @local, @ssh, @terraform, @vagrant\n" + STATE
    )


def programs(directory: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Sets PATH to a directory with only these shell scripts."""
    for name, script in scripts.items():
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))


TERRAFORM = "terraform output -json, in this directory; then name one of its keys: @terraform/KEY.value"


@pytest.mark.parametrize(
    ("script", "seen"),
    [
        ("echo '{}'", "No Terraform output with key: `ips`, valid keys:"),
        (
            "echo 'no state file' >&2; exit 1",
            "Local command failed: terraform output -json · no state file",
        ),
        ("echo Initializing", "Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_a_connector_without_an_answer_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, seen: str
) -> None:
    """The program prints an empty object, exits with 1, or prints text that is not JSON."""
    programs(tmp_path, monkeypatch, terraform=script)
    assert refused(tmp_path, 'hosts = ["@terraform/ips"]\n') == (
        "@terraform/ips names no hosts here\n"
        "  where   fleet.py:1:10\n"
        f"  seen    {seen}\n"
        "  wanted  a connector whose program answers in this directory with hosts\n"
        f"  try     {TERRAFORM}\n" + STATE
    )


@pytest.mark.parametrize("connector", ["terraform", "vagrant"])
def test_a_connector_without_its_program_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connector: str
) -> None:
    """The shell's own message names the missing program."""
    programs(tmp_path, monkeypatch)
    assert f"{connector}: not found" in refused(tmp_path, f'hosts = ["@{connector}"]\n')


def test_a_limit_that_matches_no_host_is_refused() -> None:
    """In earlier versions the result was an empty plan with a digest, and exit status 0."""
    with pytest.raises(Refusal) as refusal:
        load_plan("inventories/h100.py", limit=["h100-02"])
    assert str(refusal.value) == (
        "--limit h100-02 matches no host of this inventory\n"
        "  where   --limit h100-02\n"
        "  seen    hosts h100-01.example.internal\n"
        "  wanted  a host's name, a pattern such as 'h100-*', or a group: h100\n"
        "  try     --limit h100\n" + STATE
    )


def test_a_limit_takes_names_patterns_and_groups() -> None:
    """The rules are pyinfra's."""
    inventory = load_inventory("inventories/h100.py", {})
    assert [names_in(inventory, [word]) for word in ("h100", "h100-*", "h100-01.example.internal")] == [
        ["h100-01.example.internal"]
    ] * 3


def pyinfra(inventory: str | Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`pyinfra INVENTORY deploy.py` in the repository, where it finds config.py."""
    argv = [sys.executable, "-m", "pyinfra", str(inventory), "deploy.py", "-y", *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT, env=environment)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('hosts = (["@fake/a"], {\n', "is not Python: '{' was never closed, line 1, column 23"),
        ("import nowhere\n", "is Python, and it ended with ModuleNotFoundError"),
        ("", "the inventory has no hosts"),
    ],
)
def test_pyinfra_s_own_run_is_refused_before_it_begins(tmp_path: Path, text: str, message: str) -> None:
    """The run prints a single message and exits with 1; earlier it ended in a traceback, or in success without a
    host."""
    (tmp_path / "fleet.py").write_text(text)
    done = pyinfra(tmp_path / "fleet.py")
    assert (done.returncode, message in done.stderr, "Traceback" in done.stderr) == (1, True, False)
    assert STATE in done.stderr


def test_pyinfra_s_own_run_is_refused_where_its_limit_matches_no_host() -> None:
    """In earlier versions the run ended with success."""
    done = pyinfra("inventories/h100.py", "--limit", "h100-02")
    assert (done.returncode, "--limit h100-02 matches no host of this inventory" in done.stderr) == (1, True)


def test_pyinfra_s_own_run_is_refused_where_the_file_is_missing() -> None:
    """Earlier, such a run ended with success, over a host of that name that did not resolve."""
    done = pyinfra("inventories/h1OO.py")
    assert (done.returncode, "there is no inventory inventories/h1OO.py" in done.stderr) == (1, True)


@pytest.mark.parametrize("option", ["--serial", "--no-wait"])
def test_options_with_which_hosts_do_not_wait_for_each_other_are_refused(option: str) -> None:
    """A gate would judge hosts that have not reached it yet."""
    done = pyinfra("inventories/h100.py", option)
    assert (done.returncode, "Connecting to hosts" in done.stderr, STATE in done.stderr) == (1, False, True)
    assert f"{option} does not work with gates" in done.stderr and "Rollout(max_unavailable=1)" in done.stderr


def test_a_command_without_gates_may_have_them() -> None:
    """pyinfra's own `exec` is a command without gates."""
    command = [sys.executable, "-m", "pyinfra", "@fake/one", "exec", "-y", "--serial", "--", "true"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, timeout=300, check=False).returncode == 0
