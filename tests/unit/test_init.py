"""`enginehouse init`: a machine's answers become an inventory that can be planned."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy.inventory.first_inventory import Answered, inventory_text, kernel_flavour
from deploy.inventory.first_models import Named
from deploy.inventory.fleet import Fleet
from deploy.inventory.targets import Target
from deploy.io.init import QUESTIONS, ask, ask_all, write_inventory
from deploy.io.inventory import load_inventory
from deploy.io.pin_models import mirror_from_environment
from deploy.planning.plan import make_plan
from deploy.refusals.errors import Refusal
from deploy.spec import Machine
from roles.preflight.judge import system as judge_system
from tests.unit.samples import AROUND

TARGET = Target(host="203.0.113.7", user="ubuntu")
ANSWERS = """os=debian-12
kernel=6.1.0-28-cloud-amd64
gpu=10de:2330
gpu=10de:2330
gpu=1234:1111
bridge=10de
memory_kib=2097152
disk_mib=900000
secure_boot=0
"""


def written(directory: Path, answers: str = ANSWERS, target: Target = TARGET) -> Fleet:
    """The fleet of the inventory written from these answers."""
    file = write_inventory(directory, [target], inventory_text([Answered.of(target, answers)]))
    return Fleet.of(load_inventory(str(file), {}))


def test_the_written_machine_matches_its_answers(tmp_path: Path) -> None:
    """Two H100s with NVSwitches, 2 GiB, 900,000 MiB free, and a display adapter that is not counted."""
    assert written(tmp_path).hosts[0].machine == Machine(
        os="debian-12",
        gpu="h100-80",
        gpus=2,
        memory_mib=2048,
        disk_mib=900_000,
        kernel_flavour="cloud-amd64",
        nvswitch=True,
    )


def test_a_written_inventory_can_be_planned(tmp_path: Path) -> None:
    """The plan needs no further edits of the file."""
    assert make_plan(written(tmp_path), AROUND).hosts == ("203.0.113.7",)


@pytest.mark.parametrize(
    ("sources", "lines", "served"),
    [
        ([("LLM", "Qwen/Qwen3-8B")], ['qwen3_8b = LLM("Qwen/Qwen3-8B")'], "(qwen3_8b,)"),
        (
            [("LLM", "openai/gpt-oss-20b"), ("Reranker", "BAAI/bge-reranker-large")],
            ['gpt_oss_20b = LLM("openai/gpt-oss-20b")', 'bge_reranker_large = Reranker("BAAI/bge-reranker-large")'],
            "(gpt_oss_20b, bge_reranker_large)",
        ),
    ],
)
def test_named_models_are_declared_by_their_names_and_can_be_planned(
    tmp_path: Path, sources: list[tuple[str, str]], lines: list[str], served: str
) -> None:
    """Named models are in the catalog, so no lock is needed."""
    named = [Named(kind, source) for kind, source in sources]
    text = inventory_text([Answered.of(TARGET, ANSWERS)], models=named)
    assert all(line in text for line in [*lines, f"models={served}"]) and "Weights" not in text
    file = write_inventory(tmp_path, [TARGET], text)
    assert make_plan(Fleet.of(load_inventory(str(file), {})), AROUND).hosts == ("203.0.113.7",)


def test_a_mirror_of_the_hub_is_the_inventory_s_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mirror that answered about the models is the one that `pin` and the hosts ask."""
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example/")
    text = inventory_text([Answered.of(TARGET, ANSWERS)], endpoint=mirror_from_environment())
    file = write_inventory(tmp_path, [TARGET], text)
    (host,) = Fleet.of(load_inventory(str(file), {})).hosts
    assert host.hub.endpoint == "https://mirror.example"
    monkeypatch.setenv("HF_ENDPOINT", "https://huggingface.co")
    assert mirror_from_environment() == ""


@pytest.mark.parametrize("source", ['a/b")\nimport os#', "a/class", "a/3b", "./weights/", "a/é"])
def test_any_name_of_a_model_becomes_a_literal_in_the_file(source: str) -> None:
    """Each model gets its own variable."""
    text = inventory_text([Answered.of(TARGET, ANSWERS)], models=[Named("LLM", source), Named("Embedder", source)])
    assigned = [node for node in ast.parse(text).body if isinstance(node, ast.Assign)]
    first, second = (ast.literal_eval(node.value.args[0]) for node in assigned[:2] if isinstance(node.value, ast.Call))
    names = {ast.unparse(node.targets[0]) for node in assigned[:2]}
    assert (first, second, len(names)) == (source, source, 2)


