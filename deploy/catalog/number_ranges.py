"""The range of every number in an inventory: its unit, the least and most that a person could mean, and the reason.

A test walks the classes of `deploy.spec`: a numeric field without a row fails it, and so does a default outside its
row. The ranges are wide. They catch slips: a percentage typed as a fraction, GiB or bytes in a field of MiB,
milliseconds in a field of seconds. Limits that depend on another setting are judged in `deploy.validation`. Written
2026-11-27.
"""

from dataclasses import dataclass

MIB_PER_GIB = 1024
BYTES_PER_MIB = 2**20
OF_A_THOUSAND = 2e-5
"""Smallest number that may be the price of a thousand tokens; a smaller one may be the price of a single token."""


@dataclass(frozen=True)
class Believable:
    """The numbers that a field may hold; `unset` holds the numbers that mean "not declared". Ports and ids have no
    unit."""

    unit: str
    least: float
    most: float
    reason: str
    unset: tuple[float, ...] = ()
    zero: str = "for not declared"

    def takes(self, value: float) -> bool:
        return value in self.unset or self.least <= value <= self.most

    @property
    def words(self) -> str:
        """The accepted range in words for a message."""
        unset = f", or {shown(self.unset[0])} {self.zero}" if self.unset else ""
        return f"{self.number(self.least)} to {self.number(self.most)}{f' {self.unit}' if self.unit else ''}{unset}"

    def slip_of(self, value: float) -> tuple[str, float]:
        """The unit in which a number out of range was probably typed, and the number in the field's own unit.

        Without a likely slip, the number is the nearer end of the range.
        """
        candidates: list[tuple[str, float]] = []
        if self.unit == "percent" and 0 < value <= 1:
            candidates.append(("a fraction", value * 100))
        if self.unit == "MiB" and 0 < value < self.least:
            candidates.append(("GiB", value * MIB_PER_GIB))
        if self.unit == "MiB" and value > self.most:
            candidates += [("KiB", value / MIB_PER_GIB), ("bytes", value / BYTES_PER_MIB)]
        if self.unit in ("seconds", "ms") and value > self.most:
            candidates.append(("milliseconds" if self.unit == "seconds" else "microseconds", value / 1000))
        if self.unit == "Gbit/s" and value > self.most:
            candidates += [("Mbit/s", value / 1000), ("bit/s", value / 1e9)]
        if self.unit == "parameters" and 0 < value < self.least:
            candidates += [("billions", value * 1e9), ("millions", value * 1e6)]
        if self.unit == "for a million tokens" and 0 < value < self.least:
            candidates += [("the price of a thousand tokens", value * 1000)] if value >= OF_A_THOUSAND else []
            candidates.append(("the price of one token", value * 1e6))
        for words, meant in candidates:
            if self.least <= meant <= self.most:
                meant = round(meant, 6)
                return words, int(meant) if meant == int(meant) or meant > 1000 else round(meant, 4)
        return "", self.most if value > self.most else self.least

    def number(self, value: float) -> str:
        """The number as text for a person; ports and ids have no commas, because they are not counts."""
        return shown(value) if self.unit else shown(value).replace(",", "")


def shown(number: float) -> str:
    """A number for a person: commas between thousands, whole numbers without a fraction, few digits."""
    if abs(number) >= 1e18 or number != number:
        return f"{number:.3g}" if isinstance(number, float) else f"a number of {int(abs(number)).bit_length():,} bits"
    return f"{int(number):,}" if number == int(number) else f"{number:,}"


TEN_MILLION = 10_485_760
_LISTEN = Believable("", 1024, 65_535, "the program runs without privileges")
_PORT = Believable("", 1, 65_535, "TCP has no others")
_OPTIONAL_PORT = Believable("", 1, 65_535, "TCP has no others", unset=(0,))
_CONTEXT = Believable("tokens", 1, TEN_MILLION, "the longest context published is 10,485,760 (Llama 4 Scout)")
_SEQUENCE = Believable("tokens", 32, TEN_MILLION, "prompt and answer together: a chat's template alone takes 30")
_TEXT = Believable("tokens", 8, 131_072, "two of them mark a text's ends; no encoder here was trained on longer texts")
_BATCH = Believable("requests", 1, 8192, "trtllm-build's own default is 2,048")
_QUEUE = Believable("requests", 1, 100_000, "a longer queue outlives every client that waits in it")
_DRAFTED = Believable("tokens", 1, 256, "trees of Medusa and EAGLE have 63")
_ADDRESS_CONNECTIONS = Believable("connections", 8, 1_000_000, "a browser alone opens six", (0,), "for no limit")
_ADDRESS_REQUESTS = Believable(
    "requests", 10, 1_000_000_000, "requests of one address per minute, retries included", (0,), "for no limit"
)
_HOST_CACHE = Believable("MiB", 256, 4_194_304, "host memory is 4 TiB at most", unset=(0,))
_WAYS = Believable("GPUs", 1, 16, "no host of the catalog has more", unset=(0,))

