"""Words of other programs, and of other objects here, for settings of an inventory, with their replacements.

Options of vLLM, SGLang, TGI, TEI, trtllm-serve and Triton as their documentation names them, read 2026-11-27.
"""

from collections.abc import Mapping

_SPLIT = "parallel=Parallel(tensor=2), and as many GPUs in gpus of the Server"
_CONTEXT = "max_seq_len=8192, prompt and answer together"
_CACHE = "leave it out: the cache takes what is left of the card; a bound is kv_cache=KVCache(tokens=…)"
_PRECISION = 'precision="bfloat16", or leave it out: auto is the precision of the checkpoint'
_KEYS = "leave it out: the gateway asks for keys of enginehouse key new NAME"
_LLM = {
    **dict.fromkeys(("tp", "tp_size", "tensor_parallel", "tensor_parallel_size", "num_shard"), _SPLIT),
    **dict.fromkeys(("pp", "pp_size", "pipeline_parallel_size"), "parallel=Parallel(pipeline=2)"),
    **dict.fromkeys(("ep", "ep_size", "enable_expert_parallel"), "parallel=Parallel(expert=2)"),
    **dict.fromkeys(
        ("max_model_len", "max_context", "context_length", "max_total_tokens", "n_ctx", "context"), _CONTEXT
    ),
    **dict.fromkeys(
        ("max_num_batched_tokens", "chunked_prefill_size", "max_batch_prefill_tokens"), "max_num_tokens=8192"
    ),
    **dict.fromkeys(("max_num_seqs", "max_running_requests", "max_concurrent_requests"), "max_batch_size=32"),
    **dict.fromkeys(
        ("gpu_memory_utilization", "mem_fraction_static", "free_gpu_memory_fraction", "kv_cache_free_gpu_mem_fraction"),
        _CACHE,
    ),
    **dict.fromkeys(("dtype", "torch_dtype", "data_type"), _PRECISION),
    **dict.fromkeys(
        ("quantization", "quantisation", "quantize", "qformat"), 'precision="fp8", if the checkpoint is so'
    ),
    **dict.fromkeys(("kv_cache_dtype", "kv_dtype", "cache_dtype"), 'kv_cache=KVCache(dtype="fp8")'),
    **dict.fromkeys(("enable_prefix_caching", "prefix_caching", "enable_block_reuse"), "kv_cache=KVCache(reuse=True)"),
    **dict.fromkeys(("enable_chunked_prefill", "enable_chunked_context"), "chunked_prefill=True"),
    **dict.fromkeys(("swap_space", "cpu_offload_gb", "host_cache_size"), "kv_cache=KVCache(host_mib=16_384)"),
    **dict.fromkeys(("tool_call_parser", "enable_auto_tool_choice"), 'tool_parser="hermes", in the same names'),
    **dict.fromkeys(("served_model_name", "model_name"), 'name="…", which clients ask for'),
    **dict.fromkeys(("model", "model_id", "model_path", "hf_model", "repo", "repository"), 'LLM("OWNER/NAME")'),
    **dict.fromkeys(("tokenizer", "tokenizer_path"), "leave it out: the tokenizer is of the weights' repository"),
    **dict.fromkeys(("backend", "engine_backend"), 'path="pytorch" or path="engine"; runtime="vllm" for vLLM'),
    **dict.fromkeys(("api_key", "token", "hf_token"), '"hub": Hub(token=Secret.env("HF_TOKEN")), in the host\'s data'),
    **dict.fromkeys(("seed", "temperature", "top_p", "top_k"), "leave it out: each request says its own"),
    **dict.fromkeys(("enable_lora", "lora_modules", "max_loras"), "lora=LoRA(adapters=(Adapter(…),))"),
    **dict.fromkeys(("speculative_config", "speculative_model", "num_speculative_tokens"), "speculative=Draft(…)"),
    **dict.fromkeys(("streaming", "stream"), "decoupled=True, the default: requests say whether they stream"),
    **dict.fromkeys(("gpus", "gpu", "num_gpus", "devices"), "gpus=(0,) of the Server around it"),
    **dict.fromkeys(
        ("replicas", "instances", "instance_count", "data_parallel_size", "dp"), "one_per_gpu(Server(…), 8)"
    ),
}
_ENCODER = {
    **{
        word: _LLM[word]
        for word in ("model", "model_id", "repo", "repository", "tokenizer", "served_model_name", "gpus")
    },
    **dict.fromkeys(("max_seq_len", "max_seq_length", "max_length", "max_model_len", "truncate"), "max_tokens=512"),
    **dict.fromkeys(("precision", "torch_dtype", "quantization"), 'dtype="float16"; in 8 bits products="fp8"'),
    **dict.fromkeys(("max_client_batch_size", "max_texts"), "max_items=1024, texts of one request"),
    **dict.fromkeys(("max_batch_tokens_per_pass", "batch_size", "max_num_batched_tokens"), "max_batch_tokens=16_384"),
    **dict.fromkeys(("prompt", "instruction", "query_instruction", "prompts"), 'prefixes={"search_query": "query: "}'),
    **dict.fromkeys(("dimensions", "dim", "output_dim"), "leave it out: each request may say its own dimensions"),
    **dict.fromkeys(("pooling", "normalize"), "leave it out: the repository's own files say it"),
}
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "LLM": _LLM,
    "Embedder": _ENCODER,
    "Reranker": _ENCODER,
    "Encoder": _ENCODER,
    "KVCache": {
        **dict.fromkeys(("fraction", "free_gpu_memory_fraction", "gpu_memory_utilization", "percent"), _CACHE),
        **dict.fromkeys(("gib", "mib", "size_mib", "max_tokens"), "tokens=…; the plan prints MiB for them"),
        **dict.fromkeys(("precision", "quantization"), 'dtype="fp8"'),
        **dict.fromkeys(("offload", "cpu_gib", "host_gib"), "host_mib=16_384"),
    },
    "Machine": {
        **dict.fromkeys(("gpu_count", "num_gpus", "gpus_count", "n_gpus", "count"), "gpus=8"),
        **dict.fromkeys(("gpu_type", "gpu_model", "card", "accelerator"), 'gpu="h100-80"'),
        **dict.fromkeys(("ram", "ram_mib", "ram_gib", "memory", "memory_gib", "memory_gb"), "memory_mib=524_288"),
        **dict.fromkeys(("disk", "disk_gib", "disk_gb", "storage"), "disk_mib=2_097_152"),
        **dict.fromkeys(("cloud", "provider"), 'notices="aws", if it takes hosts back; else leave it out'),
        **dict.fromkeys(("cpus", "cores", "vcpus", "cpu", "region", "zone", "instance_type"), "leave it out"),
        **dict.fromkeys(("image", "distro", "os_version", "operating_system"), 'os="ubuntu-24.04"'),
        **dict.fromkeys(("kernel", "kernel_version"), 'kernel_flavour="generic"'),
        **dict.fromkeys(("address", "ip", "hostname", "host"), '("h100-01", {"ssh_hostname": "203.0.113.7"})'),
        **dict.fromkeys(("driver", "cuda"), '"driver": Driver(branch="580"), beside the machine'),
    },
    "Server": {
        **dict.fromkeys(("port", "listen"), "http_port=8000, grpc_port=8001, metrics_port=8002"),
        **dict.fromkeys(("host", "bind", "ip"), 'address="127.0.0.1"'),
        **dict.fromkeys(("model", "llm"), 'models=(LLM("OWNER/NAME"),)'),
        **dict.fromkeys(("gpu", "devices", "cuda_visible_devices", "gpu_ids"), "gpus=(0,)"),
        **dict.fromkeys(("shm_size", "shm", "shm_gib"), "shm_mib=2048"),
        **dict.fromkeys(("timeout", "load_timeout"), "start_seconds=1800"),
        **dict.fromkeys(("release", "version"), '"release": "26.07", beside the servers'),
        **dict.fromkeys(("image",), '"release": Release(…), beside the servers'),
        **dict.fromkeys(("api_key", "keys"), _KEYS),
        **dict.fromkeys(("replicas", "instances"), "one_per_gpu(Server(…), 8)"),
    },
    "Gateway": {
        **dict.fromkeys(("port", "http_port"), "ports=(8080,)"),
        **dict.fromkeys(("api_key", "api_keys", "tokens"), _KEYS),
        **dict.fromkeys(
            ("tls", "ssl", "certificate", "cert"), 'https=Https(certificate="keys/llm.pem", certificate_key=…)'
        ),
        **dict.fromkeys(("host", "bind", "listen"), 'address="127.0.0.1", the default'),
        **dict.fromkeys(("cors", "allow_origins", "allowed_origins"), 'cors_origins=("https://app.example.com",)'),
        **dict.fromkeys(("rate_limit", "rpm", "tpm"), "limits of a key: enginehouse key new NAME --help"),
        **dict.fromkeys(("workers", "processes"), "ports=(8080, 8081): a process for each"),
        **dict.fromkeys(("timeout", "request_timeout"), "limits=GatewayLimits(request_seconds=600)"),
        **dict.fromkeys(("default_model",), 'aliases={"gpt-4o": "NAME"}'),
    },
    "Proxy": {
        **dict.fromkeys(("no_proxy", "noproxy", "bypass", "exclude", "exceptions"), 'direct=(".corp.example",)'),
        **dict.fromkeys(("user", "login", "auth"), 'username="…", password=Secret.env("PROXY_PASSWORD")'),
        **dict.fromkeys(
            ("http", "https", "http_proxy", "https_proxy", "host", "address", "server"), 'url="http://HOST:3128"'
        ),
        **dict.fromkeys(("port",), 'url="http://HOST:PORT"'),
    },
    "Hub": {
        **dict.fromkeys(("url", "mirror", "base_url", "host"), 'endpoint="https://huggingface.co"'),
        **dict.fromkeys(("hf_token", "api_key", "key"), 'token=Secret.env("HF_TOKEN")'),
        **dict.fromkeys(("ca", "cafile", "verify"), 'ca_file="keys/hub-ca.pem"'),
    },
    "Registry": {
        **dict.fromkeys(("password", "token", "api_key"), 'key=Secret.env("NGC_API_KEY")'),
        **dict.fromkeys(("user", "login"), 'username="…"'),
        **dict.fromkeys(
            ("url", "host", "server", "mirror"), 'the image\'s own name: Release(name="…", image="HOST/…")'
        ),
    },
    "Firewall": {
        **dict.fromkeys(("sources", "allowed", "allow_from", "networks", "cidrs", "clients"), 'allow=("10.0.0.0/8",)'),
        **dict.fromkeys(("ports", "open_ports", "allow_ports"), "open=(Opening(port=9100, sources=(…,)),)"),
        **dict.fromkeys(("default", "policy", "deny"), 'rest="closed"'),
        **dict.fromkeys(("admin", "ssh_from", "allow_ssh"), 'ssh=("10.0.0.0/8",)'),
    },
    "Rollout": {
        **dict.fromkeys(("canary", "canaries"), "canary_hosts=1"),
        **dict.fromkeys(("batch_size", "max_surge", "parallel", "serial", "wave_size"), "wave_percent=25"),
        **dict.fromkeys(("wait", "pause", "soak_seconds", "interval"), "bake_seconds=300"),
        **dict.fromkeys(("rollback", "auto_rollback", "on_error"), 'on_failure="wave"'),
        **dict.fromkeys(("max_failures", "max_failed"), "may_be_lost=1"),
    },
    "Https": {
        **dict.fromkeys(("domain", "domains", "names", "host", "hostname"), 'acme=Acme(names=("llm.example.com",))'),
        **dict.fromkeys(("cert", "cert_file", "pem", "certfile"), 'certificate="keys/llm.pem"'),
        **dict.fromkeys(
            ("key", "key_file", "keyfile", "private_key"), 'certificate_key=Secret.command("cat", "keys/llm.key")'
        ),
        **dict.fromkeys(
            ("letsencrypt", "email", "auto"), 'acme=Acme(names=("llm.example.com",), email="ops@example.com")'
        ),
    },
    "Docker": {
        **dict.fromkeys(("root", "data_dir", "graph"), 'data_root="/var/lib/enginehouse/docker"'),
        **dict.fromkeys(("registry_mirrors", "insecure_registries", "dns", "mtu"), 'daemon={"NAME-WITH-DASHES": …}'),
        **dict.fromkeys(("version", "channel"), "leave it out: the newest of the repository"),
        **dict.fromkeys(("runtime", "default_runtime"), "leave it out: containers get their GPUs by CDI"),
    },
    "Driver": {
        **dict.fromkeys(("name", "series", "major"), 'branch="580"'),
        **dict.fromkeys(("install", "enabled", "skip"), "manage=False, for a driver that stays as it is"),
        **dict.fromkeys(("open", "open_modules", "kernel_module_type"), "leave it out: open modules are installed"),
    },
}
"""The text to write instead, by class and unknown setting."""