def test_an_unknown_card_is_refused_by_the_plan_and_named_in_the_file(tmp_path: Path) -> None:
    """The file has the PCI id; no name is guessed."""
    text = inventory_text([Answered.of(Target("host"), ANSWERS.replace("2330", "ffff"))])
    assert 'found 10de:ffff, not in the catalog: give a name and card=GPU(pci_id="10de:ffff"' in text


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """The inventory may have been edited since."""
    written(tmp_path)
    with pytest.raises(Refusal) as refused:
        written(tmp_path)
    assert refused.value.kind == "inventory-exists"


def test_the_questions_change_nothing() -> None:
    """The questions only read the host."""
    assert not [word for word in ("sudo", "rm ", "tee", "> /", "apt") if word in QUESTIONS]


@pytest.mark.parametrize(
    ("typed", "target"),
    [
        ("203.0.113.7", Target("203.0.113.7")),
        ("ubuntu@gpu-1.example.com:2222", Target("gpu-1.example.com", "ubuntu", 2222)),
        ("root@[2001:db8::7]:2200", Target("2001:db8::7", "root", 2200)),
        ("root@2001:db8::7", Target("2001:db8::7", "root")),
    ],
)
def test_a_target_has_a_user_a_host_and_a_port(typed: str, target: Target) -> None:
    """Messages show the target as typed."""
    assert (Target.of(typed), str(target)) == (target, typed)


@pytest.mark.parametrize("typed", ["", "ubuntu@", "ubuntu@host:", "host:port", "host:70000", "-oProxyCommand=x"])
def test_a_text_that_names_no_machine_is_refused(typed: str) -> None:
    """The refusal comes before any connection."""
    with pytest.raises(Refusal) as refused:
        Target.of(typed)
    assert str(refused.value) == (
        f"{typed!r} names no machine to ask\n"
        f"  where   {typed}\n"
        f"  seen    {typed!r}\n"
        "  wanted  user@host or user@host:port; an IPv6 address in brackets\n"
        "  try     enginehouse init ubuntu@203.0.113.7:22\n"
        "  state   planning; no host was changed"
    )


def test_the_port_is_asked_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh parses the target itself; pyinfra gets the port as `ssh_port`."""
    (tmp_path / "ssh").write_text('#!/bin/sh\necho "argv=$*"\n')
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    target = Target("203.0.113.7", "ubuntu", 2222)
    assert ask(target).endswith(" -p 2222 -- ubuntu@203.0.113.7 sh -s\n")
    file = write_inventory(tmp_path, [target], inventory_text([Answered.of(target, ANSWERS)]))
    (host,) = load_inventory(str(file), {})
    assert (file.name, host.data.ssh_port, host.data.ssh_user) == ("203_0_113_7_2222.py", 2222, "ubuntu")


def machine(host: str, *without: str, address: str, **changed: str) -> Answered:
    """A machine with the answers of the first, except for these values."""
    lines = [line for line in ANSWERS.splitlines() if line.partition("=")[0] not in (*without, *changed)]
    answers = [*lines, f"address={address}", *(f"{name}={value}" for name, value in changed.items())]
    return Answered.of(Target(host, "ubuntu"), "\n".join(answers))


def test_equal_machines_are_a_group_and_the_least_of_them_counts(tmp_path: Path) -> None:
    """Two equal machines, and a third with another system; memory and disk are the least of each group."""
    serving = [
        machine("gpu-1", address="10.0.0.1"),
        machine("gpu-2", address="10.0.0.2", disk_mib="700000"),
        machine("gpu-3", address="10.0.0.3", os="debian-13"),
    ]
    file = write_inventory(tmp_path, [host.target for host in serving], inventory_text(serving))
    loaded = load_inventory(str(file), {})
    hosts = Fleet.of(loaded).hosts
    assert file.name == "gpu_1_and_2_more.py"
    assert {name: [host.name for host in loaded.get_group(name)] for name in ("h100_80", "h100_80_2")} == {
        "h100_80": ["gpu-1", "gpu-2"],
        "h100_80_2": ["gpu-3"],
    }
    assert [host.machine.disk_mib for host in hosts] == [700_000, 700_000, 900_000]


def test_machines_without_gpu_balance_and_watch_and_the_fleet_can_be_planned(tmp_path: Path) -> None:
    """Each group is a pool behind the balancer, with an address that balancer and monitor reach."""
    from deploy.planning.plan import make_plan

    serving = [machine("gpu-1", address="10.0.0.1"), machine("gpu-2", address="10.0.0.2", os="debian-13")]
    edge, watch = (machine(name, "gpu", address=f"10.0.0.{number}") for name, number in (("edge", 5), ("watch", 6)))
    text = inventory_text(serving, [edge], [watch])
    file = write_inventory(tmp_path, [host.target for host in serving], text)
    plan = make_plan(Fleet.of(load_inventory(str(file), {})), AROUND)
    assert plan.hosts == ("gpu-1", "gpu-2", "edge", "watch")
    assert [(route.pool, route.http_port) for route in plan.balancers[0].routes] == [
        ("h100_80", 8443),
        ("h100_80_2", 8453),
    ]


SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
case $2 in
  *gone*) echo "$2: no route to host" >&2; exit 255;;
  *edge*) printf 'os=debian-12\nmemory_kib=1024\naddress=10.0.0.5\n';;
  *) printf 'os=debian-12\ngpu=10de:2330\nmemory_kib=1024\naddress=10.0.0.1\n';;
esac
"""


