"""Refusals of a plan that no job could serve as its hosts do, and of settings that are wrong for every cluster."""

import re
from collections.abc import Iterable, Iterator

from deploy.exports.refused import unserved_models, weights_problems
from deploy.exports.served import ServedHost, ServedServer
from deploy.exports.slurm.cluster import NO_LIMIT, Cluster, seconds_of
from deploy.exports.slurm.jobs import Job
from deploy.refusals import Refusal, refuse

PORTS = (8000, 8001, 8002)
"""Ports on which Triton listens inside its container; pyxis gives a container the network of its node."""


def problems(jobs: Iterable[Job], cluster: Cluster) -> Iterator[Refusal]:
    """A refusal for each feature that the batch files cannot express."""
    if not re.fullmatch(r"/[\w./-]*\w", cluster.root, re.ASCII):
        yield refuse(
            "directory-of-a-cluster",
            "the directory with the weights has to be an absolute path of plain characters",
            where="--root",
            seen=cluster.root,
            wanted="a directory that every node of the cluster has",
            attempt="--root /shared/enginehouse",
        )
    for job in jobs:
        yield from _of_time(job, cluster)
        for host in job.hosts:
            yield from _of_host(host, cluster)
            for server in host.servers:
                yield from _of_server(host, server, cluster)


def _of_time(job: Job, cluster: Cluster) -> Iterator[Refusal]:
    seconds, least = seconds_of(cluster.time), job.start_seconds + job.notice_seconds
    if seconds == 0 or 0 < seconds <= least:
        yield refuse(
            "time-limit-of-a-job",
            f"a job of {job.name} would have no time to serve" if seconds else "Slurm does not accept this time limit",
            where="--time",
            seen=cluster.time,
            wanted=f"minutes, HH:MM:SS, D-HH:MM:SS or {NO_LIMIT}; more than {least} s for start, drain and stop",
            attempt="--time 1-00:00:00",
        )


def _of_host(host: ServedHost, cluster: Cluster) -> Iterator[Refusal]:
    mine = host.slice
    yield from weights_problems(mine, "a job")
    if mine.mig:
        yield refuse(
            "mig-in-a-job",
            "a job takes whole GPUs of its node; no batch file asks for MIG instances",
            where=f"{mine.host}: mig",
            seen=", ".join(mine.mig),
            wanted="servers on whole GPUs",
            attempt="deploy this host with `pyinfra INVENTORY deploy.py`",
        )
    if cluster.runtime == "pyxis" and len(host.servers) > 1:
        yield refuse(
            "servers-of-one-network",
            "pyxis gives every container the network of its node, and two Tritons would listen on the same ports",
            where=f"{mine.host}: servers {', '.join(server.slice.name for server in host.servers)}",
            seen="--runtime pyxis",
            wanted="one server on each node, or Docker",
            attempt="--runtime docker",
        )


def _of_server(host: ServedHost, server: ServedServer, cluster: Cluster) -> Iterator[Refusal]:
    name = server.slice.name
    yield from unserved_models(
        host.slice.host,
        server.slice,
        reader="a job",
        own="a job",
        builder="job",
        kind="engine-in-a-job",
        wanted="the PyTorch backend",
    )
    if server.slice.standalone_llm:
        model, runtime = server.slice.standalone_llm
        yield refuse(
            "llm-beside-triton-in-a-job",
            f"{model.name} is reached by the gateway of its host alone, and no job starts a gateway",
            where=f"{host.slice.host}: servers[{name!r}].models[{model.name!r}].runtime",
            seen=runtime.name,
            wanted="an LLM that Triton serves, behind a balancer",
            attempt='runtime="triton"',
        )
    published = tuple(outside for outside, _ in server.triton.ports)
    if cluster.runtime == "pyxis" and published != PORTS:
        yield refuse(
            "ports-with-pyxis",
            "pyxis gives a container the network of its node, where Triton then listens on its own ports",
            where=f"{host.slice.host}: servers[{name!r}]",
            seen=f"ports {', '.join(map(str, published))}",
            wanted=f"ports {', '.join(map(str, PORTS))}, or Docker",
            attempt="--runtime docker",
        )
