"""A Slurm cluster of rehearsal machines: Debian's own slurmctld, slurmd and munge, with a user who submits jobs."""

from __future__ import annotations

import base64
import io
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rehearsal.machine import Machine

USER, UID = "researcher", 2001
JOBS = "/srv/jobs"
"""The folder of an export, at the same path on every machine; a real cluster has a shared file system."""
ROOT = "/srv/enginehouse"
CONF = """\
ClusterName=rehearsal
SlurmctldHost={controller}
AuthInfo=cred_expire=5
LaunchParameters=disable_send_gids
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
ReturnToService=2
SlurmdTimeout=10
KillWait=60
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmUser=slurm
{nodes}
PartitionName=gpus Nodes=ALL Default=YES MaxTime=INFINITE
"""
INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends {} >/dev/null"


@dataclass
class Cluster:
    """The machine with slurmctld, which runs no job, and the nodes."""

    controller: Machine
    nodes: Sequence[Machine]

    def make(self) -> None:
        """Starts every daemon and waits until every node is idle."""
        machines = [self.controller, *self.nodes]
        names = "".join(f"{machine.address} {machine.name}\n" for machine in machines)
        for machine in machines:
            daemon = "slurmctld slurm-client" if machine is self.controller else "slurmd slurm-client"
            machine.run(f"cat >>/etc/hosts; apt-get -qq update; {INSTALL.format(f'munge {daemon}')}", input=names)
            machine.run(f"useradd --uid {UID} --create-home --shell /bin/bash {USER}")
            machine.run(f"install -d -o {USER} {JOBS} {ROOT} {ROOT}/weights")
        key = self.controller.run("base64 -w0 /etc/munge/munge.key").stdout
        processors = int(self.controller.run("nproc").stdout)
        rows = [f"NodeName={node.name} NodeAddr={node.address} CPUs={processors} Gres=gpu:1" for node in self.nodes]
        conf = CONF.format(controller=self.controller.name, nodes="\n".join(rows))
        for machine in machines:
            machine.run("base64 -d >/etc/munge/munge.key && systemctl restart munge", input=key)
            machine.put("/etc/slurm/slurm.conf", conf)
        self.controller.run("systemctl restart slurmctld")
        for node in self.nodes:
            node.put("/etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia0\n")
            # Machines of a rehearsal have both kinds of control groups mounted, which slurmd takes for neither.
            node.put("/etc/slurm/cgroup.conf", "CgroupPlugin=cgroup/v1\n")
            node.run(f"usermod -aG docker {USER} && systemctl restart slurmd")

    def share(self, texts: Mapping[str, str]) -> None:
        """Copies the folder of an export to every machine."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name, text in texts.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode, entry.uid = len(text.encode()), 0o644, UID
                archive.addfile(entry, io.BytesIO(text.encode()))
        content = base64.b64encode(packed.getvalue()).decode()
        for machine in (self.controller, *self.nodes):
            machine.run(f"base64 -d | runuser -u {USER} -- tar -xz -C {JOBS}", input=content)

    def give(self, machine: Machine, path: str, content: str) -> None:
        """Writes a private file of the user below its home."""
        home = f"/home/{USER}"
        machine.run(
            f"runuser -u {USER} -- sh -c 'umask 077; mkdir -p $(dirname {home}/{path}); cat >{home}/{path}'",
            input=content,
        )

    def types(self, command: str) -> str:
        """Returns the output of the user's command on the controller, in the folder of the export."""
        ran = self.controller.run(f"cd {JOBS} && runuser -u {USER} -- bash -c {_quoted(command)} 2>&1", check=False)
        return ran.stdout.strip()

    def submit(self, words: str) -> str:
        """Returns the number of a submitted job."""
        output = self.types(f"sbatch {words}")
        match = re.fullmatch(r"Submitted batch job (\d+)", output)
        assert match, output
        return match[1]

    def state(self, job: str) -> str:
        """Returns `RUNNING h1`, `PENDING`, `COMPLETED h1`, …, from slurmctld."""
        shown = self.types(f"scontrol show job {job}")
        state = re.search(r"JobState=(\w+)", shown)
        node = re.search(r" NodeList=(\S+)|\n +NodeList=(\S+)", shown)
        name = (node[1] or node[2] or "") if node else ""
        return f"{state[1] if state else ''} {'' if name == '(null)' else name}".strip()

    def log(self, job: str) -> str:
        """Returns the output of a job from all its nodes."""
        return "\n".join(
            node.run(f"cat {JOBS}/*-{job}.log 2>/dev/null", check=False).stdout
            for node in self.nodes
            if node.state == "running"
        )

    def node(self, name: str) -> Machine:
        """Returns the node of this name."""
        return next(node for node in self.nodes if node.name == name)


def _quoted(command: str) -> str:
    return "'" + command.replace("'", "'\\''") + "'"
