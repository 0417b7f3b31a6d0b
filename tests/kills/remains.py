"""The state a run leaves on a host, to compare an interrupted and repeated run with an uninterrupted one.

The whole state is compared instead of a search for known names. So a staging directory, a temporary file, a unit, a
container, a hold or a process that an uninterrupted run would not have left is found under any name, and so is an
incomplete file under its final name.
"""

from __future__ import annotations

import re

from rehearsal.machine import Machine

ROOTS = "/etc /usr/local /opt /srv /root /home /tmp /var/tmp /var/lib/enginehouse /run/enginehouse"
ASKED = {
    "path": rf"find {ROOTS} -printf '%p\t%y %m %u %l\n'",
    "content": f"find {ROOTS} -type f -exec sha256sum {{}} + | sed -E 's/^(\\S+)  (.*)/\\2\\t\\1/'",
    # Names without versions, since Debian publishes updates between two runs. Versions that a plan pins are checked by
    # the second run.
    "package": r"dpkg-query -W -f '${Package}\t${db:Status-Abbrev}\n'",
    "half a package": r"dpkg --audit; ls -A /var/lib/dpkg/updates",
    "hold": "apt-mark showhold",
    "failed unit": "systemctl list-units --failed --plain --no-legend | cut -d' ' -f1",
    "unread unit": "systemctl show --property Id,NeedDaemonReload '*' | grep -B1 =yes | grep Id=",
    "unit at boot": "systemctl list-unit-files --state=enabled --no-legend | tr -s ' ' | cut -d' ' -f1",
    "transient unit": "find /run/systemd/transient -type f -printf '%f\n' | grep -vE '^(session|docker)-'",
    "container": r"docker ps --all --format '{{.Names}}\t{{.State}}'",
    "image": r"docker image ls --all --digests --format '{{.Repository}}\t{{.ID}} {{.Digest}}'",
    "network": r"docker network ls --format '{{.Name}}\t{{.Driver}}'",
    "mount": "findmnt --noheadings --list --output TARGET,FSTYPE | grep -vE 'docker|containerd|/run/user|credentials'",
    # Processes started over SSH that still run, as an apt-get or an rsync. Open logins belong to the harness.
    "process": "cat $(find /sys/fs/cgroup -path '*/session-*' -name cgroup.procs) 2>/dev/null"
    " | xargs -r ps -o args= -p | grep -vE '^(sshd|ps|\\(sd-pam|/usr/lib/systemd/systemd)'",
}
VARIES = re.compile(
    r"path /var/lib/enginehouse/(metrics(/.*)?|servers/main/\.?watch\.json(\.new)?)$"
    # Runtime directories of timers that run every minute.
    r"|path (/var)?/tmp/systemd-private-enginehouse-(watch@\S+|gpu-state)\.service(/tmp)?$"
    # An empty directory that remains where a pull began after the last boot: pulls run beside the driver's
    # installation, which reboots.
    r"|path /run/enginehouse/registry$"
    r"|content /(etc/(machine-id|hostname|hosts|mtab|shadow|ssh/.*|resolv\.conf|.*-|ld\.so\.cache|docker/key\.json)"
    r"|run/enginehouse/triton-main/key"
    r"|var/lib/enginehouse/(history\.jsonl|probes/.*|servers/main/.*\.json|metrics/.*|cache/.*))$"
)
"""Differences between two uninterrupted runs: keys, times, durations, files of later timers, and in /etc/shadow the day
on which a package created its user."""
PRIVATE = re.compile(r"systemd-private-[0-9a-f]{32}-(\S+?\.service)-\w{6}")


def remains(machine: Machine) -> dict[str, str]:
    """Returns everything of this host that a deploy may leave, as "kind name" and its content."""
    lines: dict[str, str] = {}
    for kind, question in ASKED.items():
        for line in machine.run(f"{question}; true").stdout.splitlines():
            name, _, value = PRIVATE.sub(r"systemd-private-\1", line).partition("\t")
            lines[f"{kind} {name}"] = value
    return {name: value for name, value in lines.items() if not VARIES.match(name)}


def differences(remaining: dict[str, str], wanted: dict[str, str]) -> list[str]:
    """Returns lines for each remaining, missing or different item."""
    return [
        f"{name}: {remaining.get(name, 'missing')!r}, uninterrupted {wanted.get(name, 'not there')!r}"
        for name in sorted(remaining.keys() | wanted.keys())
        if remaining.get(name) != wanted.get(name)
    ]
