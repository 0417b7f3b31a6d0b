"""Hosts without the means to hide a key, keep users out or confine foreign templates, before the first change."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from roles._pyinfra.facts import HostFacts
from roles.preflight.defaults import Defaults
from roles.preflight.facts import _NO_FILTER, _NO_OWNER_MATCH, _PTRACE_FILES, _SYSCTL
from roles.preflight.judge import judge
from tests.roles.gateway.gateways import h100
from tests.roles.preflight.test_preflight import GOOD, NOW, kinds
from tests.roles.slices import a_slice


@pytest.mark.parametrize(
    ("scope", "files", "attempt"),
    [
        ("2", "", "sysctl kernel.yama.ptrace_scope=1 on the host"),
        (
            "2",
            "/etc/sysctl.d/10-ptrace.conf\n/etc/sysctl.d/99-hard.conf",
            "sysctl kernel.yama.ptrace_scope=1 on the host and in /etc/sysctl.d/10-ptrace.conf"
            " and in /etc/sysctl.d/99-hard.conf",
        ),
        (
            "3",
            "/etc/sysctl.d/99-hard.conf",
            "kernel.yama.ptrace_scope = 1 in /etc/sysctl.d/99-hard.conf, and reboot the host",
        ),
        ("3", "", "kernel.yama.ptrace_scope = 1 in /etc/sysctl.d, and reboot the host"),
    ],
)
def test_a_host_without_tracing_gets_the_command_that_allows_it(scope: str, files: str, attempt: str) -> None:
    """From 3 the setting cannot be lowered until a reboot."""
    answers = {**GOOD, "ptrace-scope": scope, "ptrace-files": files}
    (finding,) = judge(HostFacts(values=answers), a_slice("debian-12"), Defaults(), NOW)
    assert str(finding) == (
        "host: processes may not trace their own children\n"
        f"  found   kernel.yama.ptrace_scope = {scope}\n"
        "  wanted  at most 1: Triton's launch hides the admin key by tracing its own start\n"
        f"  try     {attempt}\n"
        "  state   preflight; no host was changed"
    )


@pytest.mark.parametrize(
    ("system", "package"), [("debian-12", "linux-image-amd64"), ("ubuntu-24.04", "linux-image-generic")]
)
def test_a_kernel_without_the_owner_match_is_refused_with_one_that_has_it(system: str, package: str) -> None:
    kernel = "6.8.0-1-generic"
    answers = {**GOOD, "os": system, "kernel": kernel, "owner-match": "absent"}
    (finding,) = judge(HostFacts(values=answers), a_slice(system), Defaults(), NOW)
    assert str(finding) == (
        "host: the kernel cannot match a connection to its user\n"
        "  found   6.8.0-1-generic without xt_owner\n"
        "  wanted  it keeps the host's users from Triton's ports\n"
        f"  try     apt-get install {package} on the host, and reboot into that kernel\n"
        "  state   preflight; no host was changed"
    )


def test_a_gateway_needs_filters_of_system_calls_and_a_server_alone_does_not() -> None:
    answers = {**GOOD, "seccomp": "absent"}
    (finding,) = judge(HostFacts(values=answers), a_slice("debian-12", gateway=h100()[1]), Defaults(), NOW)
    assert str(finding) == (
        "host: the kernel does not support filters of system calls\n"
        "  found   6.1.0-40-amd64 without CONFIG_SECCOMP_FILTER\n"
        "  wanted  filters that answer with an error\n"
        "  try     boot the distribution's own kernel, or remove the gateway from this host: gateway=None\n"
        "  state   preflight; no host was changed"
    )
    assert kinds(seccomp="absent") == []


@pytest.mark.parametrize(
    ("dependencies", "builtin", "at_work", "answer"),
    [
        ("net/netfilter/xt_owner.ko.zst: net/netfilter/x_tables.ko.zst\n", "fs/ext4.ko\n", "", ""),
        ("net/netfilter/xt_mark.ko:\n", "net/netfilter/x_tables.ko\nnet/netfilter/xt_owner.ko\n", "", ""),
        ("net/netfilter/xt_mark.ko: net/netfilter/x_tables.ko\n", "fs/ext4.ko\n", "", "absent"),
        ("net/netfilter/xt_mark.ko: net/netfilter/x_tables.ko\n", "fs/ext4.ko\n", "limit\n", "absent"),
        ("net/netfilter/xt_mark.ko: net/netfilter/x_tables.ko\n", "fs/ext4.ko\n", "limit\nowner\n", ""),
        ("updates/dkms/nvidia.ko:\n", "", "", ""),
        ("", "", "", ""),
    ],
    ids=["module", "built in", "absent", "others at work", "at work", "a driver's list", "no list"],
)
def test_a_kernel_lacks_a_match_only_where_its_own_list_of_modules_says_so(
    tmp_path: Path, dependencies: str, builtin: str, at_work: str, answer: str
) -> None:
    texts = {"modules.dep": dependencies, "modules.builtin": builtin, "ip_tables_matches": at_work}
    for name, text in texts.items():
        if text:
            (tmp_path / name).write_text(text)
    command = _NO_OWNER_MATCH.replace("/lib/modules/$(uname -r)", str(tmp_path)).replace("/proc/net", str(tmp_path))
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == (answer, "")


@pytest.mark.parametrize(
    ("actions", "answer"),
    [("kill_process kill_thread trap errno trace log allow\n", ""), ("kill_thread allow\n", "absent"), ("", "absent")],
)
def test_a_kernel_has_filters_if_they_can_answer_with_an_error(tmp_path: Path, actions: str, answer: str) -> None:
    if actions:
        (tmp_path / "actions").write_text(actions)
    command = _NO_FILTER.replace("/proc/sys/kernel/seccomp/actions_avail", str(tmp_path / "actions"))
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == (answer, "")


def test_the_files_that_forbid_tracing_are_named_and_no_comment_is(tmp_path: Path) -> None:
    texts = {
        "10-ptrace": "kernel.yama.ptrace_scope = 1\n",
        "20-comment": "# kernel.yama.ptrace_scope = 2\n",
        "30-hard": "kernel.dmesg_restrict = 1\nkernel.yama.ptrace_scope=2\n",
        "40-slashes": "-kernel/yama/ptrace_scope = 3\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.conf").write_text(text)
    command = _PTRACE_FILES.replace(_SYSCTL, f"{tmp_path}/*.conf {tmp_path}/none.conf")
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert [Path(line).stem for line in ran.stdout.splitlines()] == ["30-hard", "40-slashes"]
