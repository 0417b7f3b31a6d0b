"""Servers that are not Triton: by program and image, so that their commands and health checks are not judged as its."""

import re

from deploy.linter.findings import HIDDEN, Call, Judged, is_secret
from deploy.linter.manifests import Container
from deploy.linter.options import argparse_options

PROGRAMS = {
    **dict.fromkeys(("vllm", "vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server"), "vLLM"),
    **dict.fromkeys(("sglang", "sglang.launch_server"), "SGLang"),
    "text-generation-launcher": "text-generation-inference",
    "text-embeddings-router": "text-embeddings-inference",
    "lmdeploy": "LMDeploy",
}
"""Programs that `enginehouse migrate` reads."""
NOT_READ = {
    **dict.fromkeys(("ollama", "llama-server", "llama-cli"), "a server of GGUF files"),
    **dict.fromkeys(("ray", "serve"), "Ray"),
    **dict.fromkeys(("dynamo.vllm", "dynamo.sglang", "dynamo.trtllm", "dynamo.frontend"), "NVIDIA Dynamo"),
}
IMAGES = re.compile(
    r"(^|/)(vllm|sglang|lmdeploy|ollama|llama\.cpp|text-generation-inference|text-embeddings-inference|ray|litellm"
    r"|open-webui|infinity|nim/[\w./-]+|huggingfaceserver|vllm-openai|aphrodite[\w-]*|localai)([:@/]|$)"
)
WORDS = re.compile(r"(^|[\s/])(trtllm-serve|vllm|sglang|ollama|llama-server|lmdeploy)(\s|$)")


def is_another_server(container: Container) -> bool:
    return bool(IMAGES.search(container.image) or WORDS.search(container.words))


def judge_secrets(call: Call) -> Judged | None:
    """The finding about a secret among the words of another server; None without one."""
    if call.program not in {*PROGRAMS, *NOT_READ}:
        return None
    judged = Judged()
    for option in argparse_options(call.args):
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