_ENCODER = {
    "max_tokens": _TEXT,
    "max_batch_tokens": Believable("tokens", 1, 4_194_304, "no card has memory for a larger forward pass"),
    "streams": Believable("passes", 1, 4, "each takes memory, and two make a busy reranker 4 % faster"),
    "max_items": Believable("texts", 1, 100_000, "larger work belongs in a batch file"),
    "max_batch_size": _BATCH,
    "max_queue_delay_microseconds": Believable(
        "microseconds", 0, 1_000_000, "every batch waits that long for more requests"
    ),
    "max_queue_size": _QUEUE,
}

RANGES: dict[str, dict[str, Believable]] = {
    "Adapter": {"task_id": Believable("", 1, 2**53, "JSON has no larger exact number")},
    "Alias": {"models": Believable("shares", 0, 1_000_000, "only the ratio of the weights counts")},
    "Balancer": {
        "address_connections": _ADDRESS_CONNECTIONS,
        "address_requests": _ADDRESS_REQUESTS,
        "metrics_port": _PORT,
    },
    "Calibration": {"samples": Believable("texts", 16, 8192, "quantize.py reads 512 by default, and AWQ 32 at most")},
    "Checkpoint": {
        "parameters": Believable("parameters", 100_000, 20e12, "all of them, not billions: 8_030_261_248 for an 8B"),
        "layers": Believable("layers", 1, 512, "Llama-3.1-405B has 126"),
        "hidden": Believable("elements", 32, 65_536, "Llama-3.1-405B has 16,384"),
        "heads": Believable("heads", 1, 1024, "Llama-3.1-405B and DeepSeek-R1 have 128"),
        "vocabulary": Believable("tokens", 100, 4_000_000, "Gemma has 262,144"),
        "positions": Believable("tokens", 32, 2 * TEN_MILLION, "Llama 4 Scout has 10,485,760"),
        "kv_heads": Believable("heads", 1, 1024, "no more than heads", unset=(0,)),
        "head_dim": Believable("elements", 4, 2048, "64 to 256 are usual", unset=(0,)),
        "intermediate": Believable("elements", 16, 1_048_576, "Llama-3.1-405B has 53,248", unset=(0,)),
        "dense_intermediate": Believable("elements", 16, 1_048_576, "DeepSeek-R1 has 18,432", unset=(0,)),
        "experts": Believable("experts", 2, 8192, "Kimi-K2 has 384", unset=(0,)),
        "active_experts": Believable("experts", 1, 512, "of a token: 1 to 22 are usual", unset=(0,)),
        "kv_lora_rank": Believable("elements", 8, 65_536, "DeepSeek has 512", unset=(0,)),
        "qk_rope_head_dim": Believable("elements", 4, 2048, "DeepSeek has 64", unset=(0,)),
        "q_lora_rank": Believable("elements", 8, 65_536, "DeepSeek has 1,536", unset=(0,)),
        "weights_mib": Believable("MiB", 1, 16_777_216, "no host holds 16 TiB of weights", unset=(0,)),
    },
    "Draft": {"tokens": _DRAFTED},
    "Eagle": {"tokens": _DRAFTED},
    "Embedder": _ENCODER,
    "Encoder": _ENCODER,
    "Engine": {
        "max_input_len": Believable("tokens", 1, TEN_MILLION, "no longer than max_seq_len", unset=(0,)),
        "max_beam_width": Believable("beams", 1, 16, "each beam has a cache of its own"),
    },
    "Fabric": {"gbit": Believable("Gbit/s", 1, 6400, "eight adapters of 800 Gbit/s in one host")},
    "Firewall": {"confirm_seconds": Believable("seconds", 10, 600, "a new login takes no longer")},
    "GPU": {
        "mib": Believable("MiB", 2048, 1_048_576, "no card has a TiB"),
        "reserved_mib": Believable("MiB", 0, 16_384, "drivers keep some hundred"),
    },
    "Gateway": {
        "ports": _LISTEN,
        "hold_seconds": Believable("seconds", 0, 3600, "no client waits longer"),
        "drain_seconds": Believable("seconds", 1, 3600, "no answer takes longer"),
        "trace_one_in": Believable("requests", 1, 1_000_000, "rarer traces show no pattern"),
        "usage_days": Believable("days", 0, 3660, "ten years of counters"),
    },
    "GatewayLimits": {
        "body_mib": Believable("MiB", 1, 256, "a body takes four times its size as text"),
        "tenant_bodies_mib": Believable("MiB", 1, 256, "a process has 4 GiB"),
        "bodies_mib": Believable("MiB", 1, 256, "a process has 4 GiB"),
        "request_seconds": Believable("seconds", 1, 86_400, "no answer takes a day"),
        "connections": Believable("connections", 1, 65_536, "of one process"),
        "held": Believable("requests", 1, 65_536, "of one process"),
        "inputs": Believable("texts", 1, 100_000, "larger work belongs in a batch file"),
        "documents": Believable("texts", 1, 100_000, "larger work belongs in a batch file"),
    },
    "Https": {
        "port": _PORT,
        "address_connections": _ADDRESS_CONNECTIONS,
        "address_requests": _ADDRESS_REQUESTS,
    },
    "KVCache": {
        "tokens": Believable("tokens", 1, 1_000_000_000, "eight H200 hold fewer of any model"),
        "host_mib": _HOST_CACHE,
    },
    "LLM": {
        "max_batch_size": _BATCH,
        "max_seq_len": _SEQUENCE,
        "max_num_tokens": _CONTEXT,
        "cancellation_check_period_ms": Believable("ms", 1, 10_000, "it bounds GPU time after a client is gone"),
        "max_queue_size": _QUEUE,
        "port": _LISTEN,
    },
    "LoRA": {
        "max_rank": Believable("", 1, 256, "published adapters have 8 to 256"),
        "host_mib": Believable("MiB", 64, 1_048_576, "a cache of adapters"),
        "gpu_mib": Believable("MiB", 64, 65_536, "a cache of adapters on each GPU"),
    },
    "Lookahead": dict.fromkeys(
        ("window", "ngram", "verification"), Believable("tokens", 1, 64, "an upper bound for the values in a request")
    ),
    "Machine": {
        "gpus": Believable("GPUs", 1, 16, "no host of the catalog has more"),
        "memory_mib": Believable("MiB", 1024, 33_554_432, "the largest known host has 32 TiB", unset=(0,)),
        "disk_mib": Believable("MiB", 4096, 1_073_741_824, "an image alone takes 20 GiB", unset=(0,)),
    },
    "Medusa": {"heads": Believable("heads", 1, 16, "published ones have 3 to 5"), "tokens": _DRAFTED},
    "Monitor": {
        "prometheus_port": _LISTEN,
        "alertmanager_port": _LISTEN,
        "retention_days": Believable("days", 4, 3650, "the slowest alert reads three days"),
        "retention_mib": Believable("MiB", 512, 10_000_000, "a day of ten hosts takes some hundred MiB"),
        "scrape_seconds": Believable("seconds", 5, 60, "alerts take a longer gap for a lost host"),
    },
    "Opening": {"port": _PORT},
    "Parallel": {"tensor": _WAYS, "pipeline": _WAYS, "expert": _WAYS, "port": _LISTEN},
    "Price": dict.fromkeys(
        ("prompt", "completion", "cached"),
        Believable("for a million tokens", 0.001, 1_000_000, "no list price is lower", (0,), "for free"),
    ),
    "ReDrafter": {"beams": Believable("beams", 1, 32, "published ones have 4 or 5"), "tokens": _DRAFTED},
    "Release": {
        # 1 and 2: images of rehearsal machines, which are stand-ins.
        "size_mib": Believable("MiB", 100, 262_144, "images of Triton take 8,000 to 20,000", unset=(0, 1, 2)),
    },
    "Replay": {
        "max_tokens": Believable("tokens", 1, 131_072, "of one answer; a replay takes 64"),
        "equal_percent": Believable("percent", 50, 100, "a share of 0.9 is written 90", unset=(0,)),
        "minimum_percent": Believable("percent", 1, 100, "0.95 would be less than one task in a hundred", unset=(0,)),
    },
    "Reranker": _ENCODER,
    "Rollout": {
        "canary_hosts": Believable("hosts", 0, 10_000, "of each pool"),
        "wave_percent": Believable("percent", 1, 100, "of a pool's hosts after its canaries"),
        "max_unavailable": Believable("hosts", 1, 10_000, 'of each pool; a share is a text, "25%"'),
        "may_be_lost": Believable("hosts", 0, 10_000, "of a run"),
        "bake_seconds": Believable("seconds", 0, 86_400, "a gate that waits longer than a day holds up every repair"),
        "slower_percent": Believable("percent", 1, 1000, "of the predecessor's time; 20 is a fifth more", unset=(0,)),
    },
    "Route": {
        "http_port": _PORT,
        "grpc_port": _PORT,
        "hold_seconds": Believable("seconds", 0, 3600, "no client waits longer"),
        "gateway_port": _OPTIONAL_PORT,
    },
    "OwnModel": {"mib": Believable("MiB", 64, 1_048_576, "a context of CUDA alone takes more", (0,), "for the CPU")},
    "Server": {
        "gpus": Believable("", 0, 111, "16 GPUs of 7 MIG instances"),
        "http_port": _LISTEN,
        "grpc_port": _LISTEN,
        "metrics_port": _LISTEN,
        "log_verbose": Believable("", 0, 9, "Triton knows no other"),
        "stop_seconds": Believable("seconds", 10, 3600, "no answer takes longer"),
        "start_seconds": Believable("seconds", 60, 14_400, "the largest models load within an hour"),
        "shm_mib": Believable("MiB", 64, 65_536, "Triton's Python models take less"),
    },
    "Sharing": {"port": _LISTEN, "images_port": Believable("", 1024, 65_535, "of loopback", unset=(0,))},
    "Traffic": {
        "ready_port": _LISTEN,
        "agent_port": _LISTEN,
        "gateways_port": _LISTEN,
        "drain_seconds": Believable("seconds", 1, 3600, "no answer takes longer"),
        "heard_seconds": Believable("seconds", 1, 60, "a balancer that is up answers within seconds"),
    },
}
"""Rows by class and field. The row of a tuple or dictionary applies to each number inside."""
