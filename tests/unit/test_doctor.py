"""The doctor's rules: a healthy host has no finding, and each finding of the catalogue fires on its own evidence.

More than 300 lines: a row for each finding.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from deploy.doctor.catalogue import KINDS
from deploy.doctor.examine import drift_findings, findings_of
from deploy.doctor.gpu import parse_gpus
from deploy.doctor.phrases import PHRASES
from deploy.doctor.readings import Readings
from deploy.rollout.drift import Drift
from tests.unit.doctor_fires import CERTIFICATE_FIRES, KERNEL_ENDS, KERNEL_FIRES
from tests.unit.doctored import BARE, HEALTHY, NOW, UNITS, WANTED, examined, ids, read, smi

XID = "1795420000.123456 host kernel: NVRM: Xid (PCI:0000:00:06): {}, pid=1234, name=tritonserver, some words"
SLOT = 'main enginehouse_llm_cache_share{{model="llm"}} {}'
METRIC = 'main nv_trt_llm_kv_cache_block_metrics{{kv_cache_block_type="{}",model="llm",version="1"}} {}'
HOLD = '{{"since": {}, "until": {}}}'


def units(old: str, new: str) -> dict[str, str]:
    """The healthy host's units with a text replaced, and no open port of a server."""
    assert old in UNITS
    return {"units": UNITS.replace(old, new, 1), "listening": "00000000:0016 0A"}


def servers(record: str) -> dict[str, str]:
    """The healthy host's server with one more record."""
    return {"servers": f"main current 0f63ebc3e7737224\nmain {record}"}


