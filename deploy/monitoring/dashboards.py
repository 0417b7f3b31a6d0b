"""Four dashboards: the fleet, a host, a model, and the cost of tokens. Rules and dashboards read the same names."""

from deploy.monitoring.levels import BROKEN, FIRST, GAP, LEVELS, QUEUE, REQUESTS, WHOLE, ratio
from deploy.monitoring.panels import Dashboard, Panel, Unit, Variable

PER = "[$__rate_interval]"
TOKENS = "enginehouse_gateway_tokens_total"
MODEL = 'model=~"$model"'
HOST = 'instance=~"$instance"'
SERVERS = 'instance=~"($instance)/.+"'


def quantile(share: float, histogram: str, matching: str = "") -> str:
    return f"histogram_quantile({share}, sum by (model, le) (rate({histogram}_bucket{{{matching}}}{PER})))"


def per_request(stage: str) -> str:
    """Triton's mean time of a stage per request."""
    spent = f"sum by (model) (rate(nv_inference_{stage}_duration_us{{{MODEL}}}{PER}))"
    return f"{spent} / sum by (model) (rate(nv_inference_request_success{{{MODEL}}}{PER}))"


ANSWERED = f'sum(rate({TOKENS}{{kind=~"prompt|completion"}}{PER}))'
"""Tokens a second in and out; prompt tokens include cached tokens."""


def query(title: str, unit: Unit, expression: str, legend: str, text: str = "") -> Panel:
    return Panel(title, unit, ((expression, legend),), text=text)


def quantiles(metric: str) -> tuple[tuple[str, str], ...]:
    """Queries of the median and of the 95th and 99th percentile, by model."""
    return tuple((quantile(share, metric, MODEL), f"{{{{model}}}} p{share * 100:g}") for share in (0.5, 0.95, 0.99))


FLEET = Dashboard(
    "enginehouse-fleet",
    "enginehouse: fleet",
    (),
    (
        query("Alerts that fire", "short", 'count by (alertname) (ALERTS{alertstate="firing"})', "{{alertname}}"),
        query("Targets that do not answer", "short", "count by (job) (up == 0)", "{{job}}"),
        query("Requests by status", "reqps", f"sum by (status) (rate({REQUESTS}{PER}))", "{{status}}"),
        Panel(
            "Bad requests in six hours",
            "percentunit",
            tuple((ratio(level, "6h"), f"{level.name} {{{{model}}}}") for level in LEVELS),
            text="The share that the alerts on service levels read.",
        ),
        query("First token, 95 of 100", "s", quantile(0.95, FIRST), "{{model}}"),
        query("Tokens a second", "short", f"sum by (model, kind) (rate({TOKENS}{PER}))", "{{model}} {{kind}}"),
        query("Requests under way", "short", "sum by (endpoint) (enginehouse_gateway_running)", "{{endpoint}}"),
        query("Servers that take requests", "short", "haproxy_backend_active_servers", "{{instance}} {{proxy}}"),
    ),
)

# fmt: off
HOSTS = Dashboard(
    "enginehouse-host",
    "enginehouse: host",
    (Variable("instance", "Host", "node_uname_info"),),
    (
        query("GPU at work", "percentunit", f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{HOST}}}", "{{instance}} {{gpu}}"),
        query(
            "Tensor cores at work", "percentunit", f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{HOST}}}", "{{instance}} {{gpu}}"
        ),
        query("GPU memory used", "decmbytes", f"DCGM_FI_DEV_FB_USED{{{HOST}}}", "{{instance}} {{gpu}}"),
        query("GPU memory used, as Triton says", "bytes", f"nv_gpu_memory_used_bytes{{{SERVERS}}}",
              "{{instance}} {{gpu_uuid}}", text="Of hosts without dcgm-exporter."),
        query("Power", "watt", f"DCGM_FI_DEV_POWER_USAGE{{{HOST}}}", "{{instance}} {{gpu}}"),
        query("GPU temperature", "celsius", f"DCGM_FI_DEV_GPU_TEMP{{{HOST}}}", "{{instance}} {{gpu}}"),
        query("What slows the GPU", "short", f"DCGM_EXP_CLOCK_EVENTS_COUNT{{{HOST}}} > 0",
              "{{instance}} {{gpu}} {{clock_event}}"),
        query("Xids since boot", "short", f"enginehouse_gpu_xids{{{HOST}}}", "{{instance}} {{pci}} Xid {{xid}}"),
        query("Processor at work", "percentunit",
              f'1 - avg by (instance) (rate(node_cpu_seconds_total{{{HOST},mode="idle"}}{PER}))', "{{instance}}"),
        query("Memory left", "bytes", f"node_memory_MemAvailable_bytes{{{HOST}}}", "{{instance}}"),
        query("Disk left", "bytes", f"node_filesystem_avail_bytes{{{HOST}}}", "{{instance}} {{mountpoint}}"),
        query("The watchdog's question was answered in", "s", f"enginehouse_watch_answer_seconds{{{HOST}}}",
              "{{instance}} {{server}} {{model}}"),
    ),
)

