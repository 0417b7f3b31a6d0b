"""Measures a run without changes on the control machine: beside Ansible, and for one host and for many.

    python -m benchmarks.converge                                      both parts
    python -m benchmarks.converge --machines 8 --names                 only beside Ansible
    python -m benchmarks.converge --machines 0 --names 1 8 --keep      only fewer names; the machine stays
    python -m benchmarks.converge --peer /path/to/venv/bin/python      a Python that has ansible-core

Beside Ansible: 29 operations on separate machines (against_ansible.py). For many: `pyinfra … deploy.py -y` on a machine
under many names, with real sshd, systemd, Docker and Triton; GPU and driver are stand-ins. Every name is a separate
host to pyinfra, with its own connection and plan. Only the host's lock differs: each login of several names sees its
own file, since the second name would be refused otherwise. So these names are asked twice, like after a boot. The
machine answers for all names, so seconds grow with its load; CPU is that of pyinfra's process alone. Beyond ANSWERS_FOR
names the machine computes each answer once for all names, since it could not do so two hundred times.

Prints one JSON line last. Its `ratio` is Ansible's seconds for a second of ours; beside each number of names is the
limit, measured in the same minute: `true` on every name by pyinfra itself, without this project.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import against_ansible
from rehearsal import machines, requirements, services
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places, RehearsalRefused
from rehearsal.pyinfra_run import TOTAL, pyinfra

INVENTORY = "benchmarks/inventories/names.py"
MACHINE = "d13a"
MACHINES = 8
NAMES = (1, 8, 50, 200)
LONGEST_SECONDS = 900
ANSWERS_FOR = 8
KEPT = "/run/kept-answers"
SSHD = "MaxStartups 1000\nForceCommand /usr/local/bin/apart\n"
APART = f"""#!/bin/bash
case "$SSH_ORIGINAL_COMMAND" in
  *"exec 9<>"*) exec sudo unshare --mount bash -c '
      touch /run/enginehouse.lock && mount --bind "$(mktemp /run/apart.XXXXXX)" /run/enginehouse.lock
      exec setpriv --reuid="$1" --regid="$2" --init-groups bash -c "$0"' \\
      "$SSH_ORIGINAL_COMMAND" "$(id -u)" "$(id -g)" ;;
  "") exec bash -l ;;
  *{KEPT}*) exec bash -c "$SSH_ORIGINAL_COMMAND" ;;
esac
[ -d {KEPT} ] || exec bash -c "$SSH_ORIGINAL_COMMAND"
answer={KEPT}/$(printf %s "$SSH_ORIGINAL_COMMAND" | sha256sum | cut -d' ' -f1)
exec 8>>"$answer.lock"
flock 8
[ -e "$answer" ] || {{ bash -c "$SSH_ORIGINAL_COMMAND" >"$answer.new" && mv "$answer.new" "$answer" || exit; }}
flock -u 8
exec sed "s/^value\\tclock\\t.*/value\\tclock\\t$(date +%s)/" "$answer"
"""


def main(words: Sequence[str] | None = None) -> int:
    """Returns 0 if no run changed anything."""
    options = parser().parse_args(words)
    result: dict[str, Any] = {"benchmark": "converge"}
    try:
        _require()
        if options.machines:
            result |= beside_ansible(against_ansible.compared(options.machines, options.rounds, options.peer))
        if options.names:
            machines.down()  # the following runs need a single machine
            machine = _up(max(options.names))
            result |= summary([_measured_on(machine, names, options.rounds) for names in sorted(options.names)])
    except RehearsalRefused as refused:
        print(refused, file=sys.stderr)
        return 1
    finally:
        if not options.keep:
            machines.down()
            services.services_down()
    print(json.dumps(result), flush=True)
    return 0


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.converge", description=(__doc__ or "").splitlines()[0])
    made.add_argument("--machines", type=int, default=MACHINES, help="of the runs beside Ansible; 0 leaves them out")
    made.add_argument("--rounds", type=int, default=3, help="runs of each after one that warms up; medians count")
    made.add_argument("--peer", default=sys.executable, help="a Python that has ansible-core")
    made.add_argument("--names", type=int, nargs="*", default=NAMES, help="of one machine; none leaves those runs out")
    made.add_argument("--keep", action="store_true", help="leave the machines running at the end")
    return made


def _require() -> None:
    if lacking := [*requirements.missing(Places.here()), *requirements.missing_packages()]:
        raise RehearsalRefused(requirements.explain(lacking))


def beside_ansible(result: dict[str, Any]) -> dict[str, Any]:
    """Returns results beside Ansible; their ratio is the benchmark's."""
    return {"ratio": result["ratio"], "beside_ansible": result}


