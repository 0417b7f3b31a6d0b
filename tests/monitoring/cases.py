"""For each alert: series under which it fires, and series near them under which it does not.

Series have promtool's notation: `0+6x60` are 61 samples a minute apart, each 6 more. `at` is the time at which both are
judged. `fires` has the labels of the alert; `value` is the number in its text.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

HOST = 'instance="h100-01",job="host"'
GATEWAY = 'instance="h100-01",job="gateway"'
MAIN = 'instance="h100-01/main",job="triton"'
EDGE = 'instance="edge",job="haproxy"'
REQUESTS = f'enginehouse_gateway_requests_total{{{GATEWAY},endpoint="chat",model="llama",status='
BROKEN = f'enginehouse_gateway_streams_broken_total{{{GATEWAY},model="llama",reason='
UNIT = f"node_systemd_unit_state{{{HOST},state="
TYPE = 'type="oneshot"'


@dataclass(frozen=True)
class Case:
    """The series of an alert; `every` is minutes between samples and evaluations."""

    at: str
    firing: dict[str, str]
    silent: dict[str, str]
    fires: dict[str, str]
    value: str = ""
    every: int = 1
    also: tuple[dict[str, str], ...] = field(default=())
    """Further series that do not fire the alert."""
    otherwise: tuple[dict[str, str], dict[str, str]] | None = None
    """Other series that fire the alert, and the alert's labels then, if they differ from those of `fires`."""


def lost(job: str, at: str) -> Case:
    """Returns a target that stops answering, and a target that was away for a while."""
    series, labels = f'up{{instance="it",job="{job}"}}', {"instance": "it", "job": job}
    return Case(at, {series: "1x2 0x60"}, {series: "1x2 0x3 1x60"}, labels)


def burns(good: str, bad: str, every: int, few: int, at: str, value: str, of: str = f'{REQUESTS}"500"}}') -> Case:
    """Returns good and bad requests of a model; as silent series a client's own mistakes, and after `few` samples only
    a few failures.
    """
    calm = {f'{REQUESTS}"200"}}': good, f'{REQUESTS}"500"}}': "0x150", f'{REQUESTS}"429"}}': bad}
    calm |= {f'{BROKEN}"left"}}': bad, f'{BROKEN}"upstream_error"}}': "0x150"}
    few = {f'{REQUESTS}"200"}}': "0x150", f'{REQUESTS}"500"}}': f"0x{few} 1 2 3"}
    return Case(
        at,
        {f'{REQUESTS}"200"}}': good, of: bad},
        calm,
        {"model": "llama"},
        value,
        every,
        (few,),
    )


def slow(metric: str, labels: str, edge: str, model: str, every: int, at: str, value: str) -> Case:
    """Returns a histogram with most observations above the edge, and a histogram with few."""
    total, under = f"{metric}_count{{{GATEWAY},{labels}}}", f'{metric}_bucket{{{GATEWAY},{labels},le="{edge}"}}'
    return Case(
        at,
        {total: "0+100x150", under: "0+10x150"},
        {total: "0+100x150", under: "0+97x150"},
        {"model": model},
        value,
        every,
    )


def fleet_end(kind: str, file: str, firing_days: int, silent_days: int) -> Case:
    """Returns a certificate that ends this many days after the first sample; an expired certificate fires as well."""
    labels = f'file="{file}",kind="{kind}"'
    series = f"enginehouse_certificate_end_timestamp_seconds{{{HOST},{labels}}}"
    fires = {"instance": "h100-01", "job": "host", "file": file, "kind": kind}
    firing, silent = ({series: f"{days * 86_400}x20"} for days in (firing_days, silent_days))
    return Case("5m", firing, silent, fires, otherwise=({series: "1x20"}, {}))


def steady(series: str, firing: str, silent: str, at: str = "30m", **fires: str) -> Case:
    """Returns a series at a constant value: a value at which the alert fires, and a value at which it is silent."""
    job, instance = ("host", "h100-01")
    for known in (MAIN, EDGE):
        if known in series:
            instance, job = (part.split('"')[1] for part in known.split(","))
    return Case(at, {series: f"{firing}x100"}, {series: f"{silent}x100"}, {"instance": instance, "job": job, **fires})


