"""Public lines of logs through the host's own filters: each gives its finding, and noise gives none."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.doctor.archive import FORMS, let_in
from deploy.doctor.causes import HOST_PATTERN
from deploy.doctor.examine import findings_of
from deploy.doctor.finding import Finding
from deploy.doctor.kernel import STARTS, shortened
from deploy.doctor.phrases import PHRASES, WITHOUT_CUDA
from deploy.doctor.phrases_kernel import KERNEL_PATTERN, RULES
from tests.unit.doctored import BARE, WANTED, examined, ids, read
from tests.unit.logged_lines import KERNEL, NOISE, SERVER, Logged
from tests.unit.test_doctor import XID, units

FAILED = units("ActiveState=active", "ActiveState=failed")
UNSEEN = {"smi": "No devices were found"}
START = "NVRM: GPU 0000:a1:00.0: RmInitAdapter failed! (0x62:0x40:2168)"


def grepped(pattern: str, text: str, *options: str) -> str:
    """The answer of the host's own grep."""
    command = ["grep", "-aE", *options, pattern]
    return subprocess.run(command, input=text, capture_output=True, text=True, env={"LC_ALL": "C"}, timeout=60).stdout


@cache
def phrases_of_lines() -> dict[str, list[str]]:
    """The phrases of each line of the table, by one call of grep, because the expression is costly to compile."""
    lines = [logged.line for logged in (*SERVER, *NOISE)]
    text = "\n".join("" if re.search(WITHOUT_CUDA, line) else line for line in lines)
    phrases: dict[str, list[str]] = {line: [] for line in lines}
    for row in grepped(HOST_PATTERN, text, "-no").splitlines():
        number, _, phrase = row.partition(":")
        phrases[lines[int(number) - 1]].append(phrase)
    return phrases


def caused(text: str) -> tuple[Finding, ...]:
    """The findings of a failed server with this log."""
    phrases = phrases_of_lines().get(text)
    if phrases is None:
        phrases = grepped(HOST_PATTERN, grepped(WITHOUT_CUDA, text, "-v"), "-o").splitlines()
    return examined({**FAILED, "causes": "".join(f"      1 {phrase}\n" for phrase in phrases)})


def in_kernel(lines: Sequence[str]) -> str:
    """The host's answer if its kernel logged these lines."""
    stamped = [line if line.startswith(" ") else f"1795420000.5 host kernel: {line}" for line in lines]
    return grepped(KERNEL_PATTERN, "\n".join(stamped))


@pytest.mark.parametrize("logged", SERVER, ids=lambda logged: logged.line[:60])
def test_a_line_of_a_server_is_named_by_its_cause_and_by_no_second_one(logged: Logged) -> None:
    """A fault gives a single finding, beside the failed unit."""
    assert ids(caused(logged.line)) == ["unit-failed", logged.kind]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("acme.FooError: no such bar: hf_secret", "cause-other"),
        ("[TensorRT-LLM][ERROR] a new sentence about hf_secret", "cause-other"),
        ("E0817 19:18:51.786824 29 new_file.cc:12] a new sentence about hf_secret", "cause-other"),
        ("ERROR 08-17 19:18:51 [new_file.py:12] a new sentence about hf_secret", "cause-other"),
        ("2026-01-01T00:00:00Z ERROR new_program::new_room: a new sentence about hf_secret", "cause-other"),
        ('level=error msg="a new sentence about hf_secret"', "service-other"),
        ("new.service: Failed with result 'exit-code'.", "service-other"),
        ("acme.FooError: hf_secret\nno such file or directory", "cause-files"),
        ("acme.FooError: no such bar\nRuntimeError: CUDA error: out of memory", "cause-memory"),
    ],
)
def test_an_unknown_error_is_named_by_its_class_if_nothing_else_is_known(text: str, kind: str) -> None:
    """The finding's name contains no word of the error's text."""
    findings = caused(text)
    assert ids(findings) == ["unit-failed", kind]
    assert "secret" not in findings[-1].evidence


def test_a_failed_job_reads_no_old_error_of_a_server() -> None:
    """A killed fetch, and an unknown error that a server logged before, with a word of a reason."""
    failed = units("ActiveState=inactive\nResult=success", "ActiveState=failed\nResult=exit-code")
    text = "acme.FooError: no such bar\nno such file or directory"
    phrases = grepped(HOST_PATTERN, text, "-o").splitlines()
    assert phrases
    assert ids(examined({**failed, "causes": "".join(f"      1 {phrase}\n" for phrase in phrases)})) == ["job-failed"]


@pytest.mark.parametrize("logged", KERNEL, ids=lambda logged: logged.line[:60])
def test_a_line_of_the_kernel_is_named_on_a_host_without_its_gpu(logged: Logged) -> None:
    """Only the reason is reported: nvidia-smi's consequence is left out."""
    kinds = ids(examined({**UNSEEN, "kernel-beside": in_kernel([logged.line])}, smi="6"))
    is_reason = logged.kind in (*STARTS, "gpu-start-failed")
    assert set(kinds) == ({logged.kind} if is_reason else {logged.kind, "gpus-unseen"})


