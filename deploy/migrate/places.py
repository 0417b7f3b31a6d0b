"""Options of `vllm serve` that have a place in an inventory, and the form of their values there."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from deploy.linter.options import Option
from deploy.migrate.weights import is_model
from deploy.spec import Traffic

HASH = re.compile(r"[0-9a-f]{40}")
SHORT = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-q": "--quantization",
    "-ep": "--enable-expert-parallel",
}
LENGTH = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)([kmgKMG]?)")
COUNT = re.compile(r"[1-9][0-9]{0,3}")
PORT = re.compile(r"[0-9]{1,5}")
MOST_GPUS = 1024
SIZES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
"""Factors of size suffixes: vLLM reads `32k` as 32,000 and `32K` as 32,768."""
PRECISIONS = {"half": "float16", "float16": "float16", "bfloat16": "bfloat16"}
QUANTISED = {"fp8": "fp8", "awq": "int4_awq", "awq_marlin": "int4_awq", "gptq": "int4_gptq", "gptq_marlin": "int4_gptq"}
IN_THE_CHECKPOINT = ("mxfp4", "modelopt", "modelopt_fp4", "compressed-tensors", "fbgemm_fp8")
TOOLS = {"hermes": "hermes", "llama3_json": "llama3_json", "mistral": "mistral", "openai": "harmony"}
REASONING = {"qwen3": "qwen3", "deepseek_r1": "deepseek_r1"}


@dataclass
class Settings:
    """Settings collected from the options so far; `model` are arguments of the model, as Python text."""

    model: dict[str, str] = field(default_factory=dict)
    kv_cache: dict[str, str] = field(default_factory=dict)
    parallel: dict[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    repository: str = ""
    revision: str = ""
    gpus: int = 1
    replicas: int = 1
    port: int = 8000
    kind: str = ""
    has_key: bool = False
    quantised: str = ""
    """The value of --quantization, in vLLM's words."""
    adapters: dict[str, str] = field(default_factory=dict)
    max_rank: str = ""
    encoder: dict[str, str] = field(default_factory=dict)
    """Arguments that only embedders and rerankers have, as Python text."""
    host_gpus: int = 0
    """GPUs that the container is given, if their number is written out."""
    devices: tuple[int, ...] = ()
    """GPUs by number, if they are named."""
    hosts: int = 1
    mounts: dict[str, str] = field(default_factory=dict)
    """Directories of the host, by directory of the container."""


Placement = tuple[str, str]
"""The place of an option in the inventory; or "" and the reason why it has no place."""
Place = Callable[[Settings, Option], Placement]


def number(arguments: dict[str, str], name: str, option: Option) -> Placement:
    """Stores the number of an option as the argument `name`; returns its place, or why it is not a number."""
    match = LENGTH.fullmatch(option.value)
    if option.value in ("auto", "-1") and name == "max_seq_len":
        return "", "the longest that fits: enginehouse fit GPU CHECKPOINT says it; then max_seq_len=… of the LLM"
    if not match:
        return "", f"{option.value or 'no value'} is not a number"
    arguments[name] = str(round(float(match[1]) * SIZES[match[2]]))
    return f"{name}={int(arguments[name]):,}", ""


def _model(name: str) -> Place:
    return lambda call, option: number(call.model, name, option)


def _flag(name: str, value: bool) -> Place:
    def place(call: Settings, _option: Option) -> Placement:
        """The model's argument of this name, with a fixed value."""
        call.model[name] = str(value)
        return f"{name}={value}", ""

    return place


def _reuse(value: bool) -> Place:
    def place(call: Settings, _option: Option) -> Placement:
        """The argument of its cache."""
        call.kv_cache["reuse"] = str(value)
        return f"kv_cache=KVCache(reuse={value})", ""

    return place


