"""The text of an inventory that says what a vLLM command line said."""

from __future__ import annotations

import re

from deploy.catalog.known import KnownCheckpoint
from deploy.migrate.places import Given
from deploy.refusals.quoting import source
from deploy.spec.sources import DIRECTORY, HUB_NAME

CLASSES = {"llm": "LLM", "embedder": "Embedder", "reranker": "Reranker"}


def inventory_text(call: Given, known: KnownCheckpoint | None, kind: str, release: str) -> str:
    """Python text that `enginehouse plan` reads; what only the operator knows is marked."""
    tail = call.repository.rsplit("/", 1)[-1]
    name = call.names[0] if call.names else known.name if known else tail
    name = re.sub(r"[^a-z0-9.-]+", "-", name.lower()).strip("-.") or "model"
    imports = {CLASSES[kind], "Gateway", "Machine", "Server"}
    if known:
        weights = f"Weights.hub({source(known.repository)}, {source(call.revision or known.revision)})"
        arguments = [f"name={source(name)}", f"checkpoint={source(known.name)}", f"weights={weights}"]
        imports.add("Weights")
    else:
        arguments = [source(_source(call)), f"name={source(name)}"]
    if kind == "llm":
        arguments += [f"{key}={value}" for key, value in call.model.items()]
        tensor = call.parallel.get("tensor", "1")
        parallel = {key: tensor if value == "tensor" else value for key, value in call.parallel.items()}
        for key, cls, values in (("kv_cache", "KVCache", call.kv_cache), ("parallel", "Parallel", parallel)):
            if values:
                imports.add(cls)
                arguments.append(f"{key}={cls}({', '.join(f'{name}={value}' for name, value in values.items())})")
    elif length := call.model.get("max_seq_len"):
        arguments.append(f"max_tokens={length}")
    gpus, total = call.gpus, call.gpus * call.replicas
    server = f'Server(name="main", models=(model,), gpus={tuple(range(gpus))!r})'
    servers = f"({server},)"
    if call.replicas > 1 and gpus == 1:
        imports.add("one_per_gpu")
        servers = f"one_per_gpu({server}, {call.replicas})"
    elif call.replicas > 1:
        servers = "(\n" + "".join(_replica(place, gpus) for place in range(call.replicas)) + "        )"
    aliases = {alias: name for alias in call.names if alias != name}
    gateway = f"Gateway(ports=({call.port if call.port not in (8000, 8001, 8002) else 8080},)"
    pairs = ", ".join(f"{source(alias)}: {source(model)}" for alias, model in aliases.items())
    gateway += f", aliases={{{pairs}}})" if aliases else ")"
    body = ",\n    ".join(arguments)
    then = "enginehouse plan FILE" if known else "enginehouse pin FILE, and plan FILE"
    return f'''"""What a vLLM command line said. Marked lines are yours to fill in; then: {then}."""

from deploy.spec import {", ".join(sorted(imports, key=lambda word: (word.islower(), word)))}

model = {CLASSES[kind]}(
    {body},
)

hosts = (
    ["gpu-01.example.internal"],  # yours
    {{
        "ssh_user": "ubuntu",
        "_sudo": True,
        "machine": Machine(os="ubuntu-24.04", gpu="h100-80", gpus={total}),  # yours
        "release": {source(release)},
        "servers": {servers},
        "gateway": {gateway},
    }},
)
'''


def _source(call: Given) -> str:
    """The model's hub name with its commit, or its directory as a source names one."""
    if HUB_NAME.fullmatch(call.repository):
        return call.repository + (f"@{call.revision}" if call.revision else "")
    return call.repository if DIRECTORY.fullmatch(call.repository) else f"./{call.repository}"


def _replica(place: int, gpus: int) -> str:
    ports = f"http_port={8000 + 10 * place}, grpc_port={8001 + 10 * place}, metrics_port={8002 + 10 * place}"
    own = tuple(range(place * gpus, (place + 1) * gpus))
    return f'            Server(name="main-{place}", models=(model,), gpus={own!r}, {ports}),\n'
