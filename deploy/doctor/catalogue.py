"""Every finding the doctor can make: its severity, its meaning, and the remedy. The rules are in other modules.

Sources: NVIDIA's Xid catalogue through deploy/catalog/xids.py; the driver's recovery actions as NVML names them
(NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, field 230, nvidia-ml-py 13.615.71, read 2026-11-22).
"""

from collections.abc import Mapping
from shlex import quote
from typing import Any

from deploy.doctor.catalogue_logs import CAUSE_ROWS, KERNEL_ROWS, SERVICE_ROWS
from deploy.doctor.finding import Finding, Kind, printable
from deploy.doctor.remedies import BOOT, DEPLOY, VENDOR

NEW_AUTHORITY = "move ~/.config/enginehouse/authority/authority.key away on the control machine"
MENDED = "python3 -B /usr/local/lib/enginehouse/host gpu-state mended"
RESET = "systemctl stop triton@SERVER && nvidia-smi --gpu-reset -i {gpu} && " + MENDED + ", then " + DEPLOY
RENEW = "journalctl -u enginehouse-certificate on the host says why; then systemctl start enginehouse-certificate"
FIRST_BOOT = "journalctl -u enginehouse-first-boot on the host says why; then systemctl start enginehouse-first-boot"
CLOCKS = "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER; ask the provider about cooling and power of this host"

