"""Rows of the doctor's catalogue whose evidence is a line of a log: the kernel's, a server's, a build's or a service's.

More than 300 lines, because it is one table.
"""

from deploy.doctor.finding import Kind
from deploy.doctor.remedies import BOOT, DEPLOY, VENDOR

_SERVER_LOG = "journalctl -u 'triton@*' -b | tail -n 100 on the host"

KERNEL_ROWS = (
    Kind(
        "gpu-start-failed",
        "broken",
        "the driver reached a GPU and could not start it or its firmware",
        "read journalctl -k -b | grep NVRM on the host; stop and start the machine once; if it returns, " + VENDOR,
    ),
    Kind(
        "open-modules",
        "broken",
        "this GPU needs NVIDIA's open kernel modules, and the closed ones are installed: a reboot changes nothing",
        "install the open packages of the same branch on the host (their names end in -open), then " + BOOT,
    ),
    Kind(
        "driver-unfit",
        "broken",
        "the installed driver branch does not support this GPU: a reboot changes nothing",
        'name a branch that supports the GPU, driver=Driver(branch="…") in its Machine; then ' + DEPLOY,
    ),
    Kind(
        "gpu-unpowered",
        "broken",
        "the card's power cables are not connected",
        "check the card's power cables on site; then " + BOOT,
    ),
    Kind(
        "gpu-window",
        "broken",
        "the machine's firmware or hypervisor gave the GPU no address range, so the driver cannot use the card",
        "turn on 64-bit addressing for PCI (Above 4G Decoding) in the firmware, or ask the provider; then " + BOOT,
    ),
    Kind(
        "gpu-taken",
        "broken",
        "another driver, such as nouveau or vfio-pci, owns a GPU: NVIDIA's driver cannot use it",
        f"lspci -nnk -d 10de: on the host names the driver in use; release the GPU from it, then {DEPLOY}",
    ),
    Kind(
        "module-refused",
        "broken",
        "the kernel refused NVIDIA's module: it was built for another kernel, or Secure Boot does not know its key",
        f"mokutil --sb-state and dkms status on the host say which; boot the kernel it was built for, or {DEPLOY}",
    ),
    Kind(
        "api-mismatch",
        "warning",
        "a program used libraries of another driver version than the loaded kernel module",
        f"{DEPLOY} reloads the driver, drained; a container keeps its old libraries until it restarts",
    ),
    Kind(
        "uvm-fatal",
        "broken",
        "the driver's unified memory met a fatal error: no program gets a CUDA context until a reboot",
        "stop the servers; " + BOOT + "; if it returns, " + VENDOR,
    ),
    Kind(
        "kernel-past",
        "note",
        "the driver had this problem earlier in this boot; nvidia-smi lists every GPU now",
        "nothing; if it returns at each boot, send the report of nvidia-bug-report.sh to the provider",
    ),
    Kind(
        "driver-other",
        "warning",
        "NVIDIA's driver logged an error that no other row of this table describes",
        "journalctl -k -b | grep -iE 'nvrm|nvidia' on the host has the lines around it; if work on a GPU fails, "
        + VENDOR,
    ),
    Kind(
        "kernel-other",
        "note",
        "the kernel logged an error of a device that no other row of this table describes",
        "journalctl -k -b -p 3 on the host has the lines around it",
    ),
    Kind(
        "sxid-fatal",
        "broken",
        "an NVSwitch had a fatal error: programs on the GPUs that it joins fail until GPUs and switches are reset",
        "stop the servers; " + BOOT + "; if it returns, " + VENDOR,
    ),
    Kind(
        "sxid",
        "warning",
        "an NVSwitch reported an error that it survived",
        "nothing while it stays rare; journalctl -u nvidia-fabricmanager on the host says which link; then ask NVIDIA",
    ),
    Kind(
        "pcie-fatal",
        "broken",
        "PCIe reported an uncorrectable fatal error on the way to a device; a GPU behind it may be lost",
        "lspci -tv on the host shows the devices behind it; " + BOOT + "; if it returns, " + VENDOR,
    ),
    Kind(
        "pcie-error",
        "warning",
        "PCIe reported an uncorrectable error on the way to a device",
        "lspci -tv on the host shows the devices behind it; if it repeats, ask the provider to reseat the card",
    ),
    Kind(
        "oom-killed",
        "warning",
        "the kernel ended a program because memory of the host or of its container ran out",
        "free -m on the host; fewer servers, a smaller KVCache(host_mib=…), or a machine with more memory",
    ),
    Kind(
        "program-crashed",
        "warning",
        "a program of a server crashed",
        f"{_SERVER_LOG} has its last words; coredumpctl list shows the crash, if it is installed",
    ),
    Kind(
        "task-hung",
        "warning",
        "a program hangs in the kernel, as a rule in the driver",
        "ps -eo pid,stat,args | grep ' D' on the host; if it stays, " + BOOT,
    ),
    Kind(
        "disk-failing",
        "broken",
        "a disk of the host fails or was lost: its file system goes read-only, and servers and images on it break",
        "lsblk and smartctl -a on the host name the disk; stop the servers, and ask the provider for another disk",
    ),
    Kind(
        "nvlink-error",
        "warning",
        "a link between GPUs, or a switch between them, failed",
        "nvidia-smi nvlink -s and journalctl -u nvidia-fabricmanager on the host say which link; "
        + BOOT
        + "; if it returns, "
        + VENDOR,
    ),
    Kind(
        "gpu-reset-wanted",
        "broken",
        "the driver says that a GPU has to be reset before anything can run on it",
        "stop the servers; nvidia-smi --gpu-reset -i N on the host, or " + BOOT + "; if it returns, " + VENDOR,
    ),
    Kind(
        "gsp-crashed",
        "broken",
        "the GPU's own processor (GSP) crashed or no longer answers the driver",
        "stop the servers; " + BOOT + "; if it returns, " + VENDOR,
    ),
    Kind(
        "kernel-fault",
        "broken",
        "the kernel met a fault of its own and may be damaged until it boots again",
        "journalctl -k -b on the host names the module below this line; " + BOOT,
    ),
    Kind(
        "iommu-fault",
        "warning",
        "the IOMMU refused a device's access to memory: a faulty card, or a wrong setting of the firmware",
        "lspci -s with the address of this line names the device; iommu=pt on the kernel's command line, or " + VENDOR,
    ),
    Kind(
        "network-fault",
        "warning",
        "a network card hangs, or its firmware reported a fault",
        "ethtool -i and ethtool -S of the interface on the host; update the card's firmware; " + BOOT,
    ),
    Kind(
        "network-link",
        "note",
        "a network link went down in this boot",
        "ip -br link on the host says which are down now; check the cable, if it is one in use",
    ),
    Kind(
        "connections-full",
        "warning",
        "a table of connections of the kernel was full: packets were dropped",
        "sysctl net.netfilter.nf_conntrack_max net.ipv4.tcp_max_syn_backlog on the host, and raise the one it names",
    ),
    Kind(
        "tasks-limit",
        "warning",
        "a limit of processes or of open files was reached: new ones were refused",
        "systemctl status on the host names the unit with most tasks; raise TasksMax= or fs.file-max",
    ),
    Kind(
        "host-hot",
        "warning",
        "the processor is too hot and runs slower",
        "ask the provider about cooling of this host",
    ),
    Kind(
        "memory-short",
        "warning",
        "the kernel could not get memory for itself: host memory is short or fragmented",
        "free -m and cat /proc/buddyinfo on the host; fewer servers, or a larger vm.min_free_kbytes",
    ),
    Kind(
        "share-silent",
        "warning",
        "a network file system does not answer; what reads from it hangs",
        "findmnt -t nfs,nfs4,cifs,ceph,lustre on the host names it; ask who runs that server",
    ),
    Kind(
        "clock-unstable",
        "note",
        "the kernel distrusts its clock source and takes a slower one",
        "nothing on a VM; on bare metal, update the firmware",
    ),
    Kind(
        "program-denied",
        "warning",
        "AppArmor or seccomp refused a call of a container's program",
        "journalctl -k -b | grep -E 'DENIED|type=1326' on the host names program and call",
    ),
    Kind(
        "host-memory-fault",
        "warning",
        "the processor or the host's memory reported a hardware error",
        "ask the provider to check the host's memory and processor, and show them this line",
    ),
)
CAUSE_ROWS = (
    Kind(
        "cause-cache",
        "warning",
        "the key/value cache that was left does not hold one request of the longest length",
        "a smaller max_seq_len of the LLM, or more kv_cache_tokens: enginehouse plan INVENTORY shows both",
    ),
    Kind(
        "cause-host-memory",
        "warning",
        "the host's memory was used up, or the container's limit of it",
        "free -m on the host; fewer servers, a smaller KVCache(host_mib=…), or a machine with more memory",
    ),
    Kind(
        "cause-shm",
        "warning",
        "shared memory of the container was too small",
        f"a larger shm_mib of the Server, then {DEPLOY}",
    ),
    Kind(
        "cause-ranks",
        "warning",
        "a server started with another number of processes or GPUs than its engine was built for",
        f"parallel= of the LLM and gpus= of the Server have to agree; {DEPLOY} builds and starts both alike",
    ),
    Kind(
        "cause-model",
        "warning",
        "the program of a server does not know the architecture or the tokenizer of a model",
        "another release= or image=, or runtime= of the LLM: enginehouse plan INVENTORY names what each one serves",
    ),
    Kind(
        "cause-arguments",
        "warning",
        "the program of a server refused an argument: the image is of another release, or the model takes less",
        "systemctl cat 'llm@*' on the host has the arguments; a smaller max_seq_len, or the image of the catalog",
    ),
    Kind(
        "cause-limits",
        "warning",
        "a server reached the host's limit of processes, threads or open files",
        "systemctl show -p TasksMax,LimitNOFILE 'triton@*' on the host; ps -eLf | wc -l counts threads of others",
    ),
    Kind(
        "cause-mpi",
        "warning",
        "MPI could not start the processes of a server",
        f"{_SERVER_LOG} has MPI's own reason above this line; then systemctl restart triton@SERVER",
    ),
    Kind(
        "cause-files",
        "warning",
        "a model's directory lacks a file that the server reads: weights, tokenizer, program or version",
        f"{DEPLOY} fetches and checks the files again",
        True,
    ),
    Kind(
        "cause-config",
        "warning",
        "a model's config.pbtxt cannot be read, or does not fit the model",
        f"enginehouse check FILE names the line; {DEPLOY} writes the files of this project anew",
    ),
    Kind(
        "cause-program",
        "warning",
        "a model's Python program, or the program that serves it, failed with an error of its own code",
        f"{_SERVER_LOG} has its traceback; pyinfra INVENTORY rollback.py if it began with a new release",
        True,
    ),
    Kind(
        "cause-pool",
        "warning",
        "the GPU offers no memory pools, as virtual GPUs without unified memory do",
        "ask the provider for a vGPU profile with unified memory, or for a whole GPU",
    ),
    Kind(
        "cause-driver",
        "warning",
        "the image needs a newer driver than the host has",
        f'driver=Driver(branch="…") of the Machine, or an older release; then {DEPLOY}',
    ),
    Kind(
        "cause-no-gpu",
        "warning",
        "a container was started without a GPU, or lost it",
        f"systemctl restart triton@SERVER; if it returns, nvidia-smi on the host, then {DEPLOY} writes CDI anew",
    ),
    Kind(
        "cause-fabric",
        "warning",
        "CUDA waits for the NVSwitch fabric: Fabric Manager does not run, or is of another version than the driver",
        "systemctl restart nvidia-fabricmanager on the host; journalctl -u nvidia-fabricmanager has the reason",
    ),
    Kind(
        "cause-gpu-fault",
        "warning",
        "a program's work on the GPU failed, and its CUDA context is lost",
        "journalctl -k -b | grep Xid on the host says whether card or program failed; systemctl restart triton@SERVER",
    ),
    Kind(
        "cause-crash",
        "warning",
        "a program of a server crashed",
        f"{_SERVER_LOG}; pyinfra INVENTORY rollback.py if it began with a new release",
        True,
    ),
    Kind(
        "cause-hub",
        "warning",
        "a program asked a model hub and was refused, or could not reach it; servers here have no way out",
        f"{DEPLOY} fetches weights before the start; the token needs access to a gated repository",
    ),
    Kind(
        "cause-port",
        "warning",
        "another program uses a port of the server",
        "ss -ltnp on the host names the program; stop it, or choose other ports of the Server",
    ),
    Kind(
        "cause-disk",
        "warning",
        "a file system was full while a server or a build wrote to it",
        "df -h on the host; grow the volume (if it was /dev/shm: a larger shm_mib of the Server)",
    ),
    Kind(
        "cause-pull",
        "warning",
        "the image is not on the host and could not be pulled",
        f"{DEPLOY} pulls it with the inventory's key before it starts a server",
        True,
    ),
    Kind(
        "cause-permission",
        "warning",
        "a server or a build may not read or write a file",
        f"{DEPLOY} sets owners and modes of its own files again",
        True,
    ),
    Kind(
        "cause-address",
        "warning",
        "a program was told to listen at an address that this host does not have",
        "ip -br address on the host lists what it has; correct address= of the Server, or of the balancer's Opening",
    ),
    Kind(
        "cause-build",
        "warning",
        "TensorRT could not build the engine",
        "journalctl -u 'enginehouse-build@*' on the host has TensorRT's reason above this line; a build needs the"
        " whole GPU and the release that the checkpoint was made for",
    ),
    Kind(
        "cause-request",
        "note",
        "a client's request was refused, because it is longer than the model takes or names no model of the server",
        "nothing on the host: a shorter prompt, or a larger max_seq_len of the LLM; GET /v1/models lists the names",
    ),
    Kind(
        "cause-load",
        "warning",
        "Triton refused to load a model, for a reason that no other row describes",
        f"{_SERVER_LOG} has the reason after the model's name; enginehouse check FILE reads its config.pbtxt",
    ),
    Kind(
        "cause-other",
        "warning",
        "a program logged an error that no other row of this table describes",
        "journalctl {what} -b | tail -n 100 on the host has its text; pyinfra INVENTORY rollback.py if it began with a"
        " new release",
    ),
)
_DOCKER_LOG = "journalctl -u docker -u containerd -b | tail -n 50 on the host"

