"""LLMs whose settings only vLLM supports: `runtime="vllm"`, and places of options as vLLM has them.

Triton's TensorRT-LLM cannot read some formats of weights, and does not quantise while loading.
"""

from dataclasses import replace

from deploy.catalog import ARCHITECTURES, RELEASES
from deploy.catalog.checkpoint_rows import KnownCheckpoint
from deploy.catalog.formats import FORMATS
from deploy.catalog.runtimes import VLLM, VLLM_ARCHITECTURES, rows_of
from deploy.migrate.findings import Finding
from deploy.migrate.places import Settings
from deploy.migrate.weights import Source
from deploy.models.formats import format_by_name
from deploy.models.paths import choose_path
from deploy.spec import LLM

OF_WORDS = {
    **dict.fromkeys(("awq", "awq_marlin"), "awq"),
    **dict.fromkeys(("gptq", "gptq_marlin"), "gptq"),
    "compressed-tensors": "compressed-tensor",
}
"""Values of --quantization that name a format which no release's PyTorch backend reads."""
STARTED_WITH = {
    "--load-format auto": "--load-format safetensors",
    "--load-format safetensors": "--load-format safetensors",
    "--generation-config vllm": "--generation-config vllm",
    "--enable-prompt-tokens-details": "--enable-prompt-tokens-details",
    "--disable-log-requests": "--no-enable-log-requests",
    "--no-enable-log-requests": "--no-enable-log-requests",
    "--disable-uvicorn-access-log": "--disable-uvicorn-access-log",
    "--disable-fastapi-docs": "--disable-fastapi-docs",
}
"""Options, and words of the same meaning, with which every vLLM of an inventory starts."""
OF_ADAPTERS = ("--max-loras", "--max-cpu-loras")


def reason_for_vllm(source: Source, known: KnownCheckpoint | None, call: Settings, release: str) -> str:
    """The reason why vLLM serves this LLM and Triton does not; empty if Triton does, or neither can."""
    architecture = ARCHITECTURES[known.shape.architecture] if known else None
    if architecture and architecture.name not in VLLM_ARCHITECTURES:
        return ""
    trtllm = RELEASES[release].trtllm
    whose = f"TensorRT-LLM {trtllm} of release {release}"
    row = FORMATS.get(_format(source, known, call))
    if row:
        title = call.quantised if call.quantised == "compressed-tensors" else row.title
        return f"{whose} does not read {title}" if row.vllm and not row.is_read(trtllm) else ""
    if architecture and not choose_path("auto", architecture, trtllm).path:
        return f"{whose} has no {architecture.name}"
    if call.quantised == "fp8" and _is_plain(source, known):
        return f"{whose} makes no FP8 of 16-bit weights while it loads them"
    return ""


def _format(source: Source, known: KnownCheckpoint | None, call: Settings) -> str:
    """The format's name in catalog.FORMATS, from the catalog, the repository's name, or --quantization; "" for none."""
    if known:
        return known.shape.format
    name = (source.repository or source.directory).rstrip("/")
    return format_by_name(name) or OF_WORDS.get(call.quantised, "")


def _is_plain(source: Source, known: KnownCheckpoint | None) -> bool:
    return not known.shape.quantisation if known else "fp8" not in f"{source.repository} {source.directory}".lower()


def serve_with_vllm(
    findings: list[Finding], source: Source, known: KnownCheckpoint | None, call: Settings
) -> list[Finding]:
    """The findings for a model that vLLM serves; adds the program to `call`, and removes settings that vLLM lacks."""
    if _format(source, known, call) in FORMATS:
        call.model.pop("precision", None)
    call.parallel.pop("expert", None)
    if call.kv_cache.get("dtype") in ('"bfloat16"', '"float16"'):
        call.kv_cache.pop("dtype")
    call.model = {"runtime": f'"{VLLM}"', "image": f'"{rows_of(VLLM)[0].image}"', **call.model}
    if call.replicas == 1 and call.port == LLM.port:
        call.model["port"] = str(LLM.port + 1)
    return [_of_vllm(finding, call) for finding in findings]


def _of_vllm(finding: Finding, call: Settings) -> Finding:
    option = finding.words.split()[0] if finding.words else ""
    if finding.words in STARTED_WITH:
        return Finding(finding.words, place=f"vLLM is started with {STARTED_WITH[finding.words]}")
    if finding.place.startswith("release=…"):
        return Finding(
            finding.words, place=f"image={call.model['image']}: a release of vLLM whose flags are known here"
        )
    if option in OF_ADAPTERS:
        return Finding(finding.words, place="as many as LoRA(adapters=…) names")
    if finding.place.startswith("precision=") and "precision" not in call.model:
        return Finding(finding.words, place="precision left out: the checkpoint's own")
    if finding.place.startswith("precision=") and call.model["precision"] not in finding.place:
        return Finding(finding.words, place=f"precision={call.model['precision']}; the rest is in config.json's type")
    if finding.place.startswith("parallel=Parallel(expert"):
        return Finding(
            finding.words, why="Parallel(expert=…) is TensorRT-LLM's; vLLM splits every expert among the GPUs"
        )
    if finding.place.startswith("kv_cache=KVCache(dtype") and "dtype" not in call.kv_cache:
        return Finding(finding.words, place="dtype left out of KVCache: the cache has the model's data type")
    if finding.place.startswith("one_per_gpu("):
        return replace(finding, place=f"{call.replicas} servers, each with a vLLM on a port of its own")
    if option.startswith("--speculative"):
        return Finding(finding.words, why="no draft is served beside a model of vLLM here")
    if "TensorRT-LLM" in finding.why:
        return Finding(finding.words, why="an LLM has no field for it: vLLM is started with its own default")
    return finding


def program_finding(reason: str, call: Settings) -> Finding:
    return Finding("the program", place=f"runtime={call.model['runtime']}, image={call.model['image']}: {reason}")