def gpu(metric: str) -> Case:
    """Returns a number of GPU 0 that should be 0."""
    return steady(f'enginehouse_gpu_{metric}{{{HOST},gpu="0"}}', "1", "0", gpu="0")


def xid(remedy: str, other_remedy: str) -> Case:
    """Returns an Xid with this remedy, and an Xid with another remedy."""
    start = f'enginehouse_gpu_xids{{{HOST},pci="0000:00:06",'
    labels = {"instance": "h100-01", "job": "host", "pci": "0000:00:06", "xid": "79", "remedy": remedy}
    return Case(
        "5m",
        {f'{start}remedy="{remedy}",xid="79"}}': "1x20"},
        {f'{start}remedy="{other_remedy}",xid="79"}}': "1x20"},
        labels,
    )


def throttled(event: str, other_event: str) -> Case:
    """Returns a clock event that raises an alert, and another one that does not."""
    labels = {
        "gpu": "0",
        "UUID": "GPU-0",
        "pci_bus_id": "00000000:00:06.0",
        "device": "nvidia0",
        "modelName": "NVIDIA H100 80GB HBM3",
        "window_size_in_ms": "300000",
        "instance": "h100-01",
        "job": "dcgm",
    }
    written = ",".join(f'{name}="{value}"' for name, value in labels.items())
    made = {seen: f'DCGM_EXP_CLOCK_EVENTS_COUNT{{{written},clock_event="{seen}"}}' for seen in (event, other_event)}
    return Case("30m", {made[event]: "3x60"}, {made[other_event]: "3x60"}, {**labels, "clock_event": event})


def unit(name: str, kind: str = "oneshot") -> Case:
    """Returns a failed unit, a foreign unit, and a swap, which has its own alert."""
    mine, foreign, swap = (
        f'{UNIT}"failed",name="{unit_name}",type="{kind}"}}'
        for unit_name in (name, "cron.service", "enginehouse-swap@a.service")
    )
    labels = {"instance": "h100-01", "job": "host", "name": name, "state": "failed", "type": kind}
    also = () if "swap" in name else ({swap: "1x20"},)
    return Case("10m", {mine: "1x20"}, {mine: "0x20", foreign: "1x20"}, labels, also=also)


def share(metric: str, of: str, firing: str, silent: str, labels: str = "", **fires: str) -> Case:
    """Returns two numbers of the host: the first is this percentage of the second."""
    more = f",{labels}" if labels else ""
    series, whole = f"{metric}{{{HOST}{more}}}", f"{of}{{{HOST}{more}}}"
    return Case(
        "40m",
        {series: f"{firing}x60", whole: "100x60"},
        {series: f"{silent}x60", whole: "100x60"},
        {"instance": "h100-01", "job": "host", **fires},
    )


BLOCKS, ENGINE = "kv_cache_block_type", 'model="tensorrt_llm",version="1"'
DISK = {"device": "overlay", "fstype": "overlay", "mountpoint": "/"}
DISK_LABELS = ",".join(f'{name}="{value}"' for name, value in DISK.items())
SILENT = f'enginehouse_watch_misses{{{HOST},model="llama",server="main"}}'
LOOKED = f'enginehouse_watch_looked_timestamp_seconds{{{HOST},server="main"}}'
ACTIVE = f'haproxy_backend_active_servers{{{EDGE},proxy="chat_http"}}'
BACKUP = f'haproxy_backend_backup_servers{{{EDGE},proxy="chat_http"}}'
FIRST = "enginehouse_gateway_first_token_seconds"
WHOLE = "enginehouse_gateway_request_seconds"