def _up(names: int) -> Machine:
    """Returns the machine, which serves under `names` names and gives every login its own lock."""
    (machine,) = machines.up([MACHINE])
    services.prepare()
    services.services_up()
    name_them([machine], names)
    if (run := pyinfra(INVENTORY, "deploy.py", "-y", print_steps=False)).code:
        raise RehearsalRefused(f"the deploy ended with {run.code}\n{run.output[-4000:]}")
    return machine


def _measured_on(machine: Machine, names: int, rounds: int) -> dict[str, Any]:
    """Returns medians of `rounds` runs with `names` names after a warm-up, and whether the machine kept answers."""
    if names > 1:
        share_lock(machine)
    is_kept = names > ANSWERS_FOR
    for words in (f"sudo rm -rf {KEPT}", f"sudo mkdir -m 1777 {KEPT}")[: 1 + is_kept]:
        subprocess.run([*_ssh(machine), words], check=True, timeout=60)
    runs = [measured(names) for _ in range(rounds + 1)][1:]
    medians = {key: round(statistics.median(run[key] for run in runs), 2) for key in runs[0]}
    figures = medians | {"limit_seconds": limit_seconds(names, rounds), "medians_of": rounds, "answers_kept": is_kept}
    print(json.dumps(figures), file=sys.stderr, flush=True)
    return figures


def limit_seconds(names: int, rounds: int) -> float:
    """Returns median seconds of pyinfra's own `exec -- true` on these names of the inventory, without our config.py."""
    argv = [sys.executable, "-m", "pyinfra", "--config", "none.py", INVENTORY, "exec", "--", "true"]
    took = list[float]()
    for _ in range(rounds):
        began = time.monotonic()
        environment = {**os.environ, "CONVERGE_NAMES": str(names)}
        subprocess.run(argv, cwd=REPOSITORY, env=environment, check=True, capture_output=True, timeout=LONGEST_SECONDS)
        took.append(time.monotonic() - began)
    return round(statistics.median(took), 2)


def name_them(known: Sequence[Machine], names: int) -> None:
    """Writes the machines into an ssh_config under a number of names, in turn."""
    config = known[0].ssh_config.read_text()
    block_of = {part.partition("\n")[0]: f"Host {part}".rstrip() for part in config.split("Host ")[1:]}
    owners = (known[number % len(known)].name for number in range(names))
    blocks = (block_of[name].replace(f"Host {name}\n", f"Host n{at:03}\n") for at, name in enumerate(owners))
    (known[0].ssh_config.parent / "names_config").write_text("\n\n".join(blocks) + "\n")


def share_lock(machine: Machine) -> None:
    """Gives every login its own lock file."""
    for path, content, mode in (
        ("/usr/local/bin/apart", APART, "755"),
        ("/etc/ssh/sshd_config.d/50-apart.conf", SSHD, "644"),
    ):
        place = ["sudo", "sh", "-c", f"cat >{path} && chmod {mode} {path}"]
        subprocess.run([*_ssh(machine), *map(_quoted, place)], input=content, text=True, check=True, timeout=60)
    subprocess.run([*_ssh(machine), "sudo systemctl reload ssh"], check=True, timeout=60)


def _ssh(machine: Machine) -> list[str]:
    return ["ssh", "-F", str(machine.ssh_config), machine.name]


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def measured(names: int) -> dict[str, float]:
    """Returns seconds, requests to each host and pyinfra's CPU, memory and open files. Raises if a name changed."""
    argv = [sys.executable, "-m", "benchmarks.pyinfra_counters", INVENTORY, "deploy.py", "-y"]
    environment = {**os.environ, "CONVERGE_NAMES": str(names)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an operator's second run finds all modules compiled
    began = time.monotonic()
    done = subprocess.run(
        argv, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
    )
    seconds = time.monotonic() - began
    (Places.here().root / "converge.log").write_text(done.stdout + done.stderr)
    total = TOTAL.search(done.stdout + done.stderr)
    counted = json.loads(done.stdout.strip().splitlines()[-1]) if done.stdout.strip() else {}
    if done.returncode or not total or total[1] != total[4]:
        raise RehearsalRefused(f"the run of {names} names was not silent\n{(done.stdout + done.stderr)[-3000:]}")
    return {
        "names": names,
        "seconds": round(seconds, 2),
        "cpu_seconds": counted["cpu_seconds"],
        "memory_mib": counted["memory_mib"],
        "open_files": counted["open_files"],
        "commands_per_host": round(counted["commands"] / names, 1),
        "operations_per_host": round(int(total[1]) / names, 1),
    }


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns all runs, and the CPU milliseconds of one more name, from the difference of the largest and the
    smallest run."""
    least, most = min(runs, key=lambda run: int(run["names"])), max(runs, key=lambda run: int(run["names"]))
    further = (most["cpu_seconds"] - least["cpu_seconds"]) / max(1, most["names"] - least["names"])
    return {
        "runs": list(runs),
        "cpu_milliseconds_a_further_host": round(1000 * further, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