FIRES = {
    **KERNEL_FIRES,
    **CERTIFICATE_FIRES,
    "not-root": {"user": "1000"},
    "recovery-reset": {"smi": smi(("GPU Recovery Action", "Reset"))},
    "recovery-drain": {"smi": smi(("GPU Recovery Action", "Drain and Reset"))},
    "recovery-reboot": {"smi": smi(("GPU Recovery Action", "Reboot"))},
    "recovery-unknown": {"smi": smi(("GPU Recovery Action", "Recover by Prayer"))},
    "recovery-past": {"kernel": XID.format("154, GPU recovery action changed from 0x0 (None) to 0x1 (Reset)")},
    "xid-reset": {"kernel": XID.format(95)},
    "xid-boot": {"kernel": XID.format(151)},
    "xid-vendor": {"kernel": XID.format(54)},
    "off-the-bus": {"kernel": XID.format(79)},
    "xid-application": {"kernel": XID.format(31)},
    "xid-watch": {"kernel": XID.format(63)},
    "xid-ask": {"kernel": XID.format(142)},
    "xid-unknown": {"kernel": XID.format(999)},
    "xid-mended": {"kernel": XID.format(95), "mended": "1795420100.5"},
    "xid-last-boot": {"kernel-before": XID.format(79)},
    "remap-failed": {"smi": smi(("Remapping Failure Occurred", "Yes"))},
    "remap-pending": {"smi": smi(("Remapped Rows/Pending", "Yes"))},
    "repair-pending": {"smi": smi(("TPC Repair Pending", "Yes"))},
    "ecc-uncorrected": {"smi": smi(("DRAM Uncorrectable", "3"))},
    "sram-threshold": {"smi": smi(("SRAM Threshold Exceeded", "Yes"))},
    "rows-remapped": {"smi": smi(("Remapped Rows/Uncorrectable Error", "2"))},
    "ecc-off": {"smi": smi(("ECC Mode/Current", "Disabled"), ("ECC Mode/Pending", "Disabled"))},
    "ecc-pending": {"smi": smi(("ECC Mode/Pending", "Disabled"))},
    "thermal-brake": {"smi": smi(("HW Slowdown", "Active"), ("HW Thermal Slowdown", "Active"))},
    "power-brake": {"smi": smi(("HW Slowdown", "Active"), ("HW Power Brake Slowdown", "Active"))},
    "hardware-slowdown": {"smi": smi(("HW Slowdown", "Active"))},
    "pcie-width": {"smi": smi(("Link Width/Max", "16x"), ("        Link Width/Current", "8x"))},
    "bar1-full": {"smi": smi(("BAR1 Memory Usage/Used", "131071 MiB"))},
    "persistence-off": {"smi": smi(("Persistence Mode", "Disabled"))},
    "mig-pending": {"smi": smi(("MIG Mode/Pending", "Enabled"))},
    "mig-differs": {"smi": smi(("MIG Mode/Current", "Enabled"), ("MIG Mode/Pending", "Enabled"))},
    "fabric": {"smi": smi(("Fabric/State", "In Progress"))},
    "gpu-foreign": {"gpu-users": "4711 python3"},
    "gpu-lost": {
        "smi": "Unable to determine the device handle for GPU0: 0000:00:06.0: GPU is lost.  Reboot the system"
    },
    "gpu-count": {"pci": ""},
    "gpus-unseen": {"smi": "No devices were found"},
    "driver-missing": {"smi": "nvidia-smi: command not found", "loaded": ""},
    "driver-not-loaded": {"smi": "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."},
    "driver-mismatch": {"library": "580.159.04", "smi": "Failed to initialize NVML: Driver/library version mismatch"},
    "nvml-closed": {"smi": "Failed to initialize NVML: Unknown Error"},
    "smi-refuses": {"smi": "Failed to initialize NVML: Some Error of the Future"},
    "nouveau": {"nouveau": "loaded"},
    "driver-old": {"loaded": "535.309.01", "library": "535.309.01", "cdi": "libcuda.so.535.309.01"},
    "cdi-missing": {"cdi": ""},
    "cdi-stale": {"cdi": "libcuda.so.580.95.05"},
    "toolkit-old": {"toolkit": "1.17.8-1"},
    "hole-known": {"installed": "runc-binary 1.2.7"},
    "link-slow": {"links": "main 3.2"},
    "disk-full": {"room": "/dev/sda1 102400000 102400000 0 100% /"},
    "disk-low": {"room": "/dev/sda1 102400000 98304000 4096000 96% /"},
    "inodes-full": {"inodes": "/dev/sda1 6553600 6553600 0 100% /"},
    "inodes-low": {"inodes": "/dev/sda1 6553600 6225920 327680 95% /"},
    "read-only": {"unwritable": "/etc\n/var/lib"},
    "apt-busy": {"apt": "4711 apt-get", "packages": "iU  curl\njournal"},
    "packages-half": {"packages": "iU  curl\njournal"},
    "ptrace-scope": {"ptrace-scope": "2"},
    "clock-off": {"clock": str(NOW - 300)},
    "clock-free": {"clock-kept": "no"},
    "boot-wanted": {"boot-wanted": "linux-image-6.12.48+deb13-amd64"},
    "unit-failed": units("ActiveState=active", "ActiveState=failed"),
    "job-failed": units("ActiveState=inactive\nResult=success", "ActiveState=failed\nResult=exit-code"),
    "unit-stopped": units("ActiveState=active", "ActiveState=inactive"),
    "unit-starting": units("ActiveState=active", "ActiveState=activating"),
    "unit-restarted": units("NRestarts=0", "NRestarts=3"),
    "timer-stopped": units("main.timer\nLoadState=loaded\nActiveState=active", "main.timer\nActiveState=inactive"),
    "docker-down": units(
        "docker.service\nLoadState=loaded\nActiveState=active", "docker.service\nActiveState=inactive"
    ),
    "journal-down": units(
        "Id=triton@main", "Id=systemd-journald.service\nActiveState=failed\nNRestarts=5\n\nId=triton@main"
    ),
    "errors-logged": {"errors": "      4 triton@main.service"},
    "nothing-deployed": {"servers": ""},
    "release-differs": {"servers": "main current 1111111111111111"},
    "server-missing": {"servers": "old current 1111111111111111"},
    "server-left": {"servers": f"{HEALTHY['servers']}\nold current 1111111111111111"},
    "model-not-ready": {"ready": "main - 200\nmain llm 400\nmain embedder 200"},
    "server-silent": {"ready": "main - \nmain llm \nmain embedder "},
    "cache-full": {"metrics": METRIC.format("fraction", 0.97)},
    "swap-cut": servers("cut yes"),
    "swap-refused": servers('verdict {"result": "put back", "sentence": "llm did not load"}'),
    "watchdog-gave-up": servers(f'watch {{"restarts": [{NOW - 900}, {NOW - 600}, {NOW - 300}.5]}}'),
    "watchdog-restarted": servers(f'watch {{"restarts": [{NOW - 90_000}, {NOW - 300}]}}'),
    "cause-memory": {"causes": "      3 CUDA out of memory"},
    "cause-past": {"causes": "      1 Error opening engine file"},
    "run-at-work": {"lock": '{"who": "ada@desk", "since": "2026-11-23T07:58:00Z", "plan": "plan-77aa", "run": "1"}'},
    "hold": {"holds": f"main {HOLD.format(NOW - 60, NOW + 600)}"},
    "undo-waiting": {"undo": "firewall waiting"},
    "undo-taken-back": {"undo": 'firewall {"why": "no new connection confirmed the change in time", "when": "today"}'},
    "port-open": {"listening": "00000000:1F40 0A"},
    "ordered-certificate-ended": {"certificates": "/etc/enginehouse/https/acme.pem notAfter=Nov 22 10:00:00 2026 GMT"},
    "ordered-certificate-ends": {"certificates": "/etc/enginehouse/https/acme.pem notAfter=Dec  1 10:00:00 2026 GMT"},
}
"""The change of a healthy host that makes each finding; the kinds of other tests are in ELSEWHERE."""
ENDS = {"gpu-lost": "15", "gpus-unseen": "6", "driver-missing": "127", "driver-not-loaded": "9"}
ENDS |= {"driver-mismatch": "18", "smi-refuses": "255", "nvml-closed": "255", **KERNEL_ENDS}
ELSEWHERE = {"port-taken", "unread", "gpu-silent", "drift", "deploy-refused", "cause-other", "service-other", *PHRASES}
ELSEWHERE |= {"notice-drains", "notice-seen", "notices-unread"}
ELSEWHERE |= {"repair-person", "repair-active", "repair-waits", "repair-silent"}
ELSEWHERE |= {"first-boot-failed", "first-boot-running", "hole-strangers", "holes-unread", "xid-beside"}