CASES = {
    "AnswersBudgetGoneIn2Days": burns("0+18x150", "0+2x150", 2, 33, "70m", "10%"),
    "AnswersBudgetGoneIn5Days": burns("0+100x150", "0+4x150", 10, 39, "410m", "4%", f'{BROKEN}"upstream_error"}}'),
    "AnswersBudgetGoneIn30Days": burns("0+99x150", "0+1x150", 60, 71, "74h", "1%"),
    "FirstTokenBudgetGoneIn2Days": slow(FIRST, 'model="llama"', "2.5", "llama", 2, "70m", "90%"),
    "FirstTokenBudgetGoneIn5Days": slow(FIRST, 'model="llama"', "2.5", "llama", 10, "410m", "90%"),
    "FirstTokenBudgetGoneIn30Days": slow(FIRST, 'model="llama"', "2.5", "llama", 60, "74h", "90%"),
    "EncodersBudgetGoneIn2Days": slow(WHOLE, 'endpoint="rerank",model="bge"', "0.5", "bge", 2, "70m", "90%"),
    "EncodersBudgetGoneIn5Days": slow(WHOLE, 'endpoint="rerank",model="bge"', "0.5", "bge", 10, "410m", "90%"),
    "EncodersBudgetGoneIn30Days": slow(WHOLE, 'endpoint="rerank",model="bge"', "0.5", "bge", 60, "74h", "90%"),
    "GatewayLost": lost("gateway", "9m"),
    "HaproxyLost": lost("haproxy", "9m"),
    "TritonLost": lost("triton", "40m"),
    "HostLost": lost("host", "30m"),
    "DcgmLost": lost("dcgm", "40m"),
    "ProbeLost": lost("probe", "9m"),
    "XidReset": xid("reset", "watch"),
    "XidBoot": xid("boot", "application"),
    "XidVendor": xid("vendor", "watch"),
    "XidUnknown": xid("unknown", "watch"),
    "GpuSilent": steady(f"enginehouse_gpu_answers{{{HOST}}}", "0", "1"),
    "GpuStateOld": Case(
        "30m",
        {f'node_textfile_mtime_seconds{{{HOST},file="/var/lib/enginehouse/metrics/gpu.prom"}}': "0x60"},
        {f'node_textfile_mtime_seconds{{{HOST},file="/var/lib/enginehouse/metrics/gpu.prom"}}': "0+60x60"},
        {"instance": "h100-01", "job": "host", "file": "/var/lib/enginehouse/metrics/gpu.prom"},
    ),
    "RemapPending": gpu("remap_pending"),
    "RemapFailed": gpu("remap_failed"),
    "EccUncorrected": gpu("ecc_uncorrected_volatile"),
    "RepairWantsPerson": steady(f"enginehouse_repair_person{{{HOST}}}", "1", "0"),
    "RepairWaits": steady(f"enginehouse_repair_waits{{{HOST}}}", "1", "0", "50m"),
    "RepairSilent": Case(
        "150m",
        {f"enginehouse_repair_looked_timestamp_seconds{{{HOST}}}": "0x200"},
        {f"enginehouse_repair_looked_timestamp_seconds{{{HOST}}}": "0+60x200"},
        {"instance": "h100-01", "job": "host"},
    ),
    "GpuRepaired": Case(
        "30m",
        {f'enginehouse_repairs_total{{{HOST},remedy="reset",result="failed"}}': "0x10 1x60"},
        {f'enginehouse_repairs_total{{{HOST},remedy="reset",result="failed"}}': "3x70"},
        {"instance": "h100-01", "job": "host", "remedy": "reset", "result": "failed"},
    ),
    "NoticeDrains": steady(f"enginehouse_notice_active{{{HOST}}}", "1", "0"),
    "NoticesUnread": Case(
        "30m",
        {f"enginehouse_notice_answered_timestamp_seconds{{{HOST}}}": "0x60"},
        {f"enginehouse_notice_answered_timestamp_seconds{{{HOST}}}": "0+60x60"},
        {"instance": "h100-01", "job": "host"},
    ),
    "NoticeCutRequests": Case(
        "30m",
        {f"enginehouse_notice_cut_requests_total{{{HOST}}}": "0x10 3x60"},
        {f"enginehouse_notice_cut_requests_total{{{HOST}}}": "3x70"},
        {"instance": "h100-01", "job": "host"},
    ),
    "GpuTooHot": throttled("hw_thermal", "power_cap"),
    "GpuPowerBrake": throttled("hw_power_brake", "gpu_idle"),
    "ModelSilent": Case(
        "30m",
        {SILENT: "1x60", LOOKED: "0+60x60"},
        {SILENT: "0x60", LOOKED: "0+60x60"},
        {"instance": "h100-01", "job": "host", "model": "llama", "server": "main"},
        also=({SILENT: "1x60", LOOKED: "0x60"},),
    ),
    "WatchdogRestarted": Case(
        "30m",
        {f'enginehouse_watch_restarts_total{{{HOST},server="main"}}': "4x10 5x60"},
        {f'enginehouse_watch_restarts_total{{{HOST},server="main"}}': "4x100"},
        {"instance": "h100-01", "job": "host", "server": "main"},
    ),
    "SwapRefused": unit("enginehouse-swap@main.service"),
    "UnitFailed": unit("triton@main.service", "notify"),
    "JobFailed": unit("enginehouse-pull@main.service"),
    "UnitRestarts": Case(
        "30m",
        {f'node_systemd_service_restart_total{{{HOST},name="triton@main.service"}}': "0x10 1x5 2x5 3x60"},
        {f'node_systemd_service_restart_total{{{HOST},name="triton@main.service"}}': "0x10 1x60"},
        {"instance": "h100-01", "job": "host", "name": "triton@main.service"},
    ),
    "QueueFull": Case(
        "30m",
        {f'nv_inference_request_failure{{{MAIN},model="nomic",reason="REJECTED",version="1"}}': "0+2x60"},
        {f'nv_inference_request_failure{{{MAIN},model="nomic",reason="CANCELED",version="1"}}': "0+2x60"},
        {"instance": "h100-01/main", "job": "triton", "model": "nomic", "reason": "REJECTED", "version": "1"},
    ),
    "CacheNearlyFull": replace(
        steady(f'enginehouse_llm_cache_share{{{MAIN},model="llama"}}', "0.97", "0.9", "50m", model="llama"),
        also=({f'nv_trt_llm_kv_cache_block_metrics{{{MAIN},{BLOCKS}="fraction",{ENGINE}}}': "0.9x100"},),
        otherwise=(
            {f'nv_trt_llm_kv_cache_block_metrics{{{MAIN},{BLOCKS}="fraction",{ENGINE}}}': "0.97x100"},
            {BLOCKS: "fraction", "model": "tensorrt_llm", "version": "1"},
        ),
    ),
    "PoolEmpty": Case(
        "5m",
        {ACTIVE: "0x20", BACKUP: "0x20"},
        {ACTIVE: "1x20", BACKUP: "0x20"},
        {"instance": "edge", "job": "haproxy", "proxy": "chat_http"},
    ),
    "PoolServerDown": steady(
        f'haproxy_server_status{{{EDGE},proxy="chat_http",server="h1.main",state="DOWN"}}',
        "1",
        "0",
        "50m",
        proxy="chat_http",
        server="h1.main",
        state="DOWN",
    ),
    "ModelNotReady": Case(
        "20m",
        {'probe_success{instance="https://gateway/ready",job="probe"}': "0x60"},
        {'probe_success{instance="https://gateway/ready",job="probe"}': "1x60"},
        {"instance": "https://gateway/ready", "job": "probe"},
    ),
    "CertificateEnds": Case(
        "5m",
        {'probe_ssl_earliest_cert_expiry{instance="https://gateway/",job="probe"}': "1000000x20"},
        {'probe_ssl_earliest_cert_expiry{instance="https://gateway/",job="probe"}': "2000000x20"},
        {"instance": "https://gateway/", "job": "probe"},
    ),
    "FleetCertificateEnds": fleet_end("certificate", "/etc/enginehouse/mutual/host.pem", 20, 22),
    "FleetAuthorityEnds": fleet_end("authority", "/etc/enginehouse/gateway/authority.pem", 179, 181),
    "DiskLow": share("node_filesystem_avail_bytes", "node_filesystem_size_bytes", "9", "11", DISK_LABELS, **DISK),
    "InodesLow": share("node_filesystem_files_free", "node_filesystem_files", "4", "6", DISK_LABELS, **DISK),
    "ReadOnly": steady(f"node_filesystem_readonly{{{HOST},{DISK_LABELS}}}", "1", "0", **DISK),
    "ClockFree": steady(f"node_timex_sync_status{{{HOST}}}", "0", "1", "90m"),
    "MemoryLow": share("node_memory_MemAvailable_bytes", "node_memory_MemTotal_bytes", "4", "6"),
}