@pytest.mark.parametrize("logged", NOISE, ids=lambda logged: logged.line[:60])
def test_a_line_that_asks_for_nothing_is_no_finding(logged: Logged) -> None:
    """The cases include a line that a neighbouring Xid explains better."""
    findings = examined({"kernel-beside": in_kernel([logged.line])}) if logged.part == "kernel" else caused(logged.line)
    assert ids(findings) == ([] if logged.part == "kernel" else ["unit-failed"])


def test_an_archive_keeps_the_phrase_and_no_other_word_of_a_kernel_line() -> None:
    """The findings can be made again from the archive."""
    secret = "nvapi-4711secret"
    lines = in_kernel([f"{logged.line} {secret}" for logged in KERNEL])
    kept = let_in(read({"kernel-beside": lines})).text("kernel-beside")
    assert (secret in kept, len(kept.splitlines())) == (False, len(KERNEL))
    assert sorted(ids(examined({"kernel-beside": kept}))) == sorted(ids(examined({"kernel-beside": lines})))


def test_a_start_that_failed_before_a_good_one_is_a_note() -> None:
    """nvidia-smi lists every declared GPU."""
    line = in_kernel([START] * 4)
    (finding,) = examined({"kernel-beside": line})
    assert (finding.id, finding.severity, "(4 times)" in finding.evidence) == ("kernel-past", "note", True)


def test_a_host_that_needs_open_modules_is_not_rebooted_in_a_loop() -> None:
    lines = in_kernel(["NVRM: installed in this system requires use of the NVIDIA open kernel modules.", START])
    (finding,) = examined({**UNSEEN, "kernel-beside": lines}, smi="6")
    assert (finding.id, "open packages" in finding.attempt) == ("open-modules", True)


def test_messages_before_an_operators_repair_are_resolved() -> None:
    lines = in_kernel(["nvidia-nvswitch0: SXid (PCI:0000:59:00.0): 23001, Fatal, Link 12 Always Fatal"])
    assert ids(examined({"kernel-beside": lines})) == ["sxid-fatal"]
    assert examined({"kernel-beside": lines, "mended": "1795420100"}) == ()


def test_a_row_that_is_remapped_beside_an_ecc_error_points_at_that_error() -> None:
    """The remedy of 48 counts: a finding of 63 with `nothing` would contradict it."""
    reset, beside = examined({"kernel": "\n".join(map(XID.format, (48, 63)))})
    assert (reset.id, beside.id, beside.attempt) == (
        "xid-reset",
        "xid-beside",
        "nothing of its own: follow the finding of Xid 48",
    )
    assert ids(examined({"kernel": XID.format(63)})) == ["xid-watch"]


def test_the_meaning_of_an_xid_is_printed() -> None:
    (finding,) = examined({"kernel": XID.format(64)})
    assert "where it returns after a reset, the card is replaced" in finding.evidence


def test_a_gpu_that_nvidia_smi_does_not_list_is_named_as_nvidia_smi_takes_it() -> None:
    """The kernel leaves out the function, which `nvidia-smi -i` needs."""
    (finding,) = examined({"kernel": "NVRM: Xid (PCI:0000:1b:00): 95, uncontained"})
    assert "-i 0000:1b:00.0" in finding.attempt


def test_an_apt_fault_is_a_warning_and_a_past_docker_fault_noted() -> None:
    """The next deploy needs apt; a Docker that runs again needs nothing."""
    causes = {"causes": "      1 dpkg was interrupted\n      2 failed to start daemon"}
    findings = examined(causes)
    assert [(finding.id, finding.severity) for finding in findings] == [
        ("service-apt", "warning"),
        ("cause-past", "note"),
    ]


def test_a_balancers_doctor_report_has_its_kernel_and_service_logs() -> None:
    balancer = replace(WANTED, gpus=0, servers=(), is_balancer=True)
    texts = {
        **BARE,
        "pci": "",
        "kernel-beside": in_kernel(["nf_conntrack: nf_conntrack: table full, dropping packet"]),
        "causes": "      3 backend 'llm' has no server available",
    }
    assert ids(findings_of(read(texts, smi="127"), balancer)) == ["connections-full", "service-pool"]


def test_phrases_of_a_cause_share_a_finding() -> None:
    """A line of PyTorch has two phrases."""
    assert (
        ids(caused("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB")).count("cause-memory")
        == 1
    )


@pytest.mark.parametrize("kind", [*PHRASES, *RULES])
def test_no_phrase_may_grow_without_bound(kind: str) -> None:
    """A bounded phrase cannot carry a prompt off the host."""
    for phrase in (*PHRASES.get(kind, ()), *RULES.get(kind, ())):
        literal = re.sub(r"\\.", "", phrase)
        assert not re.search(r"[*+](?![^\[]*\])|,\}", literal), phrase


@pytest.mark.parametrize("kind", PHRASES)
def test_no_phrase_begins_with_a_part_of_any_length(kind: str) -> None:
    """The host's grep would follow one such part from every character of a log."""
    for phrase in PHRASES[kind]:
        assert not re.match(r"[('?]*\[[^]*]*\]\{", phrase), phrase


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200), st.sampled_from([logged.line for logged in KERNEL]))
def test_a_shortened_line_always_has_the_form_of_the_archive(before: str, line: str) -> None:
    text = shortened(f"{''.join(before.split(chr(10)))} {line}".replace("\n", " "))
    assert re.fullmatch(FORMS["kernel-beside"], text, re.ASCII)
