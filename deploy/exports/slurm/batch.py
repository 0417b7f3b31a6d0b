"""The batch files: one for each job that serves, and one that fetches weights to the cluster's directory."""

from collections.abc import Iterable

from deploy.exports.served import Served, ServedHost
from deploy.exports.slurm.cluster import Cluster
from deploy.exports.slurm.jobs import Job, addresses, nodes, ports
from deploy.exports.slurm.start_lines import enroot_image, image_of
from deploy.models.files import WEIGHTS

STEPS = "job.sh"
STAGE_TIME = "1-00:00:00"
CREDENTIALS = "/run/credentials/enginehouse"
TOKEN_DIRECTORY = "$HOME/.config/enginehouse/hub"
"""Directory of the submitting user on the cluster, with the file `token`."""


def serving(served: Served, job: Job, cluster: Cluster) -> str:
    """The batch file of a job that serves."""
    options = [
        f"--job-name=enginehouse-{job.name}",
        "--nodes=1",
        f"--ntasks-per-node={job.ranks}",
        "--exclusive",
        "--mem=0",
        *([f"--gres=gpu:{job.gpus}"] if job.gpus else []),
        f"--time={cluster.time}",
        f"--signal=B:USR1@{job.notice_seconds}",
        "--requeue",
        "--open-mode=append",
        "--output=%x-%j.log",
    ]
    images = sorted({image_of(server) for host in job.hosts for server in host.servers})
    names = nodes(host.slice.host for host in served.hosts)
    rows = [f'  "{_row(host, names[host.slice.host])}"\n' for host in job.hosts]
    return (
        _head(options)
        + _origin(served)
        + "# Submit it from this folder, once for each node that is to serve; options of sbatch's command line win.\n"
        f"# `sbatch --time=10 serve-{job.name}.sbatch --check` looks at a node and serves nothing.\n"
        f"again=yes # after its time limit the job goes back to the queue\n"
        f"runtime={cluster.runtime} root={cluster.root} gpus={job.gpus} ranks={job.ranks}\n"
        f"least_seconds={job.start_seconds + job.notice_seconds} # start, drain and stop of the slowest server\n"
        f"servers=({' '.join(job.servers)})\n"
        f"images=({' '.join(images)})\n"
        "# node, host of the plan, its addresses, its ports\n"
        f"nodes=(\n{''.join(rows)})\n"
        "folder=$SLURM_SUBMIT_DIR\n"
        f'. "$folder/{STEPS}"\n'
    )


def staging(served: Served, hosts: Iterable[ServedHost], cluster: Cluster) -> str:
    """The batch file that fetches weights with the image's programs, and verifies them as a host does."""
    known = list(hosts)
    image, has_token = image_of(known[0].servers[0]), any(host.slice.hub.token for host in known)
    files = sorted({path for host in known for path in host.weights})
    options = [
        "--job-name=enginehouse-stage",
        "--nodes=1",
        "--ntasks=1",
        f"--time={STAGE_TIME}",
        "--requeue",
        "--open-mode=append",
        "--output=%x-%j.log",
    ]
    mounts = [
        ("$folder/programs", served.programs_path, True),
        ("$folder/stage", served.settings_path, True),
        ("$root/weights", WEIGHTS, False),
        *([("$credentials", CREDENTIALS, True)] if has_token else []),
    ]
    command = ["python3", "-B", f"{served.programs_path}/host", "pod", "fetch", *files]
    environment = [f"CREDENTIALS_DIRECTORY={CREDENTIALS}"] if has_token else []
    return (
        _head(options)
        + _origin(served)
        + "# Weights come into the directory that all nodes have; complete ones are left alone.\n"
        "set -euo pipefail\n"
        f"root={cluster.root} folder=$SLURM_SUBMIT_DIR\n"
        + (_token() if has_token else "")
        + 'mkdir -p "$root/weights" || {\n'
        '  echo "$root/weights cannot be made: create it for $(id -un) on a file system of all nodes" >&2\n'
        "  exit 1\n}\n"
        + (_in_docker if cluster.runtime == "docker" else _in_pyxis)(image, mounts, environment, command)
    )


def _origin(served: Served) -> str:
    return f"# {served.inventory}, {served.digest}: of `enginehouse export slurm`. Write it anew; do not edit it.\n"


def _token() -> str:
    return (
        f"credentials={TOKEN_DIRECTORY}\n"
        '[ -s "$credentials/token" ] || {\n'
        '  echo "the hub wants a token: put it into $credentials/token, mode 0600" >&2\n  exit 1\n}\n'
    )


def _in_docker(image: str, mounts: list[tuple[str, str, bool]], environment: list[str], command: list[str]) -> str:
    lines = [
        '--rm --user "$(id -u):$(id -g)" --read-only --cap-drop ALL --security-opt no-new-privileges',
        "--tmpfs /tmp:rw,nosuid,nodev,size=4096m",
        *(
            f'--mount type=bind,source="{source}",target={target}{",readonly" * readonly}'
            for source, target, readonly in mounts
        ),
        *(f"--env {variable}" for variable in environment),
        f"--entrypoint {command[0]}",
    ]
    options = "".join(f"  {line}\n" for line in lines)
    words = " \\\n  ".join([" ".join(command[1:5]), *command[5:]])
    return f'options=(\n{options})\nexec docker run "${{options[@]}}" {image} \\\n  {words}\n'


def _in_pyxis(image: str, mounts: list[tuple[str, str, bool]], environment: list[str], command: list[str]) -> str:
    mounted = ",".join(f"{source}:{target}{':ro' * readonly}" for source, target, readonly in mounts)
    lines = [
        "--ntasks=1 --mpi=none --no-container-mount-home --no-container-entrypoint",
        f"--container-image={enroot_image(image)}",
        f'--container-mounts="{mounted}"',
    ]
    options = "".join(f"  {line}\n" for line in lines)
    words = " \\\n  ".join([" ".join(["env", *environment, *command[:5]]), *command[5:]])
    return f'options=(\n{options})\nexec srun "${{options[@]}}" \\\n  {words}\n'


def _head(options: Iterable[str]) -> str:
    return "#!/bin/bash\n" + "".join(f"#SBATCH {option}\n" for option in options)


def _row(host: ServedHost, node: str) -> str:
    listening = ",".join(addresses(host)) or "-"
    return f"{node} {host.slice.host} {listening} {','.join(map(str, ports(host)))}"