SERVICE_ROWS = (
    Kind(
        "service-docker",
        "warning",
        "Docker's daemon did not start or was not reachable: its settings, its storage or its socket",
        f"dockerd --validate on the host reads /etc/docker/daemon.json; {_DOCKER_LOG}; then systemctl restart docker",
    ),
    Kind(
        "service-network",
        "warning",
        "Docker could not set up a container's network: firewall rules, its bridge or its ranges of addresses",
        "systemctl restart docker writes its rules again; after an update of the kernel, " + BOOT,
    ),
    Kind(
        "service-containerd",
        "warning",
        "containerd did not run or did not answer, so Docker could start no container",
        f"systemctl restart containerd docker; {_DOCKER_LOG}",
    ),
    Kind(
        "service-container",
        "warning",
        "the container runtime could not create or start a container",
        f"{_DOCKER_LOG} has runc's own reason at the end of its line; docker ps -a shows leftovers of the same name",
    ),
    Kind(
        "service-balancer",
        "warning",
        "HAProxy refused its configuration, a certificate or a port, or its worker ended",
        "haproxy -c -f /etc/enginehouse/balancer/haproxy.cfg on the host names the line"
        f" (https/ on a host of its own gateway); {DEPLOY} writes it anew",
    ),
    Kind(
        "service-pool",
        "note",
        "HAProxy took servers out of a pool within the last day, because their health checks failed",
        "enginehouse top INVENTORY shows which are out now; the doctor on those hosts has the reason",
    ),
    Kind(
        "service-apt-lock",
        "note",
        "another program used apt or dpkg; a deploy waits for it up to 15 minutes",
        "wait until it ends: ps -eo pid,args | grep -E 'apt|dpkg|unattended' on the host shows it",
    ),
    Kind(
        "service-apt-source",
        "warning",
        "apt could not read a source of packages: its server, its signature or its date",
        "apt-get update on the host names the source; check the way out, the clock and the key of that source",
    ),
    Kind(
        "service-apt",
        "warning",
        "apt or dpkg could not install or configure a package",
        "dpkg --configure -a, then apt-get -f install on the host; apt-mark showhold lists packages that are held",
    ),
    Kind(
        "service-start",
        "warning",
        "systemd could not start a unit, gave up after several starts, or ended one that did not answer in time",
        "systemctl status UNIT on the host names the step; systemctl reset-failed UNIT allows the next start",
    ),
    Kind(
        "service-clock",
        "warning",
        "the host's clock is wrong or not corrected: certificates and tokens may be refused",
        "chronyc sources or timedatectl timesync-status on the host; allow NTP (UDP 123) to a time server",
    ),
    Kind(
        "service-tls",
        "warning",
        "a TLS certificate was refused: expired, signed by an unknown authority, or of another name",
        "date on the host first; then the authority of a proxy or registry in /usr/local/share/ca-certificates, and"
        " update-ca-certificates",
    ),
    Kind(
        "service-driver",
        "warning",
        "NVIDIA's services could not reach the driver: its kernel module is not loaded, or not of this kernel",
        f"journalctl -k -b | grep -iE 'nvrm|nvidia' on the host has the reason; then {DEPLOY}",
    ),
)
