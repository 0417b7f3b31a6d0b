"""Alerts on faults. A fault that the doctor also reports has the doctor's words: the same meaning, the same remedy.

`DCGM_FI_DEV_XID_ERRORS` is in no rule: it keeps the number of the last Xid, and a rule on it would fire for ever. Xids
come from the host's own textfile, which drops them once an operator reports the GPU as repaired.
"""

from collections.abc import Iterable, Iterator

from deploy.catalog.drivers import BRANCH_WARNING_DAYS, DRIVER_BRANCHES
from deploy.catalog.runtimes import SERVE, VLLM, rows_of
from deploy.doctor.catalogue import KINDS
from deploy.doctor.installed import AUTHORITY_DAYS, CERTIFICATE_DAYS
from deploy.doctor.remedies import DEPLOY
from deploy.monitoring.alert import JOBS, LLM_JOB, Alert, Severity

HOST = "{{ $labels.instance }}"
DAY_SECONDS = 86_400
OURS = 'name=~"(triton@|enginehouse-).+"'
SERVES = 'name=~"(triton@|enginehouse-(gateway|balancer|traffic)).*"'
WORKS = 'name=~"enginehouse-.+",name!~"enginehouse-(swap@|gateway|balancer|traffic).*"'
STORE = 'mountpoint=~"/|/var/lib/enginehouse"'
LOST = {
    "gateway": "systemctl status 'enginehouse-gateway*' on the host, then " + DEPLOY,
    "haproxy": "systemctl status enginehouse-balancer on the host, then " + DEPLOY,
    "triton": "systemctl status 'triton@*' on the host, then " + DEPLOY,
    LLM_JOB: "systemctl status 'llm@*' on the host, then " + DEPLOY,
    "host": "ssh to the host; if it does not answer, start it at the provider, then " + DEPLOY,
    "dcgm": "nvidia-smi on the host, then " + DEPLOY,
    "probe": "systemctl status enginehouse-blackbox on the monitor",
}
LOST_MINUTES = {"triton": 30, LLM_JOB: 30, "dcgm": 30, "host": 20}
"""Minutes without an answer before the alert, by job: longer than a swap's loading of weights and a reboot take. Alerts
of the gateway report effects on clients at once."""


def finding(
    name: str, kind: str, expression: str, hold_minutes: int = 0, severity: Severity = "ticket", **labels: str
) -> Alert:
    """The alert on a finding of the doctor's; `labels` maps each placeholder of its remedy to a label of the series."""
    row, remedy = KINDS[kind], KINDS[kind].attempt
    for hole, label in labels.items():
        remedy = remedy.replace(f"{{{hole}}}", label)
    return Alert(name, expression, severity, f"{HOST}: {row.means}", remedy, hold_minutes)


def fleet_end(kind: str, days: int) -> str:
    return f'enginehouse_certificate_end_timestamp_seconds{{kind="{kind}"}} - time() < {days} * {DAY_SECONDS}'


def lost(job: str) -> Alert:
    """The alert on targets of a job that do not answer Prometheus."""
    severity: Severity = "page" if job in ("gateway", "haproxy") else "ticket"
    means = f"{HOST}: Prometheus gets no answer from this {job} target"
    expression = f'up{{job="{job}"}} == 0'
    return Alert(f"{job.capitalize()}Lost", expression, severity, means, LOST[job], LOST_MINUTES.get(job, 5))


def xid(remedy: str, kind: str, severity: Severity) -> Alert:
    """The alert on Xids with that remedy."""
    expression = f'enginehouse_gpu_xids{{remedy="{remedy}"}} > 0'
    means = f"{HOST}, GPU at {{{{ $labels.pci }}}}: Xid {{{{ $labels.xid }}}}, {KINDS[kind].means}"
    attempt = KINDS[kind].attempt.replace("{gpu}", "{{ $labels.pci }}.0")
    return Alert(f"Xid{remedy.capitalize()}", expression, severity, means, attempt)