def test_a_healthy_host_has_no_finding() -> None:
    assert examined({}) == ()


@pytest.mark.parametrize("kind", FIRES)
def test_a_finding_fires_on_its_evidence_and_alone(kind: str) -> None:
    """The healthy host above and every other case here show that it does not fire elsewhere."""
    beside = {"server-missing": ["server-left"]}.get(kind, [])
    assert ids(examined(FIRES[kind], smi=ENDS.get(kind, "0"))) == [kind, *beside]


def test_inodes_by_the_million_are_not_used_up_at_99_percent() -> None:
    assert ids(examined({"inodes": "/dev/sda1 65536000 64300000 1236000 99% /"})) == ["inodes-low"]


def test_every_kind_of_the_catalogue_is_seen_firing_by_a_test() -> None:
    assert set(FIRES) | ELSEWHERE == set(KINDS)


def test_every_kind_of_finding_has_a_meaning_and_a_command() -> None:
    assert [kind.id for kind in KINDS.values() if not (kind.means and kind.attempt)] == []


@pytest.mark.parametrize("kind", FIRES)
def test_a_remedy_to_type_has_no_unfilled_placeholder(kind: str) -> None:
    findings = examined(FIRES[kind], smi=ENDS.get(kind, "0"))
    assert [finding.attempt for finding in findings if "{" in finding.attempt] == []


