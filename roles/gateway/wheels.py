"""The gateway's Python packages: chosen for a host's Python, fetched to the control machine by pip, sent by rsync.

The host may have no access to a package index, so the control machine fetches, once for each Python version. Every
wheel is verified by locks/requirements-gateway.lock twice: by pip here, and by pip on the host, which gets the same
hashes.
"""

import hashlib
import shlex
import sys
from functools import cache
from pathlib import Path

from gevent import subprocess
from packaging.requirements import Requirement
from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand

from deploy.refusals import Refusal
from roles._pyinfra.steps import Refuse
from roles._pyinfra.turns import turn
from roles._shipping.rsync import PROGRESS, RESUMING, rsync_target, transfer
from roles._shipping.texts import HERE
from roles.gateway.defaults import Defaults

LOCK = HERE / "locks/requirements-gateway.lock"
CACHE = Path("~/.cache/enginehouse/wheels")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
"""Tags of wheels that run on every OS here, of which the oldest has glibc 2.35 (Ubuntu 22.04)."""


@cache
def requirements(python: str, lock: Path = LOCK) -> str:
    """The lines of the lock for this Python ("3.12") on Linux, hashes included and conditions left out.

    pip would evaluate the conditions for its own Python, which is not the host's.
    """
    about = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
        "platform_system": "Linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    kept: list[str] = []
    for block in _blocks(lock.read_text()):
        named, *hashes = shlex.split(block.replace("\\\n", " "), comments=True)
        requirement = Requirement(block.split("--hash", 1)[0].replace("\\\n", " ").strip())
        if requirement.marker is None or requirement.marker.evaluate(about):
            digests = [word for word in hashes if word.startswith("--hash=")]
            kept.append(" \\\n    ".join([named, *digests]))
    return "\n".join(kept) + "\n"


def _blocks(lock: str) -> list[str]:
    """The lock's entries, each with its indented lines."""
    blocks: list[str] = []
    for line in lock.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line.startswith(" "):
            blocks[-1] += f"\n{line}"
        else:
            blocks.append(line)
    return blocks


def digest(python: str) -> str:
    """16 hex digits that name an environment: the Python version and its packages."""
    return hashlib.sha256(f"{python}\n{requirements(python)}".encode()).hexdigest()[:16]


class SendWheels(PyinfraCommand):
    """Sends the wheels for this Python and `requirements.txt` to `staging` on the host."""

    def __init__(self, python: str, staging: str, settings: Defaults) -> None:
        super().__init__()
        self.python, self.staging, self.settings = python, staging, settings

    def __repr__(self) -> str:
        return f"send the gateway's wheels for Python {self.python} to {self.staging}/"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True once all wheels are on the host."""
        source = CACHE.expanduser() / digest(self.python)
        with turn(source):
            problem = fetch(self.python, source, self.settings)
        if problem:
            Refuse(problem).log(host)
            return False
        how, target = rsync_target(host, bool(connector_arguments.get("_sudo")), self.staging)
        host.log(f"the gateway: {len(list(source.glob('*.whl')))} wheels", log_func=logger.info)
        return transfer(
            host, [*RESUMING, "--delete", *PROGRESS, *how, f"{source}/", target], "the gateway", self.settings
        )


def fetch(python: str, target: Path, settings: Defaults) -> Refusal | None:
    """pip's output if it failed to put every wheel into `target`, else None; present wheels are not downloaded
    again."""
    listed = target / "requirements.txt"
    if listed.exists():
        return None
    target.mkdir(parents=True, exist_ok=True)
    unfinished = target / ".requirements.txt"
    unfinished.write_text(requirements(python))
    ran = subprocess.run(pip_words(python, unfinished, target), capture_output=True, text=True, check=False,
                         timeout=settings.fetch_seconds)  # fmt: skip
    if ran.returncode == 0:
        unfinished.rename(listed)
        return None
    errors = [line for line in ran.stderr.splitlines() if line.startswith("ERROR")] or ran.stderr.splitlines()[-1:]
    return Refusal(
        f"the gateway's packages for Python {python} could not be fetched to this machine",
        facts={
            "asked": "pip download, with the package index that pip is configured for here",
            "said": " ".join(errors),
        },
        attempt=f"let pip reach its index on this machine (pip config list), then run again; or put the wheels of"
        f" {LOCK.name} into {target}; or declare no gateway: gateway=None",
        state="nothing was sent; running servers are not affected",
        kind="wheels-not-fetched",
    )


def pip_words(python: str, listed: Path, target: Path) -> list[str]:
    """The command that fetches for another Python than the running one."""
    words = [sys.executable, "-m", "pip", *download_words(python)]
    return [*words, "--dest", str(target), "--requirement", str(listed)]


def download_words(python: str) -> list[str]:
    """The words with which pip downloads wheels for a Python; it never builds from source here."""
    short = python.replace(".", "")
    abis = [word for abi in (f"cp{short}", "abi3", "none") for word in ("--abi", abi)]
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    words = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    return [*words, "--require-hashes", "--implementation", "cp", "--python-version", python, *abis, *platforms]
