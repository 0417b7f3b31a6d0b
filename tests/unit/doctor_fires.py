"""Answers of a host that cause the findings on kernel log and certificates; data of tests/unit/test_doctor.py."""

from __future__ import annotations

from collections.abc import Mapping

STAMP = "1795420000.123456 host kernel: "
UNSEEN = {"smi": "No devices were found"}


def _line(text: str) -> dict[str, str]:
    return {"kernel-beside": STAMP + text}


KERNEL_FIRES: Mapping[str, dict[str, str]] = {
    "gpu-start-failed": UNSEEN | _line("NVRM: GPU 0000:00:06.0: RmInitAdapter failed! (0x62:0x40:2168)"),
    "open-modules": UNSEEN | _line("NVRM: installed in this system requires use of the NVIDIA open kernel modules."),
    "driver-unfit": UNSEEN | _line("NVRM: installed in this system is not supported by the"),
    "gpu-unpowered": UNSEEN | _line("NVRM: GPU 0000:00:06.0: GPU does not have the necessary power cables connected."),
    "gpu-window": UNSEEN | _line("NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:"),
    "gpu-taken": UNSEEN | _line("NVRM: The NVIDIA probe routine was not called for 1 device(s)."),
    "module-refused": UNSEEN | _line("Loading of module with unavailable key is rejected"),
    "api-mismatch": _line("NVRM: API mismatch: the client has the version 580.65.06, but"),
    "kernel-past": _line("NVRM: GPU 0000:00:06.0: RmInitAdapter failed! (0x62:0x40:2168)"),
    "sxid-fatal": _line("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, Fatal, Link 32 egress priv error"),
    "sxid": _line("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 22013, Non-fatal, Link 4 minion link dlreq"),
    "pcie-fatal": _line("pcieport 0000:00:01.1: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Data Link Layer"),
    "pcie-error": _line("pcieport 0000:00:01.1: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction"),
    "oom-killed": _line("Out of memory: Killed process 4711 (tritonserver) total-vm:99kB, anon-rss:9kB"),
    "program-crashed": _line("tritonserver[4711]: segfault at 0 ip 00007f sp 00007f error 4 in libtriton.so"),
    "task-hung": _line("INFO: task nvidia-smi:4711 blocked for more than 120 seconds."),
    "uvm-fatal": _line("NVRM: nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, requiring os reboot"),
    "disk-failing": _line("EXT4-fs (nvme1n1): Remounting filesystem read-only"),
    "nvlink-error": _line("nvidia-nvswitch0: link 12 training failed"),
    "gpu-reset-wanted": _line("NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED]"),
    "gsp-crashed": _line("NVRM: GPU0 kgspHealthCheck_GH100: ****** GSP-CrashCat Report ******"),
    "kernel-fault": _line("BUG: unable to handle page fault for address: ffffb2c0c0a3f000"),
    "iommu-fault": _line("DMAR: [DMA Read NO_PASID] Request device [17:00.0] fault addr 0x7f0000000"),
    "network-fault": _line("NETDEV WATCHDOG: ens3f0 (i40e): transmit queue 12 timed out"),
    "driver-other": _line("NVRM: kbifCacheVFInfo_TU102: a step nobody listed failed"),
    "kernel-other": _line("nvme 0000:00:04.0: a step nobody listed failed"),
    "network-link": _line("i40e 0000:17:00.0 ens3f0: NIC Link is Down"),
    "connections-full": _line("nf_conntrack: nf_conntrack: table full, dropping packet"),
    "tasks-limit": _line("cgroup: fork rejected by pids controller in /system.slice/docker-abc.scope"),
    "host-hot": _line("CPU12: Package temperature above threshold, cpu clock throttled (total events = 12)"),
    "memory-short": _line("tritonserver: page allocation failure: order:9, mode:0x40dc0(GFP_KERNEL)"),
    "share-silent": _line("nfs: server 10.0.0.7 not responding, still trying"),
    "clock-unstable": _line("clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable"),
    "program-denied": _line('audit: type=1400 apparmor="DENIED" operation="open" profile="docker-default" name="/x"'),
    "host-memory-fault": _line("EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0"),
}
KERNEL_ENDS = {kind: "6" for kind, answers in KERNEL_FIRES.items() if answers.get("smi") == UNSEEN["smi"]}


def _ends(path: str, day: str, year: int = 2026) -> dict[str, str]:
    return {"certificates": f"/etc/enginehouse/{path} notAfter={day} 10:00:00 {year} GMT"}


CERTIFICATE_FIRES: Mapping[str, dict[str, str]] = {
    "certificate-ended": _ends("balancer/tls-1.pem", "Nov 22"),
    "certificate-ends": _ends("balancer/tls-1.pem", "Dec  1"),
    "fleet-certificate-ended": _ends("mutual/host.pem", "Nov 22"),
    "fleet-certificate-ends": _ends("gateway/mutual.pem", "Dec  1"),
    "fleet-authority-ended": _ends("mutual/authority.pem", "Nov 22"),
    "fleet-authority-ends": _ends("gateway/authority.pem", "May  1", 2027),
}