def test_a_port_that_another_program_took_from_a_stopped_server_is_reported() -> None:
    """A starting server is not a finding: its container may listen before it is ready."""
    listening = {"listening": "00000000:1F40 0A"}
    failed, starting = (units("ActiveState=active", f"ActiveState={state}") for state in ("failed", "activating"))
    assert ids(examined(failed | listening)) == ["unit-failed", "port-taken"]
    assert ids(examined(starting | listening)) == ["port-open", "unit-starting"]


def test_a_cache_is_full_where_requests_are_paused_and_not_while_it_only_fills() -> None:
    paused = METRIC.format("paused_requests", 2)
    filling = "\n".join([METRIC.format("fraction", 0.94), METRIC.format("paused_requests", 0), "main x{y} NaN", "main"])
    (waiting,) = examined({"metrics": paused})
    assert (waiting.subject, waiting.evidence) == ("main/llm", "2 requests are paused because no blocks are free")
    assert examined({"metrics": filling}) == ()
    (full,) = examined({"metrics": f"{SLOT.format(0.97)}\n{SLOT.format(0.9)}"})
    assert (full.id, full.evidence) == ("cache-full", "running requests fill 97% of it")


def test_a_bare_host_has_nothing_deployed_and_is_not_broken() -> None:
    findings = findings_of(read(BARE, smi="127"), WANTED)
    assert [(finding.id, finding.severity) for finding in findings] == [("nothing-deployed", "warning")]


def test_the_drivers_own_verdict_comes_before_all_else() -> None:
    findings = examined(
        {"smi": smi(("GPU Recovery Action", "Reset"), ("DRAM Uncorrectable", "3")), "kernel": XID.format(95)}
    )
    assert ids(findings) == ["recovery-reset", "ecc-uncorrected", "xid-reset"]


@pytest.mark.parametrize(
    ("line", "subject", "kind"),
    [
        ("NVRM: Xid (PCI:0000:00:06): 79, pid='<unknown>', GPU has fallen off the bus.", "GPU 0", "off-the-bus"),
        ("NVRM: Xid (0000:00:06): 79, GPU has fallen off the bus.", "GPU 0", "off-the-bus"),
        ("NVRM: GPU at PCI:0000:00:06: GPU-7ec0ffee-0000 has fallen off the bus.", "GPU 0", "off-the-bus"),
        ("NVRM: GPU 0000:41:00.0: GPU has fallen off the bus.", "GPU at 0000:41:00", "off-the-bus"),
        ("NVRM: The GPU has fallen off the bus", "a GPU", "off-the-bus"),
        ("NVRM: Xid (PCI:0000:41:00): 46, pid=1", "GPU at 0000:41:00", "xid-reset"),
    ],
)
def test_a_message_of_the_driver_is_read_in_every_form_it_has(line: str, subject: str, kind: str) -> None:
    findings = examined({"kernel": f"1795420000.5 host kernel: {line}"})
    assert [(finding.subject, finding.id) for finding in findings] == [(subject, kind)]


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        ("0x1 (Reset)", "recovery-reset"),
        ("0x2 (Reboot)", "recovery-reboot"),
        ("0x2 (Node Reboot)", "recovery-reboot"),
        ("0x3 (Drain P2P)", "recovery-drain"),
        ("0x4 (Drain and Reset)", "recovery-drain"),
        ("0x5 (IMEX)", "recovery-unknown"),
        ("0x6 (Bus Reset)", "recovery-unknown"),
        ("0x63 (None)", "recovery-unknown"),
        ("0x4", "recovery-drain"),
        ("something else", "recovery-unknown"),
    ],
)
def test_an_xid_154_is_judged_by_the_action_it_carries_where_nvidia_smi_is_silent(action: str, kind: str) -> None:
    line = XID.format(f"154, GPU recovery action changed from 0x0 (None) to {action}")
    assert kind in ids(examined({"kernel": line, "smi": ""}, smi="late"))
    past = examined({"kernel": line})
    assert ids(past) == ["recovery-past"], "the driver says None now: told, and not guessed at"