# fmt: off
_ROWS = (
    # Checks without an answer
    Kind("unread", "warning", "the host did not answer this check; its state is unknown",
         "run the doctor again; then check {what} by hand on the host"),
    Kind(
        "not-root", "warning", "some checks need root and were not made", "set `_sudo` to True in the inventory's data"
    ),
    # The driver's own verdict
    Kind("recovery-reset", "broken", "the driver requests a reset of the GPU", RESET),
    Kind("recovery-drain", "broken", "the driver requests that the GPU is drained and reset", RESET),
    Kind("recovery-reboot", "broken", "the driver requests a reboot of the host", BOOT),
    Kind("recovery-unknown", "broken",
         "the driver requests a recovery action that this version of the doctor does not know",
         "start no new work on the GPU; look the action up in NVIDIA's documentation, or ask NVIDIA"),
    Kind("recovery-past", "warning", "the driver requested a recovery since the last boot, and no longer does",
         f"if you reset the GPU, {MENDED} marks these messages as resolved; if not, watch the GPU"),
    # Xid messages
    Kind("xid-reset", "broken", "the GPU must be drained and reset", RESET),
    Kind("xid-boot", "broken", "the host must be rebooted", BOOT),
    Kind("xid-vendor", "broken", "the card or its connections have a hardware fault",
         "check the card's power and cabling on site; " + VENDOR),
    Kind("off-the-bus", "broken", "the GPU has fallen off the PCIe bus: the driver no longer reaches it", BOOT),
    Kind("xid-application", "warning",
         "an application on the GPU failed and must be restarted; usually the application itself is the cause",
         "journalctl -u 'triton@*' -b | tail -n 50 on the host; if a model hangs, systemctl restart triton@SERVER"),
    Kind(
        "xid-watch", "note", "NVIDIA's Xid catalogue requires no action", "nothing; investigate if it recurs every hour"
    ),
    Kind("xid-ask", "warning", "NVIDIA's Xid catalogue names no action for an operator",
         "look the number up at docs.nvidia.com/deploy/xid-errors, or ask NVIDIA"),
    Kind("xid-unknown", "warning",
         "NVIDIA's Xid catalogue (edition of 2025-10-29) does not have this number; the required action is unknown",
         "look it up at docs.nvidia.com/deploy/xid-errors; start nothing new on the GPU until you know"),
    Kind("xid-mended", "note", "an operator marked the GPU as repaired after this message", "nothing"),
    Kind("xid-last-boot", "warning",
         "before the last boot the driver logged an Xid that requires a reset, a reboot or another card",
         "nothing unless it returns; then send the report of nvidia-bug-report.sh to the provider"),
    Kind("xid-beside", "note", "this message has details of another Xid of the same GPU, whose remedy applies",
         "nothing of its own: follow the finding of Xid {what}"),
    *KERNEL_ROWS,
    # Memory of the card
    Kind("remap-failed", "broken", "a faulty row of the card's memory could not be remapped: no spare rows are left",
         VENDOR),
    Kind("remap-pending", "broken", "faulty rows of the card's memory are remapped at the next reset", RESET),
    Kind(
        "repair-pending", "broken", "a compute unit or memory channel of the card is repaired at the next reset", RESET
    ),
    Kind("ecc-uncorrected", "broken", "uncorrectable memory errors since the driver was loaded", RESET),
    Kind("sram-threshold", "broken", "the card's SRAM had more errors than NVIDIA's threshold", VENDOR),
    Kind("rows-remapped", "note", "memory rows were remapped after uncorrectable errors; the card works",
         "nothing; watch whether the number grows"),
    Kind("ecc-off", "warning", "ECC is off: memory errors are not detected", "nvidia-smi -e 1 -i {gpu}, then " + BOOT),
    Kind("ecc-pending", "warning", "a changed ECC mode takes effect at the next reset", RESET),
    # Speed of the card
    Kind("thermal-brake", "warning", "the GPU runs slower because it is too hot", CLOCKS),
    Kind("power-brake", "warning", "the GPU runs slower because its power supply is insufficient", CLOCKS),
    Kind("hardware-slowdown", "warning", "the GPU's hardware lowers its clocks and reports no reason", CLOCKS),
    Kind("pcie-width", "warning",
         "the GPU has fewer PCIe lanes than it can have: loading weights and sending prompts is slower",
         "stop and start the VM; if that does not help, ask the provider to reseat the card"),
    Kind("bar1-full", "warning", "BAR1, the window to the card's memory, is nearly full: new mappings may fail",
         "nvidia-smi --query-compute-apps=pid,process_name --format=csv lists the programs that use it"),
    Kind("persistence-off", "warning", "persistence mode is off: the driver unloads an idle GPU and loses its state",
         DEPLOY, True),
    Kind("mig-pending", "warning", "a changed MIG mode takes effect at the next reset of the GPU", DEPLOY, True),
    Kind("mig-differs", "warning", "MIG mode differs from the inventory", DEPLOY, True),
    Kind("fabric", "broken", "the GPU is not part of its NVSwitch fabric; CUDA programs cannot start on it",
         "systemctl restart nvidia-fabricmanager on the host; journalctl -u nvidia-fabricmanager has the reason"),
    Kind("gpu-foreign", "warning",
         "a program outside containers uses the GPU, whose whole memory the plan assigns to servers",
         "stop it: {what}"),
    # Driver
    Kind("gpu-silent", "broken", "nvidia-smi hangs in the driver; other programs that use the GPU will hang too",
         "ps -eo pid,stat,args | grep ' D' on the host; " + BOOT),
    Kind("gpu-lost", "broken", "a GPU no longer answers the driver", BOOT),
    Kind("gpu-count", "broken", "the machine does not have the number of GPUs that the inventory declares",
         "stop and start the VM, or correct gpus= in its Machine"),
    Kind("gpus-unseen", "broken", "the driver does not list a GPU that is on the PCI bus", BOOT),
    Kind("driver-missing", "broken", "the host has a deployed server and no NVIDIA driver", DEPLOY, True),
    Kind("driver-not-loaded", "broken", "the driver is installed, but its kernel module is not loaded",
         f"journalctl -k -b | grep -iE 'nvrm|nvidia|nouveau' on the host has the reason; then {DEPLOY}", True),
    Kind("driver-mismatch", "broken",
         "the loaded kernel module and the libraries on disk have different versions: new CUDA programs cannot start",
         f"{DEPLOY} reloads it, drained; or " + BOOT, True),
    Kind("nvml-closed", "broken",
         "nvidia-smi may not open the GPU's device files, or the driver behind them no longer answers",
         "ls -l /dev/nvidia* on the host: root and others need read and write; if they have both, " + BOOT),
    Kind("smi-refuses", "broken", "nvidia-smi failed with a message that the doctor does not know",
         "journalctl -k -b | grep -i nvrm on the host has the driver's reason; nvidia-bug-report.sh collects all"),
    Kind("nouveau", "broken", "nouveau, the kernel's own driver, has claimed the GPU", DEPLOY, True),
    Kind("driver-old", "warning", "support for this driver branch by NVIDIA has ended or ends soon",
         'a newer branch in the inventory: driver=Driver(branch="580")', True),
    # Containers and GPUs
    Kind("cdi-missing", "broken", "containers cannot get a GPU: the CDI specification is missing", DEPLOY, True),
    Kind("cdi-stale", "broken", "the CDI specification names the libraries of another driver version", DEPLOY, True),
    Kind("toolkit-old", "warning", "this version of the container toolkit has known vulnerabilities", DEPLOY, True),
    # Known holes
    Kind(
        "hole-strangers",
        "warning",
        "the server's image has vulnerabilities to remote code execution, and its ports are reachable from outside",
        f"the newest release of the catalog in the inventory ({{what}} is the first without them), then {DEPLOY}",
        True,
    ),
    Kind("hole-known", "warning", "a component on this host has known vulnerabilities", "{what}"),
    Kind("holes-unread", "note", "this clone's table of known vulnerabilities is old; newer ones are missing from it",
         "git pull in the clone of this project"),
    # Host
    Kind("disk-full", "broken", "a file system that deploys and servers write to is full",
         "du -xh --max-depth=2 {path} | sort -h | tail on the host; grow the volume"),
    Kind("disk-low", "warning", "a file system that deploys and servers write to is nearly full",
         "grow the volume of {what}"),
    Kind("inodes-full", "broken",
         "a file system that deploys and servers write to takes no new file, although df shows free space",
         "du -x --inodes --max-depth=4 {path} | sort -n | tail on the host; clear the directory with many small files"),
    Kind("inodes-low", "warning", "a file system has few inodes left",
         "find the directory with many small files on {what}, and clear it"),
    Kind("read-only", "broken", "a file system is read-only",
         "journalctl -k | grep -i remount on the host has the reason; repair the disk and mount it writable"),
    Kind("clock-off", "warning",
         "the host's clock differs from this machine's: certificates and package lists may be refused as not yet valid",
         "timedatectl set-ntp true on the host (or correct the clock of this machine)"),
    Kind("clock-free", "note", "no time service corrects the host's clock", "timedatectl set-ntp true on the host"),
    Kind("ptrace-scope", "warning",
         "processes may not trace their own children; the next start of a server fails, because it cannot hide its key",
         "sysctl kernel.yama.ptrace_scope=1 on the host, and the same in /etc/sysctl.d; if it is 3, reboot afterwards"),
    Kind("boot-wanted", "note", "an updated package takes effect at the next boot", "reboot when it suits: " + BOOT),
    Kind(
        "apt-busy", "note", "another program is using apt; a deploy waits for it up to 15 minutes", "wait until it ends"
    ),
    Kind("packages-half", "warning",
         "an installation of packages was interrupted; apt refuses to work until it is completed",
         f"dpkg --configure -a on the host; {DEPLOY} does it too if it needs one of these packages", True),
    # Units
    Kind("unit-failed", "broken", "a unit that serves has failed", "journalctl -u {unit} -n 50 on the host; " + DEPLOY,
         True),
    Kind("job-failed", "warning", "a one-shot unit of enginehouse has failed",
         "journalctl -u {unit} -n 50 on the host; " + DEPLOY, True),
    Kind("unit-stopped", "broken", "a server with a deployed release is not running",
         "systemctl start {unit} on the host", True),
    Kind("unit-starting", "note", "a server is starting; it is ready when every model has answered",
         "wait, then run the doctor again"),
    Kind("unit-restarted", "warning", "systemd restarted a unit that had exited",
         "journalctl -u {unit} has the reason; then systemctl reset-failed {unit} clears the count"),
    Kind("timer-stopped", "warning", "a timer of enginehouse is stopped: servers are not watched", DEPLOY, True),
    Kind("docker-down", "broken", "Docker is not running, so no server can run", "systemctl start docker; " + DEPLOY,
         True),
    Kind("journal-down", "warning", "the host keeps no log: findings from logs are missing here, and lines are lost",
         "df -h /var/log; systemctl unmask systemd-journald; systemctl restart systemd-journald.socket (on the host)"),
    Kind("errors-logged", "note", "units of enginehouse logged errors since boot",
         "journalctl -b -p err -u {unit} on the host"),
    # Servers
    Kind("nothing-deployed", "warning", "the plan was never deployed to this host", DEPLOY, True),
    Kind("first-boot-failed", "broken", "the host could not deploy itself at its first boot", FIRST_BOOT, True),
    Kind("first-boot-running", "note", "the host is deploying itself, as its user-data says",
         "journalctl -fu enginehouse-first-boot on the host shows it; wait, then run the doctor again"),
    Kind("release-differs", "warning", "a server runs another release than the plan names; the next deploy swaps it",
         DEPLOY, True),
    Kind("server-missing", "warning", "a planned server was never deployed to this host", DEPLOY, True),
    Kind("server-left", "warning", "a server that is no longer in the plan is still on the host", DEPLOY, True),
    Kind("model-not-ready", "broken", "the server runs, but a model is not ready",
         "journalctl -u triton@{server} -n 50 on the host; the watchdog restarts it after three failed checks"),
    Kind("server-silent", "broken", "the unit is active, but the server's port does not answer",
         "systemctl restart triton@{server}"),
    Kind("cache-full", "warning",
         "the LLM's key/value cache is nearly full: new requests wait, and running ones are paused",
         "more hosts, or a larger cache: enginehouse plan INVENTORY shows the room on the card", True),
    Kind("link-slow", "warning",
         "the ranks of a group exchanged at less than a quarter of the declared speed before their first start",
         "journalctl -u llm@{server} -g NCCL on the host names the interface; the inventory's `Fabric` declares one",
         True),
    Kind("swap-cut", "broken", "a swap was interrupted before it finished or was rolled back",
         f"{DEPLOY} puts the previous release back, then continues", True),
    Kind("swap-refused", "warning", "the last swap did not bring its release into service",
         f"correct the problem that `seen` names, then {DEPLOY}", True),
    Kind("watchdog-gave-up", "broken",
         "the watchdog has reached its limit of restarts and no longer restarts the server",
         "journalctl -u triton@{server} -n 200 on the host; pyinfra INVENTORY rollback.py", True),
    Kind("watchdog-restarted", "warning", "a model did not answer, and the watchdog restarted its server",
         "journalctl -u triton@{server}"),
    # Why it does not serve
    Kind("cause-memory", "warning", "a server or a build asked for more GPU memory than was left",
         "give the LLM fewer kv_cache_tokens (enginehouse plan INVENTORY shows each model's MiB), or one model fewer"),
    Kind("cause-engine", "warning", "a release needs an engine that is not on the host", DEPLOY, True),
    Kind("cause-gpu", "warning", "an engine or a kernel was built for another GPU architecture",
         f"declare the GPU that the machine has; then {DEPLOY} builds for it. Never copy an engine by hand", True),
    Kind("cause-version", "warning", "an engine or plugin was built with another TensorRT than the image has",
         f"{DEPLOY} builds one for the release. Never copy an engine by hand", True),
    Kind("cause-module", "warning", "a model's program needs a Python module that is missing from the image",
         "pyinfra INVENTORY rollback.py; then name a release of the catalog that has it", True),
    Kind("cause-image", "warning", "the image lacks Triton or another program or compiler, or is for another CPU",
         "name a release of the catalog in the inventory; enginehouse plan INVENTORY checks it", True),
    Kind("cause-nccl", "warning",
         "processes on several GPUs could not reach each other; usually shared memory is too small",
         "a larger shm_mib of the Server; nvidia-smi topo -m on the host says how the GPUs are linked"),
    *CAUSE_ROWS,
    *SERVICE_ROWS,
    Kind("cause-past", "note", "a server, a build or a service had this problem within the last day; it works now",
         "nothing"),
    # Left behind
    Kind("run-at-work", "note", "a run is working on this host; parts that it is changing may look broken",
         "wait until it ends, then run the doctor again"),
    Kind("hold", "warning", "an operator has drained a server, which gets no requests",
         "python3 -B /usr/local/lib/enginehouse/host traffic admit {server} on the host, or wait", True),
    Kind("notice-drains", "warning", "the cloud has announced that it takes the host back: the host gets no requests",
         "start another host; if this one stays, it serves again once the cloud withdraws the notice"),
    Kind("notice-seen", "note",
         "the cloud has announced an interruption without a drain: a warning without a time, or a short pause",
         "nothing has to be done; after `rebalance` a notice of two minutes may follow, so have another host ready"),
    Kind("notices-unread", "warning",
         "the cloud's metadata service gives no answer, so no notice of interruption would be seen",
         "journalctl -u enginehouse-notices -n 20 on the host; check that it reaches 169.254.169.254, and `notices`"),
    Kind("repair-person", "broken",
         "a GPU needs a repair that this host may not make, or has made too often within a day",
         "tail -n 3 /var/lib/enginehouse/history.jsonl on the host says what it needs; then run the doctor again"),
    Kind("repair-active", "note",
         "the host is repairing its GPUs and gets no requests until every server has answered",
         "wait until it ends: journalctl -fu enginehouse-repair on the host"),
    Kind("repair-waits", "warning",
         "a GPU waits for its repair: too few hosts of the pool would remain, or an operator works on the host",
         "systemctl status enginehouse-repair on the host says what it waits for"),
    Kind("repair-silent", "warning", "the program that repairs GPUs has stopped checking them",
         f"journalctl -u enginehouse-repair -n 20 on the host; then {DEPLOY}"),
    Kind("undo-waiting", "warning",
         "a change of SSH or firewall is not confirmed yet; without confirmation the host reverts it",
         f"wait three minutes; then {DEPLOY}", True),
    Kind("undo-taken-back", "warning", "the host reverted a change, because it was not confirmed in time",
         f"check that new SSH connections work, then {DEPLOY}", True),
    # From outside
    Kind("port-taken", "broken", "the server cannot start: another program listens on its port",
         f"ss -ltnp on the host names the program on port {{port}}; stop it (a docker-proxy: {DEPLOY} removes it)",
         True),
    Kind("port-open", "warning", "a port that the plan binds to loopback is open on every address",
         f"ss -ltnp on the host names the program; then {DEPLOY}", True),
    Kind("certificate-ended", "broken", "this certificate has expired: clients refuse it",
         f"put the new file in its place, then {DEPLOY}", True),
    Kind("certificate-ends", "warning", "this certificate expires soon",
         f"put the new file in its place, then {DEPLOY}", True),
    Kind("fleet-certificate-ended", "broken",
         "the mutual TLS certificate of a gateway or of a host behind it has expired: they refuse each other",
         f"renew it: {DEPLOY}", True),
    Kind("fleet-certificate-ends", "warning",
         "the mutual TLS certificate of a gateway or of a host behind it expires soon, and no run has renewed it",
         f"renew it: {DEPLOY}", True),
    Kind("ordered-certificate-ended", "broken", "the certificate of an ACME authority has expired: clients refuse it",
         RENEW, True),
    Kind("ordered-certificate-ends", "warning",
         "the certificate of an ACME authority expires soon, and the host's timer has not renewed it", RENEW, True),
    Kind(
        "fleet-authority-ended",
        "broken",
        "the fleet's authority has expired, and every certificate that it signed: gateways and hosts refuse each other",
        f"{NEW_AUTHORITY}, then without --limit: {DEPLOY}",
        True,
    ),
    Kind("fleet-authority-ends", "warning",
         "the fleet's authority expires soon, and every certificate that it signed expires with it",
         f"{NEW_AUTHORITY}, then without --limit: {DEPLOY}", True),
    # Drift
    Kind("drift", "warning", "the next deploy would change the host",
         f"{DEPLOY} --dry shows the changes; without --dry it makes them", True),
    Kind("deploy-refused", "broken", "the next deploy would refuse this host", "correct what `seen` names", False),
)
# fmt: on
KINDS = {row.id: row for row in _ROWS}


def finding_from(record: Mapping[str, Any]) -> Finding:
    return Finding(KINDS[record["id"]], record["subject"], record["evidence"], record["try"])


def finding_of(kind: str, evidence: str, subject: str = "", **names: object) -> Finding:
    """A finding of the kind with this id; `names` fill the placeholders of its attempt."""
    attempt = (row := KINDS[kind]).attempt
    for name, value in names.items():
        words = printable(str(value))  # from a host: quoted, except {what}, which is a sentence or a whole command
        attempt = attempt.replace(f"{{{name}}}", words if name == "what" else quote(words))
    return Finding(row, printable(subject), printable(evidence), attempt)
