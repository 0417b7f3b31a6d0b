"""Every finding the doctor can make: its severity, its meaning, and what to type. Data; the rules stand beside it.

Sources: NVIDIA's Xid catalogue through deploy/catalog/xids.py; the driver's recovery actions as NVML names them
(NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, field 230, nvidia-ml-py 13.615.71, read 2026-11-22).

More than 300 lines, because it is one table.
"""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Any

from deploy.doctor.finding import Finding, Kind, printable

DEPLOY = "pyinfra INVENTORY deploy.py"
MENDED = "python3 -B /usr/local/lib/enginehouse/host gpu-state mended"
RESET = "systemctl stop triton@SERVER && nvidia-smi --gpu-reset -i {gpu} && " + MENDED + ", then " + DEPLOY
BOOT = "systemctl reboot (a virtual machine: stop and start it at the provider), then " + DEPLOY
VENDOR = "ask the provider for another card; nvidia-bug-report.sh collects what they will want to see"
CLOCKS = "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER; ask the provider about cooling and power of this host"

_ROWS = (
    # What was asked
    Kind(
        "unread",
        "warning",
        "a question was not answered to its end: nobody knows",
        "run the doctor again; then ask for {what} by hand",
    ),
    Kind("not-root", "warning", "some answers are root's only", "set `_sudo` to True in the inventory's data"),
    # The driver's own verdict
    Kind("recovery-reset", "broken", "the driver asks for a reset of the GPU", RESET),
    Kind("recovery-drain", "broken", "the driver asks to drain the GPU, and to reset it", RESET),
    Kind("recovery-reboot", "broken", "the driver asks for a boot of the host", BOOT),
    Kind(
        "recovery-unknown",
        "broken",
        "the driver asks for something that this version of the doctor does not know",
        "start nothing new on it; look the word up in NVIDIA's documentation of the recovery action, or ask NVIDIA",
    ),
    Kind(
        "recovery-past",
        "warning",
        "the driver asked for a recovery since boot, and does not any more",
        f"nothing, if you reset the GPU: {MENDED} takes the messages out of account; else watch it",
    ),
    # Xid messages
    Kind("xid-reset", "broken", "the GPU has to be drained and reset", RESET),
    Kind("xid-boot", "broken", "the host has to be booted again", BOOT),
    Kind("xid-vendor", "broken", "the card or its cables want a person at the machine", VENDOR),
    Kind("off-the-bus", "broken", "the driver has lost the GPU", BOOT),
    Kind(
        "xid-application",
        "warning",
        "an application on the GPU met a fault and has to start again; as a rule the fault is the application's",
        "journalctl -u 'triton@*' -b | tail -n 50 on the host; systemctl restart triton@SERVER if a model is silent",
    ),
    Kind("xid-watch", "note", "NVIDIA's table asks for nothing", "nothing; look again if it returns every hour"),
    Kind(
        "xid-ask",
        "warning",
        "NVIDIA's table names no action that can be taken here",
        "look the number up at docs.nvidia.com/deploy/xid-errors, or ask NVIDIA",
    ),
    Kind(
        "xid-unknown",
        "warning",
        "NVIDIA's table, as it was read, has no such number: nobody can say what it asks for",
        "look it up at docs.nvidia.com/deploy/xid-errors; start nothing new on the GPU until you know",
    ),
    Kind("xid-mended", "note", "an operator has said that the GPU was mended after it", "nothing"),
    Kind(
        "xid-last-boot",
        "warning",
        "before its last boot the host had an Xid that asks for a reset, a boot or another card",
        "nothing if it stays away; where it returns, nvidia-bug-report.sh and the provider",
    ),
    # Memory of the card
    Kind("remap-failed", "broken", "a row of the card's memory could not be remapped: none is left", VENDOR),
    Kind("remap-pending", "broken", "rows of the card's memory wait for a reset to be remapped", RESET),
    Kind("repair-pending", "broken", "a unit or a memory channel of the card waits for a reset to be repaired", RESET),
    Kind("ecc-uncorrected", "broken", "memory errors that could not be corrected since the driver was loaded", RESET),
    Kind("sram-threshold", "broken", "the card's SRAM had more errors than NVIDIA allows", VENDOR),
    Kind(
        "rows-remapped",
        "note",
        "rows were remapped after errors that could not be corrected; the card works",
        "nothing; watch whether the number grows",
    ),
    Kind("ecc-off", "warning", "memory errors pass unseen", "nvidia-smi -e 1 -i {gpu}, then " + BOOT),
    Kind("ecc-pending", "warning", "another ECC mode waits for a reset", RESET),
    # Speed of the card
    Kind("thermal-brake", "warning", "the GPU runs slower because it is too hot", CLOCKS),
    Kind("power-brake", "warning", "the GPU runs slower because the machine cannot feed it", CLOCKS),
    Kind("hardware-slowdown", "warning", "the GPU's hardware slows it down, and does not say why", CLOCKS),
    Kind(
        "pcie-width",
        "warning",
        "the GPU has fewer PCIe lanes than it can have: loading weights and sending prompts is slower",
        "stop and start the VM; where it stays, ask the provider to reseat the card",
    ),
    Kind(
        "bar1-full",
        "warning",
        "the window to the card's memory is used up; the next mapping is refused",
        "nvidia-smi --query-compute-apps=pid,process_name --format=csv says who holds it",
    ),
    Kind(
        "persistence-off", "warning", "the driver unloads a GPU that nobody uses, and forgets its state", DEPLOY, True
    ),
    Kind("mig-pending", "warning", "another MIG mode waits for a reset of the GPU", DEPLOY, True),
    Kind("mig-differs", "warning", "MIG mode is not what the inventory declares", DEPLOY, True),
    Kind(
        "fabric",
        "broken",
        "the GPU is not part of its NVSwitch fabric; CUDA refuses to start on it",
        "systemctl restart nvidia-fabricmanager on the host; journalctl -u nvidia-fabricmanager says why not",
    ),
    Kind(
        "gpu-foreign",
        "warning",
        "a program outside containers has the GPU; the plan counted its whole memory",
        "stop it: {what}",
    ),
    # Driver
    Kind(
        "gpu-silent",
        "broken",
        "nvidia-smi hangs in the driver; so will everything else that asks the GPU",
        "ps -eo pid,stat,args | grep ' D' on the host; " + BOOT,
    ),
    Kind("gpu-lost", "broken", "the driver has a GPU that does not answer any more", BOOT),
    Kind(
        "gpu-count",
        "broken",
        "the machine does not have the GPUs that the inventory declares",
        "stop and start the VM, or correct gpus= in its Machine",
    ),
    Kind("gpus-unseen", "broken", "a GPU on the PCI bus is not among those the driver offers", BOOT),
    Kind("driver-missing", "broken", "a host that was deployed to has no NVIDIA driver", DEPLOY, True),
    Kind(
        "driver-not-loaded",
        "broken",
        "the driver is installed and its module is not loaded",
        f"journalctl -k -b | grep -iE 'nvrm|nvidia|nouveau' on the host says why; then {DEPLOY}",
        True,
    ),
    Kind(
        "driver-mismatch",
        "broken",
        "the loaded module and the libraries on disk are of different versions: CUDA starts nothing new",
        f"{DEPLOY} reloads it, drained; or " + BOOT,
        True,
    ),
    Kind(
        "smi-refuses",
        "broken",
        "nvidia-smi ends badly, in words the doctor does not know",
        "type nvidia-smi on the host",
    ),
    Kind("nouveau", "broken", "the kernel's own driver has the GPU", DEPLOY, True),
    Kind(
        "driver-old",
        "warning",
        "NVIDIA supports this driver branch no longer, or not for long",
        'a newer branch in the inventory: driver=Driver(branch="580")',
        True,
    ),
    # Containers and GPUs
    Kind("cdi-missing", "broken", "no container can be given a GPU: there is no CDI specification", DEPLOY, True),
    Kind("cdi-stale", "broken", "the CDI specification names the libraries of another driver", DEPLOY, True),
    Kind("toolkit-old", "warning", "this container toolkit has known holes", DEPLOY, True),
    # Known holes
    Kind(
        "hole-strangers",
        "warning",
        "the server's image has known holes by which strangers run code, and the plan lets strangers reach its ports",
        f"the newest release of the catalog in the inventory ({{what}} is the first without them), then {DEPLOY}",
        True,
    ),
    Kind("hole-known", "warning", "a version on this host has known holes", "{what}"),
    Kind(
        "holes-unread",
        "note",
        "nobody has read the table of known holes again for long; newer ones are not in it",
        "git pull in the clone of this project",
    ),
    # Host
    Kind(
        "disk-full",
        "broken",
        "a file system that we write to has no room",
        "du -xh --max-depth=2 {path} | sort -h | tail on the host; grow the volume",
    ),
    Kind("disk-low", "warning", "a file system that we write to is nearly full", "grow the volume of {what}"),
    Kind("inodes-low", "warning", "a file system has hardly a name left for new files", "find what fills {what}"),
    Kind(
        "read-only",
        "broken",
        "a file system takes no writes",
        "journalctl -k | grep -i remount on the host says why; repair the disk and mount it writable",
    ),
    Kind(
        "clock-off",
        "warning",
        "its clock differs from this machine's: certificates and apt's files look not yet valid",
        "timedatectl set-ntp true on the host (or correct the clock of the machine that asks)",
    ),
    Kind("clock-free", "note", "nothing keeps the host's clock", "timedatectl set-ntp true on the host"),
    Kind(
        "ptrace-scope",
        "warning",
        "processes may not trace their own children: the next start of a server fails, for it could not hide its key",
        "sysctl kernel.yama.ptrace_scope=1 on the host and where /etc/sysctl.d sets it; where it is 3, boot after that",
    ),
    Kind("boot-wanted", "note", "a package waits for a boot of the host", "boot it when it suits: " + BOOT),
    Kind("apt-busy", "note", "a program is at work with apt: a run waits for it, up to 15 minutes", "wait for its end"),
    Kind(
        "packages-half",
        "warning",
        "an installation was cut: apt refuses to go on until it is ended",
        f"{DEPLOY} ends it where it wants one of them; or dpkg --configure -a on the host",
        True,
    ),
    # Units
    Kind(
        "unit-failed",
        "broken",
        "a unit that serves has failed",
        "journalctl -u {unit} -n 50 on the host; " + DEPLOY,
        True,
    ),
    Kind(
        "job-failed",
        "warning",
        "a unit of ours that works once has failed",
        "journalctl -u {unit} -n 50 on the host; " + DEPLOY,
        True,
    ),
    Kind(
        "unit-stopped", "broken", "a server that has a release does not run", "systemctl start {unit} on the host", True
    ),
    Kind(
        "unit-starting",
        "note",
        "a server is on its way: it is ready once every model has answered",
        "wait, then run the doctor again",
    ),
    Kind(
        "unit-restarted",
        "warning",
        "systemd started a unit again after it had ended by itself",
        "journalctl -u {unit} says why; systemctl reset-failed {unit} once you have read it",
    ),
    Kind("timer-stopped", "warning", "nobody looks after the servers: a timer of ours does not run", DEPLOY, True),
    Kind(
        "docker-down", "broken", "Docker does not run, and with it no server", "systemctl start docker; " + DEPLOY, True
    ),
    Kind(
        "errors-logged", "note", "units of ours wrote errors since boot", "journalctl -b -p err -u {unit} on the host"
    ),
    # What serves
    Kind("nothing-deployed", "warning", "nothing of the plan was ever put on this host", DEPLOY, True),
    Kind(
        "release-differs", "warning", "a server has another release than the plan: the next deploy swaps", DEPLOY, True
    ),
    Kind("server-missing", "warning", "a planned server was never put on this host", DEPLOY, True),
    Kind("server-left", "warning", "a server that the plan no longer has is still there", DEPLOY, True),
    Kind(
        "model-not-ready",
        "broken",
        "the server runs and a model does not answer that it is ready",
        "journalctl -u triton@{server} -n 50 on the host; the watchdog restarts it after three misses",
    ),
    Kind(
        "server-silent",
        "broken",
        "the unit is active and the server's port does not answer",
        "systemctl restart triton@{server}",
    ),
    Kind(
        "cache-full",
        "warning",
        "the LLM's key/value cache is nearly full: new requests wait for old ones to end, running ones are put off",
        "more hosts, or a larger cache: enginehouse plan INVENTORY says what the card has room for",
        True,
    ),
    Kind(
        "swap-cut",
        "broken",
        "a swap was begun and neither ended nor undone",
        f"{DEPLOY} puts back what served, then goes on",
        True,
    ),
    Kind(
        "swap-refused",
        "warning",
        "the last swap did not end with its release in service",
        f"mend what the sentence names, then {DEPLOY}",
        True,
    ),
    Kind(
        "watchdog-gave-up",
        "broken",
        "the watchdog has restarted the server as often as it may, and leaves it to you",
        "journalctl -u triton@{server} -n 200 on the host; pyinfra INVENTORY rollback.py",
        True,
    ),
    Kind(
        "watchdog-restarted",
        "warning",
        "a model was silent, and the watchdog restarted its server",
        "journalctl -u triton@{server}",
    ),
    # Why it does not serve
    Kind(
        "cause-memory",
        "warning",
        "a server or a build asked for more GPU memory than was left",
        "give the LLM fewer kv_cache_tokens (enginehouse plan INVENTORY shows each model's MiB), or one model fewer",
    ),
    Kind("cause-engine", "warning", "a release names an engine that is not on the host", DEPLOY, True),
    Kind(
        "cause-gpu",
        "warning",
        "an engine or a kernel was built for another kind of GPU",
        f"declare the GPU that the machine has, then {DEPLOY} builds for it; never carry an engine over by hand",
        True,
    ),
    Kind(
        "cause-version",
        "warning",
        "an engine or plugin is of another TensorRT than the image's",
        f"{DEPLOY} builds one for the release; never carry an engine over by hand",
        True,
    ),
    Kind(
        "cause-module",
        "warning",
        "a model's program wants a Python module that the image does not have",
        "pyinfra INVENTORY rollback.py; then a release of the catalog that has it",
        True,
    ),
    Kind(
        "cause-image",
        "warning",
        "the image has no Triton",
        "a release of the catalog; enginehouse plan INVENTORY",
        True,
    ),
    Kind(
        "cause-nccl",
        "warning",
        "processes on several GPUs could not reach each other, as a rule for want of shared memory",
        "a larger shm_mib of the Server; nvidia-smi topo -m on the host says how the GPUs are linked",
    ),
    Kind("cause-past", "note", "a server or a build met this within a day, and all is well now", "nothing"),
    # Left behind
    Kind(
        "run-at-work",
        "note",
        "a run holds this host now; what it is changing may look broken",
        "wait for its end, then run the doctor again",
    ),
    Kind(
        "hold",
        "warning",
        "an operator keeps requests away from a server",
        "python3 -B /usr/local/lib/enginehouse/host traffic admit {server} on the host, or wait",
        True,
    ),
    Kind(
        "undo-waiting",
        "warning",
        "a change that could shut us out is not confirmed yet; the host takes it back by itself",
        f"wait three minutes; then {DEPLOY}",
        True,
    ),
    Kind(
        "undo-taken-back",
        "warning",
        "the host took a change back, because nobody confirmed it in time",
        f"make sure that new SSH connections get in, then {DEPLOY}",
        True,
    ),
    # From outside
    Kind(
        "port-taken",
        "broken",
        "the server does not run and something listens on its port: it cannot start",
        f"ss -ltnp on the host says who has port {{port}}; end a foreign program; a docker-proxy goes with {DEPLOY}",
        True,
    ),
    Kind(
        "port-open",
        "warning",
        "a port that the plan keeps on loopback listens to everybody",
        f"ss -ltnp on the host says who has it; then {DEPLOY}",
        True,
    ),
    Kind(
        "certificate-ended",
        "broken",
        "clients refuse this certificate",
        f"put the new file in its place, then {DEPLOY}",
        True,
    ),
    Kind(
        "certificate-ends",
        "warning",
        "clients will soon refuse this certificate",
        f"put the new file in its place, then {DEPLOY}",
        True,
    ),
    Kind(
        "fleet-certificate-ended",
        "broken",
        "a gateway and the hosts that it sends to refuse each other's certificates",
        f"renew it: {DEPLOY}",
        True,
    ),
    Kind(
        "fleet-certificate-ends",
        "warning",
        "no run has renewed this certificate, by which a gateway and the hosts that it sends to know each other",
        f"renew it: {DEPLOY}",
        True,
    ),
    # Drift
    Kind(
        "drift",
        "warning",
        "the next deploy would change the host",
        f"{DEPLOY} --dry shows it, without --dry it is done",
        True,
    ),
    Kind("deploy-refused", "broken", "the next deploy would refuse this host", "mend what the sentence names", False),
)
KINDS = {row.id: row for row in _ROWS}


def finding_from(told: Mapping[str, Any]) -> Finding:
    """The finding that `Finding.to_json` wrote."""
    return Finding(KINDS[told["id"]], told["subject"], told["evidence"], told["try"])


def found(kind: str, evidence: str, subject: str = "", **names: object) -> Finding:
    """The finding of this kind; `names` fill its attempt."""
    row = KINDS[kind]
    attempt = row.attempt
    for name, value in names.items():
        words = printable(str(value))  # of a host: what is a word of a command to paste is one for the shell
        attempt = attempt.replace(f"{{{name}}}", words if name == "what" else quote(words))
    return Finding(row, printable(subject), printable(evidence), attempt)