CLASSES = {
    **dict.fromkeys(("Gpu", "Card"), 'Machine(os="ubuntu-24.04", gpu="h100-80", gpus=1)'),
    **dict.fromkeys(("Model", "ChatModel", "VLLM", "Vllm", "TensorRTLLM", "TRTLLM"), 'LLM("OWNER/NAME")'),
    **dict.fromkeys(("Embedding", "EmbeddingModel", "TextEmbedding"), 'Embedder("OWNER/NAME")'),
    **dict.fromkeys(("Rerank", "RerankModel", "CrossEncoder"), 'Reranker("OWNER/NAME")'),
    **dict.fromkeys(("Triton", "TritonServer", "Service"), 'Server(name="main", models=(…,))'),
    **dict.fromkeys(("TLS", "Tls", "SSL", "Certificate"), 'Https(certificate="keys/llm.pem", certificate_key=…)'),
    **dict.fromkeys(("HAProxy", "LoadBalancer", "Edge"), "Balancer(os=…, address=…, routes=(Route(…),))"),
    **dict.fromkeys(("Prometheus", "Monitoring", "Grafana"), 'Monitor(os="debian-12", address="10.0.0.9")'),
    **dict.fromkeys(("Env", "EnvSecret", "Vault"), 'Secret.env("NAME")'),
    **dict.fromkeys(("Mirror", "Repository", "AptRepository"), "AptMirror(url=…, key_file=…)"),
    **dict.fromkeys(("Limits", "RateLimit"), "GatewayLimits(request_seconds=600)"),
    **dict.fromkeys(("Inventory", "Fleet", "Hosts"), 'h100 = (["h100-01"], {"machine": Machine(…), "servers": (…,)})'),
}
"""The text to write instead, by the name of an unknown class."""


