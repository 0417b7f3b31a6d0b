"""Finds lines of a run's log that change a card that was only lent: modes, clocks, limits, driver, place on the bus.

    python -m rehearsal.real_gpu.untouched LOG...     prints such lines; exit 1 if there are any

An option of nvidia-smi that is not known to read counts as one that changes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

READING = {
    "": {
        *("-L", "--list-gpus", "-B", "--list-excluded-gpus", "-q", "--query", "-x", "--xml-format", "-u", "--unit"),
        *("-d", "--display", "-i", "--id", "-f", "--filename", "-l", "--loop", "-lms", "--loop-ms", "--dtd", "-h"),
        *("--help", "--version", "--format", "--debug"),
    },
    "mig": {
        *("-h", "--help", "-i", "--id", "-gi", "--gpu-instance-id", "-ci", "--compute-instance-id", "-lgip", "-lgipp"),
        *("-lgi", "-lcip", "-lcipp", "-lci", "--list-gpu-instance-profiles", "--list-gpu-instances"),
        *("--list-gpu-instance-possible-placements", "--list-compute-instance-profiles", "--list-compute-instances"),
    },
    "conf-compute": {
        *("-h", "--help", "-i", "--id", "-f", "--get-cc-feature", "-e", "--get-environment", "-d"),
        *("-gc", "--get-cpu-caps", "-gg", "--get-gpus-caps", "-gm", "--get-mem-size-info", "-grs"),
        *("--get-devtools-mode", "--get-gpus-ready-state", "-q"),
    },
    "nvlink": {"-h", "--help", "-i", "--id", "-l", "-s", "--status", "-c", "--capabilities", "-e", "--errorcounters"},
    "topo": {"-h", "--help", "-m", "--matrix", "-mp", "-i", "-c", "-n", "-gnid", "-p", "-p2p", "-nvme"},
    "dmon": {"-h", "-i", "-d", "-c", "-s", "-o", "-f", "--gpm-metrics", "--format"},
    "pmon": {"-h", "-i", "-d", "-c", "-s", "-o", "-f"},
}
"""Options of nvidia-smi that only read, by its subcommand; in addition to every --query-… and --help-…."""
_SMI = re.compile(r"(?<![\w.-])nvidia-smi(?![\w.-])([^;|&>)`\n]*)")
_PATH = r"(?:/[\w/.-]*/)?"
_BEFORE = r"(?:[;|&(`{+]|\$\(|\b(?:sudo|exec|then|do|nohup|command|bash)\s|\b(?:ba|da)?sh -\w*c\s|ExecStart=)\s*"
_START = rf"(?:^|{_BEFORE}){_PATH}"
_PROGRAMS = r"(?:nvidia-(?:modprobe|persistenced|settings|cuda-mps-(?:control|server))|reload-modules)\b(?![.\w-])"
_UNITS = r"(?:nvidia-(?:persistenced|fabricmanager|powerd|dcgm)|nv-hostengine|enginehouse-mig)"
_MODULES = r"nvidia(?:[-_](?:uvm|drm|modeset|peermem|current\S*))?(?:\.ko\S*)?"
_PACKAGES = r"(?:lib)?nvidia-(?!container|ctk)[\w-]*|libcuda1|linux-modules-nvidia[\w-]*|firmware-nvidia[\w-]*"
COMMANDS = [
    re.compile(pattern)
    for pattern in (
        # A name alone on its line is an entry of a listing.
        rf"(?:{_BEFORE}{_PATH}{_PROGRAMS}|^{_PATH}{_PROGRAMS}\s+\S)",
        rf"{_START}(?:modprobe|rmmod|insmod)\b[^;|&]*?\s(?:/\S*/)?{_MODULES}(?=[\s;)]|$)",
        rf"\bsystemctl\b[^;|&]*\b(?:re|try-re|reload-or-re)?(?:start|load|enable|stop|disable|mask|kill)\b[^;|&]*{_UNITS}",
        rf"\b(?:apt-get|apt|dpkg|aptitude)\b[^;|&]*\s(?:install|upgrade|remove|purge|-i|-P|-r)\b[^;|&]*\s'?(?:{_PACKAGES})\b",
        r">\s*/proc/driver/nvidia/|>\s*/sys/(?:bus|module|devices)/\S*(?:reset|remove|rescan|(?:un)?bind|nvidia)",
        r"\bhost mig apply\b|\bdcgmi\s+(?:config\s+--set|diag|policy\s+--set)",
        r"(?:>|\bmkdir -p)\s*\S*/nvidia-persistenced\.service\.d\b",
    )
]
"""Commands of other programs that change a card or its driver."""
MESSAGES = re.compile(
    r"\b(?:Enabled|Disabled) (?:Legacy )?persistence mode for GPU|\bEnabled ECC|\bDisabled ECC|\bECC support for GPU"
    r"|\b(?:Enabled|Disabled) MIG Mode for GPU|MIG mode is in pending|\bSuccessfully (?:created|destroyed) \w+ instance"
    r"|\bPower limit for GPU .* was set|\bclocks set to\b|\bset compute mode to|was successfully reset"
    r"|Reset (?:GPU|memory|applications) clocks|Persistence mode is deprecated",
    re.IGNORECASE,
)
"""Messages of nvidia-smi and the driver's log after a change."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ADVICE = re.compile(r"^(?:\W*\[[^]]*\])?\W*try\s{2,}")


def touches_card(text: str) -> list[str]:
    """Returns lines that change a card or its driver, or report such a change; stripped, in their order.

    A line of advice (`try     …`, as refusals print it) tells a person and changes nothing. Lists of words
    (`['nvidia-smi', '-pm', '1']`) and line ends written as \\n count as what they are.
    """
    lines = (line.strip() for line in _COLOUR.sub("", text).replace("\\n", "\n").splitlines())
    return [line for line in lines if not _ADVICE.search(line) and _changes(line)]


def _changes(line: str) -> bool:
    words = re.sub(r"""["',\[\]\\]+""", " ", line)
    return (
        bool(MESSAGES.search(line))
        or any(map(_sets, _queries(words)))
        or any(pattern.search(words) for pattern in COMMANDS)
    )


def _queries(words: str) -> Iterator[list[str]]:
    for match in _SMI.finditer(words):
        yield match[1].split()


def _sets(arguments: list[str]) -> bool:
    """Returns True if nvidia-smi was given an option that does not merely read."""
    verb = next(iter(arguments), "")
    reading = READING.get(verb, READING[""])
    options = [word.partition("=")[0] for word in arguments if re.match(r"--?[A-Za-z]", word)]
    return any(option not in reading and not option.startswith(("--query-", "--help-")) for option in options)


def main(paths: list[str]) -> int:
    """Returns 1 if a log has such a line."""
    match = [(path, line) for path in paths for line in touches_card(Path(path).read_text(errors="replace"))]
    for path, line in match:
        print(f"{path}: {line[:400]}")
    return 1 if match else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