def test_an_xid_154_back_to_none_is_no_finding() -> None:
    assert examined({"kernel": XID.format("154, GPU recovery action changed from 0x1 (Reset) to 0x0 (None)")}) == ()


def test_a_repeated_xid_is_reported_once_with_its_count() -> None:
    findings = examined({"kernel": "\n".join([XID.format(95)] * 40)})
    assert [finding.evidence.endswith("(40 times)") for finding in findings] == [True]
    assert findings[0].evidence.startswith("2026-11-23 07:46:40 UTC NVRM: Xid (PCI:0000:00:06): 95")


def test_an_nvlink_error_asks_for_nothing_on_a_host_of_one_gpu() -> None:
    two = replace(WANTED, gpus=2)
    assert ids(examined({"kernel": XID.format(74)})) == ["xid-watch"]
    assert "xid-reset" in ids(examined({"kernel": XID.format(74)}, two))


def test_an_idle_link_of_a_lower_generation_is_health() -> None:
    assert examined({"smi": smi(("PCIe Generation/Current", "1"))}) == ()


def test_a_silent_nvidia_smi_is_reported() -> None:
    assert ids(examined({"smi": ""}, smi="late")) == ["gpu-silent"]


def test_a_question_without_an_end_keeps_a_host_from_being_called_healthy() -> None:
    findings = examined({}, units="late")
    assert [(finding.id, finding.severity, finding.subject) for finding in findings] == [("unread", "warning", "units")]


@pytest.mark.parametrize("name", ["kernel", "pci", "units", "room"])
def test_a_failed_check_that_every_host_can_answer_is_reported(name: str) -> None:
    """A host with an unreadable journal would seem to have no Xid."""
    assert ids(examined({name: "no such thing"}, **{name: "1"}))[0] == "unread"


def test_a_host_that_answered_nothing_is_not_healthy() -> None:
    assert set(ids(findings_of(Readings().expecting(HEALTHY), WANTED))) == {"unread"}


def test_an_ended_driver_branch_is_judged_by_the_current_day() -> None:
    assert ids(examined({}, replace(WANTED, today=date(2028, 7, 1)))) == ["driver-old", "holes-unread"]


def test_a_balancer_is_asked_for_no_gpu() -> None:
    balancer = replace(WANTED, gpus=0, servers=(), is_balancer=True)
    assert findings_of(read({**BARE, "pci": ""}, smi="127"), balancer) == ()


def test_every_value_of_the_recorded_card_is_read_by_its_path() -> None:
    (gpu,) = parse_gpus(HEALTHY["smi"])
    assert (gpu.name, gpu.place, gpu.value("GPU Recovery Action")) == ("GPU 0", "0000:00:06", "None")
    assert gpu.value("PCI/GPU Link Info/Link Width/Current") == "16x"
    assert gpu.value("Clocks Event Reasons/HW Slowdown/HW Thermal Slowdown") == "Not Active"
    assert gpu.value("Remapped Rows/Remapping Failure Occurred") == "No"


def test_steps_of_the_next_deploy_are_findings_of_their_hosts() -> None:
    steps = {"Docker | Merge": ("a", "d")}
    drift = Drift(("a", "b", "c", "d"), steps, ("c",), {"c": ("its clock differs",)}, refused={"d": ("no room",)})
    findings = {
        host: [(finding.id, finding.evidence) for finding in listed] for host, listed in drift_findings(drift).items()
    }
    assert findings == {
        "a": [("drift", "1 steps: Docker | Merge")],
        "c": [("deploy-refused", "its clock differs")],
        "d": [("deploy-refused", "no room")],
    }