def test_unreachable_machines_and_those_without_gpu_are_refused_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single refusal lists every unreachable host, so the operator corrects the command once."""
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(Refusal) as refused:
        ask_all([Target("gone-1"), Target("gpu-1"), Target("gone-2")])
    assert [line for line in str(refused.value).splitlines() if "cannot be asked" in line] == [
        "gone-1 cannot be asked over ssh",
        "gone-2 cannot be asked over ssh",
    ]
    with pytest.raises(Refusal) as refused:
        ask_all([Target("gpu-1"), Target("edge-1", "debian")])
    assert str(refused.value) == (
        "debian@edge-1 has no NVIDIA GPU, and serves nothing\n"
        "  where   debian@edge-1\n"
        "  seen    no NVIDIA GPU among its PCI devices\n"
        "  wanted  a machine with a GPU, or one that balances or watches\n"
        "  try     enginehouse init … --balancer debian@edge-1, or --monitor debian@edge-1\n"
        "  state   planning; no host was changed"
    )
    serving, outside = ask_all([Target("gpu-1")], [Target("edge-1")])
    assert (serving[0].kind.gpu, outside[0].address) == ("h100-80", "10.0.0.5")


@pytest.mark.parametrize(
    ("system", "kernel", "flavour"),
    [
        ("ubuntu-24.04", "6.8.0-45-generic", "generic"),
        ("ubuntu-24.04", "6.14.0-33-generic", "generic-hwe-24.04"),
        ("ubuntu-22.04", "5.15.0-1071-aws", "aws"),
        ("ubuntu-24.04", "6.14.0-1010-aws", "aws"),
        ("ubuntu-24.04", "6.8.0-1015-gcp", "gcp"),
        ("ubuntu-24.04", "6.8.0-1018-azure", "azure"),
        ("ubuntu-22.04", "5.15.0-1066-kvm", "kvm"),
        ("ubuntu-24.04", "6.8.0-1014-oracle", "oracle"),
        ("debian-12", "6.1.0-28-cloud-amd64", "cloud-amd64"),
        ("debian-13", "6.12.43+deb13-cloud-amd64", "cloud-amd64"),
        ("debian-12", "6.1.0-28-amd64", "amd64"),
        ("ubuntu-24.04", "", "generic"),
    ],
)
def test_the_flavour_of_a_cloud_s_kernel_passes_preflight(
    system: str, kernel: str, flavour: str, tmp_path: Path
) -> None:
    """Preflight accepts the kernel flavour that the inventory declares."""
    assert kernel_flavour(system, kernel) == flavour
    answers = ANSWERS.replace("os=debian-12", f"os={system}").replace("6.1.0-28-cloud-amd64", kernel)
    host = written(tmp_path, answers).hosts[0]
    if kernel:
        mine = SimpleNamespace(host="h", machine=host.machine, driver=SimpleNamespace(manage=True, source="canonical"))
        seen = {"os": system, "architecture": "x86_64", "kernel": kernel, "systemd": "1", "cgroup": "cgroup2fs"}
        answered = SimpleNamespace(value=lambda name: seen.get(name, ""))
        assert list(judge_system(answered, mine)) == []