def of_llms() -> tuple[Alert, ...]:
    """Alerts on LLMs beside Triton; vLLM and trtllm-serve export the same figures under different names."""
    metrics = [rows[0].metrics for rows in map(rows_of, (VLLM, SERVE))]
    cache = " or ".join(f"{names.cache_used} > 0.95" for names in metrics)
    waiting = " or ".join(f"min_over_time({names.waiting}[10m]) > 0" for names in metrics)
    return (
        lost(LLM_JOB),
        Alert(
            "LlmCacheNearlyFull",
            cache,
            "ticket",
            HOST + ": the key/value cache of its LLM is nearly full; new requests wait for free space",
            "more hosts, or a larger cache: enginehouse plan INVENTORY says what the card has room for; then " + DEPLOY,
            30,
        ),
        Alert(
            "LlmRequestsWait",
            waiting,
            "ticket",
            HOST + ": requests have waited for its LLM for ten minutes",
            "more hosts, or a larger max_batch_size of the model in the inventory, then " + DEPLOY,
            20,
        ),
    )


# fmt: off
CAUSES = (
    *(lost(job) for job in JOBS),
    # The card
    xid("reset", "xid-reset", "page"),
    xid("boot", "xid-boot", "page"),
    xid("vendor", "xid-vendor", "page"),
    xid("unknown", "xid-unknown", "ticket"),
    finding("GpuSilent", "gpu-silent", "enginehouse_gpu_answers == 0", 5, "page"),
    finding(
        "GpuStateOld", "timer-stopped", 'time() - node_textfile_mtime_seconds{file=~".*/gpu[.]prom"} > 900', 5, "ticket"
    ),
    finding("RemapPending", "remap-pending", "enginehouse_gpu_remap_pending == 1", gpu="{{ $labels.gpu }}"),
    finding("RemapFailed", "remap-failed", "enginehouse_gpu_remap_failed == 1", 0, "page"),
    finding("EccUncorrected", "ecc-uncorrected", "enginehouse_gpu_ecc_uncorrected_volatile > 0", 0, "page",
            gpu="{{ $labels.gpu }}"),
    # Repairs by the host itself
    finding("RepairWantsPerson", "repair-person", "enginehouse_repair_person == 1", 0, "page"),
    finding("RepairWaits", "repair-waits", "enginehouse_repair_waits == 1", 30),
    finding("RepairSilent", "repair-silent", "time() - enginehouse_repair_looked_timestamp_seconds > 7200", 5),
    Alert("GpuRepaired", "increase(enginehouse_repairs_total[6h]) > 0.5", "ticket",
          HOST + ": the host tried to repair a GPU by a {{ $labels.remedy }}: {{ $labels.result }}",
          "tail -n 3 /var/lib/enginehouse/history.jsonl on the host says why; replace a card that often needs it"),
    # Notices of interruption
    finding("NoticeDrains", "notice-drains", "enginehouse_notice_active == 1"),
    finding("NoticesUnread", "notices-unread", "time() - enginehouse_notice_answered_timestamp_seconds > 300", 10),
    Alert("NoticeCutRequests", "increase(enginehouse_notice_cut_requests_total[1h]) > 0.5", "ticket",
          HOST + ": requests were cut because the cloud took the host back before they ended",
          "tail -n 3 /var/lib/enginehouse/history.jsonl on the host says how many; allow only shorter answers there"),
    finding("GpuTooHot", "thermal-brake", 'DCGM_EXP_CLOCK_EVENTS_COUNT{clock_event=~"(hw|sw)_thermal"} > 0', 10),
    finding("GpuPowerBrake", "power-brake", 'DCGM_EXP_CLOCK_EVENTS_COUNT{clock_event="hw_power_brake"} > 0', 10),
    # Servers
    finding(
        "ModelSilent",
        "model-not-ready",
        # The metrics file of a removed server stays on the host, with its last values.
        "enginehouse_watch_misses > 0 and on (instance, server) "
        "time() - enginehouse_watch_looked_timestamp_seconds < 600",
        3,
        "page",
        server="{{ $labels.server }}",
    ),
    finding("WatchdogRestarted", "watchdog-restarted", "increase(enginehouse_watch_restarts_total[2h]) > 0.5",
            server="{{ $labels.server }}"),
    Alert("SwapRefused", 'node_systemd_unit_state{name=~"enginehouse-swap@.+",state="failed"} == 1', "ticket",
          f"{HOST}: {KINDS['swap-refused'].means}",
          "tail -n 1 /var/lib/enginehouse/history.jsonl on the host has the reason; remove it, then " + DEPLOY),
    finding("UnitFailed", "unit-failed", f'node_systemd_unit_state{{{SERVES},state="failed"}} == 1', 2, "page",
            unit="{{ $labels.name }}"),
    finding("JobFailed", "job-failed", f'node_systemd_unit_state{{{WORKS},state="failed"}} == 1', 2,
            unit="{{ $labels.name }}"),
    finding("UnitRestarts", "unit-restarted", f"increase(node_systemd_service_restart_total{{{OURS}}}[1h]) > 1.5",
            unit="{{ $labels.name }}"),
    Alert("QueueFull", 'rate(nv_inference_request_failure{reason="REJECTED"}[10m]) > 0', "ticket",
          HOST + ": {{ $labels.model }} refuses requests because its queue is full",
          "more hosts, or a larger max_queue_size of the model in the inventory, then " + DEPLOY, 5),
    Alert(
        "CacheNearlyFull",
        # The C++ backend exports the first metric, for engines; the LLM's slot the second, for the PyTorch backend.
        'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"} > 0.95 '
        "or enginehouse_llm_cache_share > 0.95",
        "ticket",
        HOST + ": the key/value cache of {{ $labels.model }} is nearly full; new requests wait for free space",
        "more hosts, or a larger cache: enginehouse plan INVENTORY says what the card has room for; then " + DEPLOY,
        30,
    ),
    # Balancers
    Alert("PoolEmpty", "haproxy_backend_active_servers + haproxy_backend_backup_servers == 0", "page",
          HOST + ": {{ $labels.proxy }} has no server that takes requests",
          "enginehouse drift INVENTORY says what differs on the pool's hosts; then " + DEPLOY, 2),
    Alert("PoolServerDown", 'haproxy_server_status{state="DOWN"} == 1', "ticket",
          HOST + ": {{ $labels.server }} of {{ $labels.proxy }} fails its health checks",
          "systemctl status 'triton@*' enginehouse-traffic on that host, then " + DEPLOY, 30),
    Alert("ModelNotReady", "probe_success == 0", "page", HOST + " does not answer the monitor's probe",
          "enginehouse ask INVENTORY says which model is silent; then " + DEPLOY, 10),
    finding("CertificateEnds", "certificate-ends", f"probe_ssl_earliest_cert_expiry - time() < 14 * {DAY_SECONDS}"),
    finding("FleetCertificateEnds", "fleet-certificate-ends", fleet_end("certificate", CERTIFICATE_DAYS)),
    finding("FleetAuthorityEnds", "fleet-authority-ends", fleet_end("authority", AUTHORITY_DAYS)),
    # The host
    finding("DiskLow", "disk-low",
            f"node_filesystem_avail_bytes{{{STORE}}} / node_filesystem_size_bytes{{{STORE}}} < 0.1", 15,
            what="{{ $labels.mountpoint }}"),
    finding("InodesLow", "inodes-low",
            f"node_filesystem_files_free{{{STORE}}} / (node_filesystem_files{{{STORE}}} > 0) < 0.05", 15,
            what="{{ $labels.mountpoint }}"),
    finding("ReadOnly", "read-only", f"node_filesystem_readonly{{{STORE}}} == 1", 2, "page"),
    finding("ClockFree", "clock-free", "node_timex_sync_status == 0", 60),
    Alert("MemoryLow", "node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes < 0.05", "ticket",
          HOST + ": less than a twentieth of the host's memory is available",
          "systemd-cgtop --order=memory -n 1 on the host shows the services that use it", 15),
)
# fmt: on


def ends(branches: Iterable[str]) -> Iterator[Alert]:
    for name in sorted(branches):
        last = DRIVER_BRANCHES[name].ends
        # Days since 0001-01-01, so that this machine's time zone has no effect; 719163 is 1970-01-01.
        since = (last.toordinal() - 719_163 - BRANCH_WARNING_DAYS) * DAY_SECONDS
        means = f"driver branch {name} is supported until {last.isoformat()}"
        yield Alert(f"Driver{name}Ends", f"vector(time()) > {since}", "ticket", means, KINDS["driver-old"].attempt)
