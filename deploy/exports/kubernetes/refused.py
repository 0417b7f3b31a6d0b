"""Refusals of a plan whose servers no Pod could run as their hosts do."""

import re
from collections.abc import Iterator

from deploy.exports.refused import unserved_models, weights_problems
from deploy.exports.served import Served, ServedHost, ServedServer
from deploy.models.runtimes import IMAGE
from deploy.refusals import Refusal, refuse, shortened

INSIDE = (8000, 8001, 8002, 8003)
"""Ports that Triton and its page take in every Pod."""


LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
"""A DNS label (RFC 1123), the form of a namespace's name; a StorageClass's name may be several labels joined by
dots."""


def name_problems(namespace: str, storage_class: str, gateway_image: str) -> Iterator[Refusal]:
    """A refusal for each name that no object of Kubernetes may have, and for an image without a tag."""
    if not IMAGE.fullmatch(gateway_image):
        yield refuse(
            "gateway-image",
            "the image of the gateway has no name and tag that a cluster could pull",
            where="--gateway-image",
            seen=shortened(gateway_image) or "nothing",
            wanted="an image with its tag, and a digest if you know it",
            attempt="--gateway-image registry.example.internal/enginehouse-gateway:1",
        )
    for option, name, is_known in (
        ("--namespace", namespace, LABEL.fullmatch(namespace) is not None),
        ("--storage-class", storage_class, all(LABEL.fullmatch(part) for part in storage_class.split("."))),
    ):
        if not is_known and (name or option == "--namespace"):
            plain = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:63].strip("-")
            yield refuse(
                "name-of-kubernetes",
                f"Kubernetes takes no {option.removeprefix('--').replace('-', ' ')} of this name",
                where=option,
                seen=shortened(name),
                wanted="small letters, digits and dashes, up to 63",
                attempt=f"{option} {plain or 'enginehouse'}",
            )


def problems(served: Served) -> Iterator[Refusal]:
    for host in served.hosts:
        yield from _of_host(host)
        for server in host.servers:
            yield from _of_server(host.slice.host, server)


def _of_host(host: ServedHost) -> Iterator[Refusal]:
    mine = host.slice
    yield from weights_problems(mine, "a Pod")
    gpus = [(device, server.slice.name) for server in host.servers for device in server.slice.devices]
    for device, name in gpus:
        sharing = [owner for held, owner in gpus if held == device]
        if len(sharing) > 1 and name == sharing[0]:
            yield refuse(
                "servers-on-one-gpu",
                "a GPU of Kubernetes belongs to one Pod",
                where=f"{mine.host}: servers {', '.join(sharing)}",
                seen=f"{device} for each of them",
                wanted="a GPU, or a MIG instance, for each server",
                attempt="put the models into one Server",
            )


def _of_server(host: str, server: ServedServer) -> Iterator[Refusal]:
    yield from unserved_models(
        host,
        server.slice,
        reader="a Pod",
        own="a Deployment",
        builder="Job",
        kind="engine-in-kubernetes",
        wanted="the PyTorch backend, or a program beside Triton",
    )
    if server.slice.standalone_llm and server.slice.in_triton:
        yield refuse(
            "gpu-of-two-containers",
            "the device plugin gives a GPU to one container, and two would compute on it",
            where=f"{host}: servers[{server.slice.name!r}]",
            seen=f"{server.slice.standalone_llm[0].name} beside Triton, which loads {server.slice.in_triton[0].name}",
            wanted="an LLM beside a Triton without models, or all models in Triton",
            attempt="give the encoders a Server and a GPU of their own",
        )
    if server.slice.standalone_llm and server.slice.standalone_llm[1].port in INSIDE:
        yield refuse(
            "port-of-triton-in-a-pod",
            f"{server.slice.standalone_llm[0].name} and Triton would listen on one port of their Pod",
            where=f"{host}: servers[{server.slice.name!r}].models[{server.slice.standalone_llm[0].name!r}].port",
            seen=str(server.slice.standalone_llm[1].port),
            wanted="a port other than 8000 to 8003",
            attempt="port=8010",
        )