MODELS = Dashboard(
    "enginehouse-model",
    "enginehouse: model",
    (Variable("model", "Model", REQUESTS),),
    (
        Panel("First token", "s", quantiles(FIRST)),
        Panel("Between two tokens of a stream", "s", quantiles(GAP)),
        query("Waiting for a server that is ready", "s", quantile(0.99, QUEUE, MODEL), "{{model}} p99",
              text="While a model's only server is in its swap, the gateway holds requests."),
        query("Streams that broke", "reqps", f"sum by (model, reason) (rate({BROKEN}{{{MODEL}}}{PER})) > 0",
              "{{model}} {{reason}}"),
        Panel("Whole request", "s", quantiles(WHOLE)),
        query("Requests by status", "reqps", f"sum by (model, status) (rate({REQUESTS}{{{MODEL}}}{PER}))",
              "{{model}} {{status}}"),
        query(
            "Tokens a second", "short", f"sum by (model, kind) (rate({TOKENS}{{{MODEL}}}{PER}))", "{{model}} {{kind}}"
        ),
        query("Prompt tokens found in the cache", "percentunit",
              f'sum by (model) (rate({TOKENS}{{{MODEL},kind="cached"}}{PER}))'
              f' / sum by (model) (rate({TOKENS}{{{MODEL},kind="prompt"}}{PER}))', "{{model}}"),
        query("Requests the LLM works on", "short", f"enginehouse_llm_running_requests{{{MODEL}}}",
              "{{instance}} {{model}}"),
        query("Encoders: tokens that wait", "short", f"enginehouse_encoder_queued_tokens{{{MODEL}}}",
              "{{instance}} {{model}}"),
        query("Encoders: how full passes are", "percentunit", f"enginehouse_encoder_pass_fill{{{MODEL}}}",
              "{{instance}} {{model}}"),
        Panel(
            "Triton: mean time of a request",
            "µs",
            ((per_request("queue"), "{{model}} in the queue"), (per_request("compute_infer"), "{{model}} computing")),
            text="An LLM's slot hands requests on at once: its own times are those of the gateway.",
        ),
        query("Triton: requests that failed", "reqps",
              f"sum by (model, reason) (rate(nv_inference_request_failure{{{MODEL}}}{PER}))", "{{model}} {{reason}}"),
        Panel(
            "Key/value cache in use",
            "percentunit",
            (
                (
                    f'nv_trt_llm_kv_cache_block_metrics{{{MODEL},kv_cache_block_type="fraction"}}',
                    "{{instance}} {{model}}",
                ),
                (f"enginehouse_llm_cache_share{{{MODEL}}}", "{{instance}} {{model}}"),
            ),
            text="Engines tell it. On the PyTorch backend requests' tokens are counted, a shared prefix for each.",
        ),
    ),
)

COST = Dashboard(
    "enginehouse-cost",
    "enginehouse: cost",
    (Variable("per_hour", "What the fleet costs an hour, in $", default="0"),),
    (
        query("$ for a million tokens, in and out", "currencyUSD", f"$per_hour / 3600 / {ANSWERED} * 1e6",
              "at this hour's load",
              text="Idle hours cost too: read it over days. No price is built in; type yours above."),
        query("$ for a million tokens out", "currencyUSD",
              f'$per_hour / 3600 / sum(rate({TOKENS}{{kind="completion"}}{PER})) * 1e6', "at this hour's load",
              text="The whole fleet's cost over answers alone."),
        query("Tokens a second", "short", f"sum by (kind) (rate({TOKENS}{PER}))", "{{kind}}"),
        Panel(
            "GPUs at work",
            "percentunit",
            (
                ("avg(DCGM_FI_PROF_GR_ENGINE_ACTIVE)", "engine"),
                ("avg(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE)", "tensor cores"),
            ),
        ),
        query("Power of all GPUs", "watt", "sum(DCGM_FI_DEV_POWER_USAGE)", "watts"),
        query("Energy for a token", "joule", f"sum(DCGM_FI_DEV_POWER_USAGE) / {ANSWERED}", "joules"),
        query(
            "Encoders: share of a second in passes",
            "percentunit",
            f"sum by (model) (rate(enginehouse_encoder_pass_seconds_total{PER}))",
            "{{model}}",
            text="Seconds of a GPU for each second, all servers together: what encoders take; the rest is the LLM's.",
        ),
        query("Documents a second", "short", f"sum by (model) (rate(enginehouse_encoder_documents_total{PER}))",
              "{{model}}"),
    ),
)
# fmt: on

DASHBOARDS = (FLEET, HOSTS, MODELS, COST)
