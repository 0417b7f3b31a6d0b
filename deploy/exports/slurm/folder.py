"""All batch files of a plan as files of a folder, which has to be on a file system that all nodes share.

serve-NAME.sbatch       a job of a node that serves
stage.sbatch            fetches weights
job.sh                  the steps of a serving job
hosts/HOST/             settings of the traffic service and the watchdog
hosts/HOST/SERVER/      start line, release, and files for the release
stage/                  settings of the fetches
programs/               the hosts' own programs
README.md               commands to type, and the differences between a job and a host
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches

from deploy.exports.served import Served, ServedHost, ServedServer
from deploy.exports.slurm.batch import STEPS, serving, staging
from deploy.exports.slurm.cluster import Cluster
from deploy.exports.slurm.jobs import jobs_of
from deploy.exports.slurm.page import page
from deploy.exports.slurm.refused import problems
from deploy.exports.slurm.start_lines import start_line
from deploy.models.files import ROOT
from deploy.refusals import refuse, refuse_all

STAGE = "stage.sbatch"
AUTHORITY = "hub-ca.crt"


def chosen(served: Served, hosts: Sequence[str]) -> Served:
    """The plan with only these hosts; all hosts if no host is named. Raises: a Refusal for hosts that the plan
    lacks."""
    known = [host.slice.host for host in served.hosts]
    refuse_all(
        refuse(
            "unknown-host",
            f"{name} is not a host of {served.inventory} with servers",
            where="HOST",
            seen=name,
            wanted=", ".join(known),
            attempt=next(iter(get_close_matches(name, known, 1)), known[0] if known else "enginehouse plan INVENTORY"),
        )
        for name in dict.fromkeys(hosts)
        if name not in known
    )
    kept = tuple(host for host in served.hosts if not hosts or host.slice.host in hosts)
    return replace(served, hosts=kept)


def files(served: Served, cluster: Cluster, steps: str) -> dict[str, str]:
    """Every file by its path in the folder; `steps` is the text of job.sh.

    Raises: one Refusal for all features of the hosts that no job can have.
    """
    jobs = jobs_of(served.hosts)
    refuse_all(problems(jobs, cluster))
    texts = {f"serve-{job.name}.sbatch": serving(served, job, cluster) for job in jobs}
    texts |= {STAGE: staging(served, served.hosts, cluster), STEPS: steps}
    texts |= {f"programs/{path}": text for path, text in served.programs.items()}
    texts |= dict(_staged(served))
    for host in served.hosts:
        texts |= dict(_of_host(host, cluster))
    texts["README.md"] = page(served, jobs, cluster)
    return texts


def notes(served: Served) -> Iterator[str]:
    """A sentence for each part of a host that its job lacks, and for servers that clients cannot reach."""
    with_gateway = [host.slice.host for host in served.hosts if host.gateway]
    if with_gateway:
        yield f"{_named(with_gateway)}: a job starts no gateway; clients reach Triton through a balancer, or directly"
    on_loopback = [host.slice.host for host in served.hosts if _is_on_loopback(host)]
    if on_loopback:
        yield f"{_named(on_loopback)}: servers listen on 127.0.0.1, where only their own node reaches them"


def _named(hosts: Sequence[str]) -> str:
    return hosts[0] if len(hosts) == 1 else f"{hosts[0]} and {len(hosts) - 1} more"


def _is_on_loopback(host: ServedHost) -> bool:
    return all(server.triton.address in ("127.0.0.1", "::1") for server in host.servers)


def _of_host(host: ServedHost, cluster: Cluster) -> Iterator[tuple[str, str]]:
    folder = f"hosts/{host.slice.host}"
    if host.traffic:
        yield f"{folder}/traffic.json", host.traffic
    times = {"watch_seconds": host.watch_seconds, "answer_seconds": host.answer_seconds, "misses": host.misses}
    yield f"{folder}/watch.json", _json(times)
    for server in host.servers:
        yield f"{folder}/{server.slice.name}/run", start_line(server, cluster.runtime)
        yield f"{folder}/{server.slice.name}/pod.json", _json(_needs(server, cluster))
        for path, content in server.files.items():
            yield f"{folder}/{server.slice.name}/release/{path}", content.decode()


def _needs(server: ServedServer, cluster: Cluster) -> dict[str, object]:
    return {
        "release": server.release,
        "directories": [f"{cluster.root}{path.removeprefix(ROOT)}" for path in sorted(server.triton.directories)],
        "wheels": list(server.wheels),
        "job": STAGE,
    }


def _staged(served: Served) -> Iterator[tuple[str, str]]:
    """Settings of the fetches of all hosts, each once."""
    wheels = {wheel["sha256"]: wheel for host in served.hosts for server in host.servers for wheel in server.wheels}
    yield "stage/pod.json", _json({"wheels": list(wheels.values())})
    for host in served.hosts:
        for path, text in host.weights.items():
            yield f"stage/{path.removeprefix(f'{served.settings_path}/')}", text
        if host.authority:
            yield f"stage/{AUTHORITY}", host.authority


def _json(content: object) -> str:
    return json.dumps(content, indent=2) + "\n"
