"""The page beside the batch files: the commands in their order, and the differences between a job and a host."""

from collections.abc import Sequence

from deploy.exports.served import Served
from deploy.exports.slurm.batch import TOKEN_DIRECTORY
from deploy.exports.slurm.cluster import Cluster
from deploy.exports.slurm.jobs import Job

DIFFERENT_WITH = {
    "docker": """\
- The container's user is the job's user. Its bridge lets answers out, and nothing that begins inside finds its way
  back. The rule that a host's own firewall adds is missing.
- Docker is no part of Slurm's accounting. A container outlives a lost node until the next job there removes it. An
  Epilog does so at once:
  `docker ps -aq --filter label=enginehouse.job=$SLURM_JOB_ID | xargs -r docker rm -f`""",
    "pyxis": """\
- A container has the network of its node: Triton listens on all addresses, and has a way out. The limits of
  `docker run` do not apply: read-only root, no capabilities, sizes of /tmp and shared memory, processes.
- An LLM that is split has a task for each rank under `--mpi=pmix`, started by `trtllm-llmapi-launch`.
- No cluster with pyxis has run these files yet.""",
}


def page(served: Served, jobs: Sequence[Job], cluster: Cluster) -> str:
    """README.md of the folder."""
    submitted = "\n".join(f"sbatch serve-{job.name}.sbatch # {_once(job)}" for job in jobs)
    notices = ", ".join(f"{job.name} {job.notice_seconds} s" for job in jobs)
    has_token = any(host.slice.hub.token for host in served.hosts)
    token = f", with the token in `{TOKEN_DIRECTORY}/token`" if has_token else ""
    first = f"serve-{jobs[0].name}.sbatch"
    return f"""\
# {served.inventory} for Slurm

Plan {served.digest}, written by `enginehouse export slurm`. Write it anew instead of editing. Options of sbatch's
command line win over those of a file: `--partition`, `--account`, `--time`. This folder and
`{cluster.root}` lie on file systems of all nodes.

```sh
sbatch stage.sbatch
sbatch --test-only {first}
sbatch --time=10 {first} --check
{submitted}
scancel --batch --signal=USR2 JOB
```

- The first fetches weights{token}.
- The second asks Slurm about GPUs, time limit and partition.
- The third looks at one node; its log names all that is missing there.
- The last lets requests under way end, then the job.

A node serves as the host of its name. Once every model has answered, its agent says `ready`, and balancers of the plan
send requests. Some time before its limit ({notices}) a job says `drain`, answers what is under
way, stops and goes back to the queue. With `again=no` in its file it ends.

Submit one job more than you need: then others serve while one leaves. A job whose node fails is queued again, and may
start on another node of its file. `scancel` without a signal leaves a job only Slurm's KillWait.

## The same as on a host

Image (by digest once it is pinned), words, ports, devices, limits, the release and its id, weights at the same paths.
The questions of the proof and of the watchdog, the agent and page that balancers ask, the drain.

## Different from a host

- A job takes its whole node (`--exclusive`), and starts on a node only if the plan has a host of that name.
- Its gateway, HTTPS, mutual TLS, firewall and exporters are not started. Keep Triton's ports within your network.
- Driver, container toolkit and CDI are the cluster's.
- A container that ends, or a model that stays silent, ends the job. If it had served for ten minutes it is queued
  again.
- Compiled kernels are kept for the life of a job.
{DIFFERENT_WITH[cluster.runtime]}
"""


def _once(job: Job) -> str:
    names = [host.slice.host for host in job.hosts]
    return names[0] if len(names) == 1 else f"up to {len(names)} times: {names[0]} to {names[-1]}"
