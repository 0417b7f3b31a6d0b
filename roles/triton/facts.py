"""Facts: the release of each Triton server of a host, and whether CUDA has been proven for it."""

import shlex
from dataclasses import dataclass, field

from pyinfra.api import FactBase

from roles._shipping.places import PROBES, RELEASES, SERVERS, UNITS


@dataclass(frozen=True)
class ServerState:
    """State of a server: its releases by name, and systemd's state of its unit and of its swap's."""

    current: str = ""
    previous: str = ""
    active: str = "inactive"
    enabled: str = ""
    with_docker: str = ""
    """"yes" if the unit also starts with Docker's, as units of this version do."""
    swap: str = "inactive"
    cut: str = ""
    """"yes" if a swap was interrupted and not yet undone; the next start of the unit undoes the swap."""
    left: str = ""
    """"yes" if the unit has its own settings, as every planned server's has."""
    llm: str = ""
    """State of the unit of the LLM beside Triton, if the current release has one."""
    llm_enabled: str = ""

    def serves(self, release: str) -> bool:
        return self.current == release and {self.active, self.llm or "active"} == {"active"} and not self.cut

    @property
    def has_llm(self) -> bool:
        return self.llm_enabled == "enabled"

    @property
    def is_gone(self) -> bool:
        return (
            self.active in ("inactive", "unknown")
            and self.enabled != "enabled"
            and not self.current + self.left + self.llm_enabled
        )


@dataclass(frozen=True)
class TritonState:
    """The releases published on the host, and its servers, including servers of earlier plans.

    `orphans`: servers with a container but no running or starting unit.
    """

    releases: frozenset[str] = frozenset()
    servers: dict[str, ServerState] = field(default_factory=dict)
    orphans: frozenset[str] = frozenset()
    llm_orphans: frozenset[str] = frozenset()

    def server(self, name: str) -> ServerState:
        return self.servers.get(name, ServerState())


class TritonServers(FactBase[TritonState]):
    """Fact: the state of all servers at once; a bare host has none."""

    def command(self) -> str:
        link = 'basename "$(readlink "$d/{0}" 2>/dev/null)"'
        unit = 'systemctl {0} "{1}@$s.service" 2>/dev/null || true'
        lines = " ".join(
            [
                f'echo "current=$({link.format("current")})";',
                f'echo "previous=$({link.format("previous")})";',
                f'echo "active=$({unit.format("is-active", "triton")})";',
                f'echo "enabled=$({unit.format("is-enabled", "triton")})";',
                f'test -L "{UNITS}/docker.service.wants/triton@$s.service" && echo "with_docker=yes";',
                f'echo "swap=$({unit.format("is-active", "enginehouse-swap")})";',
                'test -f "$d/swap.json" && echo "cut=yes";',
                f'test -d "{UNITS}/triton@$s.service.d" && echo "left=yes";',
                f'test -e "$d/current/llm/run" && echo "llm=$({unit.format("is-active", "llm")})";',
                f'test -L "{UNITS}/multi-user.target.wants/llm@$s.service" && echo "llm_enabled=enabled";',
            ]
        )
        releases = f'for r in {RELEASES}/*/server.json; do test -f "$r" && echo "release=$(basename "${{r%/*}}")"; done'
        servers = (
            f'for d in {SERVERS}/*/; do test -d "$d" && s=$(basename "$d") && echo "server=$s" && {{ {lines} }}; done'
        )
        orphans = "; ".join(
            f'for s in $({_containers(label)} 2>/dev/null); do case "$({unit.format("is-active", kind)})" in'
            f' inactive|failed|unknown) echo "{word}=$s";; esac; done'
            for label, kind, word in (("server", "triton", "orphan"), ("llm", "llm", "llm-orphan"))
        )
        return f"{releases}; {orphans}; {servers}; true"

    @staticmethod
    def default() -> TritonState:
        return TritonState()

    def process(self, output: list[str]) -> TritonState:
        pairs = [line.split("=", 1) for line in output if "=" in line]
        servers: dict[str, dict[str, str]] = {}
        facts: dict[str, str] = {}
        for key, value in pairs:
            if key == "server":
                facts = servers.setdefault(value, {})
            elif key not in ("release", "orphan", "llm-orphan"):
                facts[key] = value
        releases, orphans, llm_orphans = (
            frozenset(value for key, value in pairs if key == kind) for kind in ("release", "orphan", "llm-orphan")
        )
        states = {name: ServerState(**fields) for name, fields in servers.items()}
        return TritonState(releases, states, orphans, llm_orphans)


def _containers(label: str) -> str:
    return f"docker ps --all --filter label=enginehouse.{label} --format '{{{{.Label \"enginehouse.{label}\"}}}}'"


@dataclass(frozen=True)
class Proof:
    """The key of this combination of image, driver, toolkit and GPUs, and True if CUDA worked with this combination."""

    key: str = ""
    is_proven: bool = False


class Probed(FactBase[Proof]):
    """Fact: the proof for a key; a new driver, toolkit or image makes a new key without a proof."""

    def command(self, image: str, gpus: tuple[int, ...]) -> str:
        parts = [
            f"docker image inspect -f '{{{{.Id}}}}' {shlex.quote(image)}",
            "cat /sys/module/nvidia/version",
            'stat -Lc "%s %Y" "$(command -v nvidia-ctk)"',  # `nvidia-ctk --version` takes 20 times as long
            f"echo gpus {' '.join(map(str, gpus))}",
        ]
        key = f"k=$( {{ {'; '.join(parts)}; }} 2>/dev/null | sha256sum | cut -c1-16)"
        return f'{key}; echo "key=$k"; test -f {PROBES}/$k && echo proven; true'

    @staticmethod
    def default() -> Proof:
        return Proof()

    def process(self, output: list[str]) -> Proof:
        key = next((line[4:] for line in output if line.startswith("key=")), "")
        return Proof(key, "proven" in output)