def setting_meant(word: str, owner: str) -> str:
    return SETTINGS.get(owner, {}).get(word.lower(), "")


NEEDLESS_OPTIONS = (
    "dry",
    "dry-run",
    "n",
    "check",
    "diff",
    "v",
    "vv",
    "vvv",
    "verbose",
    "q",
    "quiet",
    "debug",
    "y",
    "yes",
    "f",
    "force",
    "fix",
    "repair",
    "apply",
)
"""Options of other programs that have no counterpart here, because no verb asks for confirmation or changes a host."""
OPTIONS_MEANT = {
    **dict.fromkeys(("host", "hosts", "l", "limits", "target", "targets", "node"), ("limit", "host")),
    **dict.fromkeys(
        ("output", "out", "o", "file", "dest", "destination", "dir"), ("to", "o", "into", "file", "folder")
    ),
    **dict.fromkeys(("format", "output-format"), ("json",)),
    **dict.fromkeys(("i", "inventory", "inv", "c", "config"), ("inventory",)),
    **dict.fromkeys(("m", "model", "models", "name", "model-name"), ("models", "model", "tenant")),
    **dict.fromkeys(("g", "gpu", "gpus", "card", "cards"), ("gpu", "gpus")),
    **dict.fromkeys(("d", "e", "set", "extra-vars", "var", "vars", "override"), ("data",)),
    **dict.fromkeys(("tensor-parallel-size", "tensor-parallel", "tp-size", "gpus"), ("tp",)),
    **dict.fromkeys(("expert-parallel-size", "ep-size"), ("ep",)),
    **dict.fromkeys(("max-model-len", "context-length", "max-len", "context", "ctx-size"), ("max-seq-len",)),
    **dict.fromkeys(("kv-cache-dtype", "kv-cache"), ("cache",)),
    **dict.fromkeys(("dtype", "quantization", "quantisation"), ("precision",)),
    **dict.fromkeys(("price", "price-per-hour", "hourly", "dollars"), ("per-hour",)),
    **dict.fromkeys(("from", "start", "date", "days", "last"), ("since", "window")),
    **dict.fromkeys(("concurrency", "users", "parallel"), ("clients", "users", "concurrent")),
    **dict.fromkeys(("token", "api-key"), ("key-file",)),
    **dict.fromkeys(("interval", "watch", "n", "w", "refresh"), ("every", "namespace")),
    **dict.fromkeys(("isl", "input-len", "input-tokens", "prompt-tokens", "random-input-len"), ("prompt",)),
    **dict.fromkeys(("osl", "output-len", "output-tokens", "max-tokens", "random-output-len"), ("answer",)),
    **dict.fromkeys(("request-rate", "qps", "rps"), ("rate",)),
    **dict.fromkeys(("duration", "time", "t"), ("seconds",)),
    **dict.fromkeys(("ttl", "expiry", "valid", "lifetime"), ("expires",)),
    **dict.fromkeys(("rpm", "rate-limit"), ("requests-per-minute",)),
    **dict.fromkeys(("tpm",), ("tokens-per-minute",)),
    **dict.fromkeys(("tpd",), ("tokens-per-day",)),
    **dict.fromkeys(("budget", "max-budget"), ("cost-per-month",)),
    **dict.fromkeys(("text", "question", "message", "query"), ("texts",)),
    "prompt": ("texts",),
    "month": ("since",),
    **dict.fromkeys(("sla", "ttft", "latency", "time-to-first-token"), ("first-token",)),
    **dict.fromkeys(("team", "user", "customer", "client", "for"), ("tenant",)),
}
"""Words of other programs for an option or an argument, and ours, the likeliest first."""
_NO_PASSWORD = "pyinfra asks for no password: use an agent (ssh-add), and NOPASSWD in /etc/sudoers.d for sudo."
_NO_SHARE = "The cache takes what the models leave of the card."
OPTIONS_WITHOUT = {
    **dict.fromkeys(("ask-become-pass", "ask-pass", "k", "password", "ask-vault-pass", "become", "b"), _NO_PASSWORD),
    **dict.fromkeys(("gpu-memory-utilization", "mem-fraction-static", "kv-cache-free-gpu-mem-fraction"), _NO_SHARE),
    **dict.fromkeys(("tags", "skip-tags"), "A run has no tags; --data only=gateway is its only part."),
    **dict.fromkeys(("num-prompts", "num-requests", "requests", "request-count"), "A run lasts for --seconds."),
    **dict.fromkeys(("out",), "A plan is no file: --json prints it, and --data expect=DIGEST keeps to it."),
    **dict.fromkeys(("users", "concurrency"), "Users are counted by enginehouse size."),
    **dict.fromkeys(("qps", "rps", "request-rate"), "The rate follows from --users, --at-once and --every."),
    **dict.fromkeys(("i", "identity-file", "key", "ssh-key"), "ssh takes its key from ~/.ssh/config or an agent."),
    **dict.fromkeys(
        ("max-tokens", "temperature", "top-p", "seed", "system", "stream"), "The question has a fixed form."
    ),
    **dict.fromkeys(("tenant", "team", "customer"), "Every tenant is listed."),
    **dict.fromkeys(
        ("grafana", "prometheus", "dashboards", "alerts", "rules"), "Rules and dashboards are both written."
    ),
    **dict.fromkeys(("port", "listen", "bind", "address"), "No port is opened here."),
    **dict.fromkeys(("color", "colour", "no-color", "no-colour"), "Colours are for a terminal alone."),
    **dict.fromkeys(
        ("partition", "account", "qos", "nodes", "constraint"), "sbatch takes it, before the file of a job."
    ),
    **dict.fromkeys(
        ("batch", "batch-size", "max-batch-size", "max-num-seqs"), "The cache decides how many run at once."
    ),
    **dict.fromkeys(("canary", "weight", "percent"), "Rollout(canary_hosts=1) of the inventory has its canaries."),
    **dict.fromkeys(("all",), "All are taken without an option; a key is revoked by its own prefix."),
    **dict.fromkeys(("var-file", "values", "values-file", "env-file"), "--data takes KEY=VALUE, once for each."),
    **dict.fromkeys(("per-month", "monthly"), "--per-hour takes dollars for a GPU and hour; a month has 730 hours."),
    **dict.fromkeys(("currency",), "Prices of GPUs are dollars."),
    **dict.fromkeys(("since", "until"), "This verb shows the present state; enginehouse usage has --since."),
    **dict.fromkeys(("gpu", "gpus"), "The GPUs are those that the hosts have."),
    **dict.fromkeys(
        ("from-ansible", "ansible", "from-terraform", "terraform"),
        "inventories/from_ansible.py and inventories/from_terraform.py read the hosts of either.",
    ),
}
"""Remarks on options of other programs that have no counterpart here and are left out."""
COMMANDS = {
    **dict.fromkeys(("delete", "remove", "rm", "del", "disable"), ("revoke",)),
    **dict.fromkeys(("create", "add", "make", "generate", "issue", "rotate", "renew"), ("new",)),
    **dict.fromkeys(("ls", "show", "get", "all", "export", "print", "dump"), ("list",)),
    **dict.fromkeys(("budget", "budgets", "limit", "limits", "set", "update"), ("tenant",)),
    **dict.fromkeys(("k8s", "helm", "kube", "kubectl", "manifests", "yaml"), ("kubernetes",)),
    **dict.fromkeys(("cloudinit", "user-data", "userdata"), ("cloud-init",)),
    **dict.fromkeys(("sbatch", "jobs"), ("slurm",)),
    "diff": ("compare",),
}
"""Words of other programs for a command of a group, and ours."""
