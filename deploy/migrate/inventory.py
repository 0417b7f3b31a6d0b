"""The text of an inventory that is equivalent to a pasted command."""

import re
from itertools import zip_longest

from deploy.catalog.checkpoint_rows import KnownCheckpoint
from deploy.migrate.places import Settings, gateway_port
from deploy.migrate.weights import Source
from deploy.refusals import source as quoted

CLASSES = {"llm": "LLM", "embedder": "Embedder", "reranker": "Reranker"}


def inventory_text(call: Settings, source: Source, known: KnownCheckpoint | None, kind: str, release: str) -> str:
    """Python text that `enginehouse plan` reads; values that only the operator knows are marked."""
    name = call.names[0] if call.names else known.name if known else source.tail
    name = re.sub(r"[^a-z0-9.-]+", "-", name.lower()).strip("-.") or "model"
    revision = next(filter(None, (call.revision, source.revision)), known.revision if known else "")
    imports = {CLASSES[kind], "Gateway", "Machine", "Server"}
    if known:
        imports.add("Weights")
        arguments = [f"name={quoted(name)}", f"checkpoint={quoted(known.name)}"]
        arguments.append(f"weights=Weights.hub({quoted(known.repository)}, {quoted(revision)})")
    elif source.directory:
        arguments = [quoted(source.directory), f"name={quoted(name)}"]
    else:
        place = f"{source.repository}@{revision}" if revision else source.repository
        arguments = [quoted(place), f"name={quoted(name)}"]
    if kind == "llm":
        arguments += [f"{key}={value}" for key, value in call.model.items()]
        tensor = call.parallel.get("tensor", "1")
        parallel = {key: tensor if value == "tensor" else value for key, value in call.parallel.items()}
        for key, cls, values in (("kv_cache", "KVCache", call.kv_cache), ("parallel", "Parallel", parallel)):
            if values:
                imports.add(cls)
                arguments.append(f"{key}={cls}({', '.join(f'{name}={value}' for name, value in values.items())})")
    else:
        lengths = {"max_tokens": call.model["max_seq_len"]} if "max_seq_len" in call.model else {}
        arguments += [f"{key}={value}" for key, value in (lengths | call.encoder).items()]
    gpus, total = call.gpus, call.gpus * call.replicas
    own = call.devices[:gpus] if len(call.devices) >= total else tuple(range(gpus))
    server = f'Server(name="main", models=(model,), gpus={own!r})'
    total = max(total, call.host_gpus, *(device + 1 for device in call.devices))
    servers = f"({server},)"
    is_beside = "runtime" in call.model
    if call.replicas > 1 and gpus == 1 and not is_beside:
        imports.add("one_per_gpu")
        servers = f"one_per_gpu({server}, {call.replicas})"
    elif call.replicas > 1:
        servers = (
            "(\n"
            + "".join(_replica(place, gpus, is_beside, gateway_port(call.port)) for place in range(call.replicas))
            + "        )"
        )
    standard = "from dataclasses import replace\n\n" if is_beside and call.replicas > 1 else ""
    aliases = {alias: name for alias in call.names if alias != name}
    gateway = f"Gateway(ports=({gateway_port(call.port)},)"
    pairs = ", ".join(f"{quoted(alias)}: {quoted(model)}" for alias, model in aliases.items())
    gateway += f", aliases={{{pairs}}})" if aliases else ")"
    marks = ["  # yours: the directory on this machine" if source.directory and not known else ""]
    body = "\n    ".join(f"{argument},{mark}" for argument, mark in zip_longest(arguments, marks, fillvalue=""))
    then = "enginehouse plan FILE" if known or source.directory else "enginehouse pin FILE, and plan FILE"
    hosts = ", ".join(f'"gpu-{number:02}.example.internal"' for number in range(1, call.hosts + 1))
    return f'''"""What a pasted command said. Marked lines are yours to fill in; then: {then}."""

{standard}from deploy.spec import {", ".join(sorted(imports, key=lambda word: (word.islower(), word)))}

model = {CLASSES[kind]}(
    {body}
)

hosts = (
    [{hosts}],  # yours
    {{
        "ssh_user": "ubuntu",
        "_sudo": True,
        "machine": Machine(os="ubuntu-24.04", gpu="h100-80", gpus={total}),  # yours
        "release": {quoted(release)},
        "servers": {servers},
        "gateway": {gateway},
    }},
)
'''


def _replica(place: int, gpus: int, is_beside: bool, taken: int) -> str:
    """A server with its own ports; a program beside Triton gets a free one of the same ten, not the gateway's."""
    port = next(port for port in (8005 + 10 * place, 8006 + 10 * place) if port != taken)
    model = f"replace(model, port={port})" if is_beside else "model"
    ports = f"http_port={8000 + 10 * place}, grpc_port={8001 + 10 * place}, metrics_port={8002 + 10 * place}"
    own = tuple(range(place * gpus, (place + 1) * gpus))
    return f'            Server(name="main-{place}", models=({model},), gpus={own!r}, {ports}),\n'