def _count(name: str) -> Place:
    def place(call: Settings, option: Option) -> Placement:
        """The option's number, as GPUs of a server or as number of servers."""
        if not COUNT.fullmatch(option.value):
            return "", f"{option.value or 'no value'} is not a number of GPUs"
        count = int(option.value)
        ranks = {key: int(call.parallel.get(key, 1)) for key in ("tensor", "pipeline")}
        ranks |= {name: count} if name != "data" else {}
        gpus, replicas = ranks["tensor"] * ranks["pipeline"], count if name == "data" else call.replicas
        if gpus * replicas > MOST_GPUS:
            return "", f"{gpus * replicas:,} GPUs are more than any machine has"
        call.gpus, call.replicas = gpus, replicas
        if name == "data":
            return f"one_per_gpu(Server(…), {count}): a server for each replica", ""
        call.parallel[name] = str(count)
        return f"parallel=Parallel({name}={count}), and as many GPUs of the server", ""

    return place


def _experts(call: Settings, _option: Option) -> Placement:
    call.parallel["expert"] = "tensor"
    return "parallel=Parallel(expert=…), as many as tensor", ""


def _dtype(call: Settings, option: Option) -> Placement:
    if option.value == "auto":
        return 'precision="auto"', ""
    if option.value not in PRECISIONS:
        return "", "LLMs are served in 16 bits or fewer"
    call.model.setdefault("precision", f'"{PRECISIONS[option.value]}"')
    return f'precision="{PRECISIONS[option.value]}"', ""


def _quantised(call: Settings, option: Option) -> Placement:
    call.quantised = option.value
    if option.value in IN_THE_CHECKPOINT:
        return 'precision="auto", the precision of the checkpoint', ""
    if option.value not in QUANTISED:
        return "", "no such precision here; enginehouse fit says which a model has"
    call.model["precision"] = f'"{QUANTISED[option.value]}"'
    return f'precision="{QUANTISED[option.value]}"', ""


def _kv_dtype(call: Settings, option: Option) -> Placement:
    word = {"fp8_e4m3": "fp8"}.get(option.value, option.value)
    if word not in ("auto", "fp8", "bfloat16", "float16"):
        return "", "the cache is held as the model is, or in fp8 (e4m3)"
    call.kv_cache["dtype"] = f'"{word}"'
    return f'kv_cache=KVCache(dtype="{word}")', ""


def _repository(call: Settings, option: Option) -> Placement:
    if not is_model(option.value):
        return "", f"{option.value or 'no value'} names no model"
    call.repository = option.value
    return "weights", ""


def _revision(call: Settings, option: Option) -> Placement:
    if not HASH.fullmatch(option.value):
        return "", f"{option.value or 'no value'} is not a commit: weights are pinned by 40 hexadecimal digits"
    call.revision = option.value
    return "weights=Weights.hub(…, revision)", ""


def _names(call: Settings, option: Option) -> Placement:
    call.names = tuple(value.text for value in option.values)
    return "name" + (f", and Gateway(aliases) for {', '.join(call.names[1:])}" if call.names[1:] else ""), ""


def _tool_parser(call: Settings, option: Option) -> Placement:
    if option.value not in TOOLS:
        return "", f"the gateway reads tool calls as {', '.join(sorted(TOOLS))}"
    call.model["tool_parser"] = f'"{TOOLS[option.value]}"'
    return f'tool_parser="{TOOLS[option.value]}"', ""


def _reasoning_parser(call: Settings, option: Option) -> Placement:
    if option.value in ("openai_gptoss", "gpt_oss"):
        return "gpt-oss: its reasoning is read by itself", ""
    if option.value not in REASONING:
        return "", f"the gateway reads reasoning as {', '.join(sorted(REASONING))}"
    call.model["reasoning_parser"] = f'"{REASONING[option.value]}"'
    return f'reasoning_parser="{REASONING[option.value]}"', ""


def _guided(call: Settings, _option: Option) -> Placement:
    call.model["guided_decoding"] = "True"
    return "guided_decoding=True; the backend is the release's own", ""


def _host(_call: Settings, option: Option) -> Placement:
    if option.value in ("127.0.0.1", "localhost", "::1"):
        return "Gateway(address)", ""
    return "", "a gateway listens on loopback; a Balancer of the inventory, or your own TLS, lets others in"


