"""Servers that are not Triton: by program and image, so that their commands and health checks are not judged as
Triton's."""

import re

from deploy.linter.findings import HIDDEN, Call, Judged, is_secret
from deploy.linter.manifests import Container
from deploy.linter.options import argparse_options
from deploy.linter.words import word

PROGRAMS = {
    **dict.fromkeys(("vllm", "vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server"), "vLLM"),
    **dict.fromkeys(("sglang", "sglang.launch_server"), "SGLang"),
    "text-generation-launcher": "text-generation-inference",
    "text-embeddings-router": "text-embeddings-inference",
    "lmdeploy": "LMDeploy",
    **dict.fromkeys(("dynamo.vllm", "dynamo.sglang", "dynamo.trtllm"), "NVIDIA Dynamo"),
}
"""Programs that `enginehouse migrate` reads."""
NOT_READ = {
    **dict.fromkeys(("ollama", "llama-server", "llama-cli"), "a server of GGUF files"),
    **dict.fromkeys(("ray", "serve"), "Ray"),
    "dynamo.frontend": "NVIDIA Dynamo",
}
IMAGES = re.compile(
    r"(^|/)(vllm|sglang|lmdeploy|ollama|llama\.cpp|text-generation-inference|text-embeddings-inference|ray|litellm"
    r"|open-webui|infinity|nim/[\w./-]+|huggingfaceserver|vllm-openai|aphrodite[\w-]*|localai)([:@/]|$)"
)
NOT_JUDGED: tuple[tuple[str, re.Pattern[str], str], ...] = (
    (
        "a load generator",
        re.compile(r"^\W{0,4}(?:perf_analyzer|aiperf|model-analyzer|guidellm|locust|k6|wrk|hey)\b", re.M),
        "enginehouse bench measures a server",
    ),
    (
        "a configuration of a proxy",
        re.compile(r"^\s{0,40}(?:upstream|location|server)\s[^\n{};]{0,200}\{|^(?:frontend|backend|listen)\s", re.M),
        "the inventory's Balancer passes requests on",
    ),
    (
        "a configuration of Prometheus",
        re.compile(r"^\s{0,40}(?:scrape_configs|- job_name):", re.M),
        "the inventory's Monitor reads every server",
    ),
    (
        "a service of Docker's swarm",
        re.compile(r"\bdocker\s{1,9}service\s{1,9}(?:create|update)\b"),
        "enginehouse migrate reads its image and the words behind it",
    ),
    ("a listing of files", re.compile(r"^[│ ]*[├└]── ", re.M), "paste the config.pbtxt of one of its models"),
    ("a bake file", re.compile(r'^(?:target|group) "', re.M), "paste the Dockerfile that it names"),
)
"""Texts that start no server: a title, their words, and the counterpart of this project."""
TRITON = re.compile(r"(?<![\w-])tritonserver(?![\w:-])")
"""Triton as a program's name; an image of that name may start another program."""
WORDS = re.compile(r"(^|[\s/])(trtllm-serve|vllm|sglang|ollama|llama-server|lmdeploy)(\s|$)")


def is_another_server(container: Container) -> bool:
    return bool(IMAGES.search(container.image) or WORDS.search(container.words))


def is_beside_another(text: str) -> bool:
    """True if the text starts another server and no Triton, so that its requests are not for Triton's pages."""
    words = text.split()
    names = {*PROGRAMS, "trtllm-serve"}
    return not TRITON.search(text) and any(name in names or IMAGES.search(name) for name in words)


def judge_secrets(call: Call) -> Judged | None:
    """The finding about a secret among the words of another server; None without one."""
    is_of_an_image = call.program.startswith("--")
    if not is_of_an_image and call.program not in {*PROGRAMS, *NOT_READ}:
        return None
    judged = Judged()
    for option in argparse_options([*(map(word, call.head) if is_of_an_image else ()), *call.args]):
        name = option.name.lstrip("-").replace("-", "_")
        if is_secret(name, option.value) and not option.varies:
            judged.add(
                "secret-in-words",
                f"the value of {option.name} is on the command line: in the shell's history, ps and docker inspect",
                seen=f"{option.name} {HIDDEN}",
                wanted="a variable, or a file that only its owner reads",
                attempt=f"remove {option.name}, and make a new secret: this one was seen",
            )
    return judged if judged.findings else None