def _port(call: Settings, option: Option) -> Placement:
    if not PORT.fullmatch(option.value):
        return "", f"{option.value or 'no value'} is not a port"
    call.port = int(option.value)
    return port_place(call.port), ""


OWNERS = {
    **dict.fromkeys((8000, 8001, 8002), "Triton's own"),
    **dict.fromkeys((Traffic.ready_port, Traffic.agent_port), "the traffic service's"),
}
"""Ports of a host that have an owner already."""


def gateway_port(port: int) -> int:
    return 8080 if port in OWNERS or port < 1024 else port


def port_place(port: int) -> str:
    """The place of a port in the inventory, and the clients' port if it differs."""
    own = gateway_port(port)
    if own == port:
        return f"Gateway(ports=({port},))"
    owner = OWNERS.get(port, "a balancer's")
    return f"Gateway(ports=({own},)): {port} is {owner}, so clients ask {own}"


def _key(call: Settings, _option: Option) -> Placement:
    call.has_key = True
    return 'Gateway(keys="file"): make one a client with `enginehouse key new`; the one here stays unsaid', ""


def _task(call: Settings, option: Option) -> Placement:
    kinds = {"embed": "embedder", "embedding": "embedder", "pooling": "embedder", "score": "reranker"}
    kinds |= {"generate": "llm", "auto": "", "classify": "reranker"}
    if option.value not in kinds:
        return "", "LLMs, embedders and rerankers are served here"
    call.kind = kinds[option.value] or call.kind
    return {"embedder": "Embedder(…)", "reranker": "Reranker(…)", "llm": "LLM(…)"}.get(call.kind, "the catalog's"), ""


def _adapters(call: Settings, option: Option) -> Placement:
    pairs = [value.text.partition("=") for value in option.values]
    if not pairs or any(not equals or name.startswith("{") for name, equals, _ in pairs):
        return "", "only NAME=REPOSITORY was read"
    call.adapters |= {name: path for name, _, path in pairs}
    return "lora=LoRA(adapters=…)", ""


def _lora(_call: Settings, _option: Option) -> Placement:
    return "lora=LoRA(…), where adapters are named", ""


def _rank(call: Settings, option: Option) -> Placement:
    if not COUNT.fullmatch(option.value):
        return "", f"{option.value or 'no value'} is not a rank"
    call.max_rank = option.value
    return f"lora=LoRA(max_rank={option.value})", ""


def _speculation(_call: Settings, _option: Option) -> Placement:
    return "", "speculative=Draft(…), Eagle(…) or Lookahead(…) want weights that were trained for TensorRT-LLM's kind"


PLACES: Mapping[str, Place] = {
    "--model": _repository,
    "--revision": _revision,
    "--served-model-name": _names,
    "--max-model-len": _model("max_seq_len"),
    "--max-num-seqs": _model("max_batch_size"),
    "--max-num-batched-tokens": _model("max_num_tokens"),
    "--enable-chunked-prefill": _flag("chunked_prefill", True),
    "--no-enable-chunked-prefill": _flag("chunked_prefill", False),
    "--enable-prefix-caching": _reuse(True),
    "--no-enable-prefix-caching": _reuse(False),
    "--tensor-parallel-size": _count("tensor"),
    "--pipeline-parallel-size": _count("pipeline"),
    "--data-parallel-size": _count("data"),
    "--enable-expert-parallel": _experts,
    "--dtype": _dtype,
    "--quantization": _quantised,
    "--kv-cache-dtype": _kv_dtype,
    "--tool-call-parser": _tool_parser,
    "--enable-auto-tool-choice": lambda _call, _option: ("tool_parser: a request then chooses by itself", ""),
    "--reasoning-parser": _reasoning_parser,
    "--enable-reasoning": lambda _call, _option: ("reasoning_parser", ""),
    "--structured-outputs-config": _guided,
    "--guided-decoding-backend": _guided,
    "--host": _host,
    "--port": _port,
    "--api-key": _key,
    "--task": _task,
    "--runner": _task,
    "--enable-lora": _lora,
    "--lora-modules": _adapters,
    "--max-lora-rank": _rank,
    "--speculative-config": _speculation,
    "--speculative-model": _speculation,
}
