"""Facts of a host for preflight: the login user, and everything about the machine, in one command each.

It uses only bash, coreutils and procfs, because no package is installed yet. Checks that need another program allow for
its absence.
"""

from dataclasses import dataclass
from shlex import join, quote
from urllib.parse import urlsplit

from pyinfra.api import FactBase

from deploy.models.files import ROOT, weights_path
from deploy.slices.host import Slice
from deploy.slices.image import registry_host
from deploy.slices.proxy import ProxySlice, reached_directly
from roles import cards
from roles._pyinfra.facts import ask_value, script
from roles._pyinfra.role_facts import RoleFact
from roles._shipping.places import SETTINGS
from roles.preflight import docker, haproxy, on_host, origins, own_models

_PCI = (
    'for d in /sys/bus/pci/devices/*; do [ "$(cat $d/vendor)" = 0x10de ] && echo $(basename $d)'
    " 10de:$(cut -c3- $d/device) $(cat $d/class); done"
)
_VARIABLE = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_SYSCTL = "/etc/sysctl.conf /{etc,run,usr/local/lib,usr/lib}/sysctl.d/*.conf"
_PTRACE_FILES = f"grep -lsE '^ *-?kernel[./]yama[./]ptrace_scope *= *[23]' {_SYSCTL}"
_NO_OWNER_MATCH = (
    "k=/lib/modules/$(uname -r); ! grep -qsx owner /proc/net/ip_tables_matches"
    ' && grep -qs "/x_tables[.]ko" "$k/modules.dep" "$k/modules.builtin"'
    ' && ! grep -qs "/xt_owner[.]ko" "$k/modules.dep" "$k/modules.builtin" && echo absent'
)
"""Reports a missing module only if the kernel's own list of modules has iptables: another list may be incomplete, or a
driver's."""
_NO_FILTER = "f=/proc/sys/kernel/seccomp/actions_avail; [ ! -d /proc/sys/kernel ] || grep -qsw errno $f || echo absent"
_NEAREST = 'd={path}; while [ ! -d "$d" ]; do d=$(dirname "$d"); done; df -Pm "$d" | tail -n 1'


@dataclass(frozen=True)
class About:
    """Argument of the fact; short in pyinfra's log, which prints a fact's arguments."""

    mine: Slice
    timeout_seconds: int

    def __str__(self) -> str:
        return self.mine.host


class Login(FactBase[dict[str, str]]):
    """User, uid, and "yes" if sudo works without a password, else its message. To be asked with `_sudo=False`."""

    default = dict

    def command(self) -> str:
        return (
            'echo "user=$(id -un)"; echo "uid=$(id -u)"; if refusal=$(LC_ALL=C sudo -n true 2>&1);'
            ' then echo sudo=yes; else echo "refusal=$(echo "$refusal" | head -n 1 | cut -c 1-200)"; fi'
        )

    def process(self, output: list[str]) -> dict[str, str]:
        return dict(line.split("=", 1) for line in output if "=" in line)


class MachineHost(RoleFact):
    """Facts of the machine: system, hardware, room, ports, driver, network."""

    shell_executable = "bash"  # for /dev/tcp, which tries an address on every Debian and Ubuntu

    def command(self, about: About) -> str:
        """The script with all commands; the addresses are tried in parallel."""
        mine = about.mine
        return script(
            ask_value("os", '. /etc/os-release && echo "$ID-$VERSION_ID"'),
            ask_value("kernel", "uname -r"),
            ask_value("architecture", "uname -m"),
            ask_value("systemd", "[ -d /run/systemd/system ] && echo yes"),
            ask_value("cgroup", "stat -f -c %T /sys/fs/cgroup"),
            ask_value("pci", _PCI),
            ask_value("memory-kib", "sed -n 's/^MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo"),
            ask_value("clock", "date +%s"),
            ask_value("ptrace-scope", "cat /proc/sys/kernel/yama/ptrace_scope"),
            ask_value("ptrace-files", _PTRACE_FILES),
            ask_value("owner-match", _NO_OWNER_MATCH),
            ask_value("seccomp", _NO_FILTER),
            *_ask_room(mine),
            *_ask_driver(),
            *(() if mine.driver.manage else cards.fact_commands()),
            *docker.fact_commands(),
            *origins.fact_commands(),
            *(haproxy.fact_commands() if haproxy.units_of(mine) else ()),
            *on_host.fact_commands(mine),
            *own_models.fact_commands(mine),
            *_ask_service(mine),
            *_ask_network(mine, about.timeout_seconds),
        )


def _ask_room(mine: Slice) -> list[str]:
    """Commands for free space of the data directories, data that is already there, and the declared blank disk."""
    disk = mine.data_disk()
    docker = mine.docker.data_root or "/var/lib/docker"
    weights = [f"[ -d {quote(weights_path(planned))} ]" for planned in mine.weights]
    return [
        ask_value("room", _NEAREST.format(path=ROOT)),
        ask_value("docker-room", _NEAREST.format(path=quote(docker))),
        ask_value("inodes", _NEAREST.format(path=ROOT).replace("-Pm", "-Pi")),
        ask_value("used-mib", f"[ -d {ROOT} ] && m=$(timeout 60 du -xsm {ROOT} | cut -f1) && echo ${{m:-unknown}}"),
        # Only a read-only file system refuses root's writes; the kernel makes it read-only after an error.
        ask_value(
            "read-only", f'for d in /etc /usr/local /var/lib {ROOT}; do [ ! -d "$d" ] || [ -w "$d" ] || echo "$d"; done'
        ),
        ask_value("weights", f"{' && '.join([*weights, 'true'])} && echo present"),
        ask_value("image", f"docker image inspect {quote(mine.image.pull_reference)} >/dev/null && echo present"),
        *[ask_value(f"image-{number}", f"{has} >/dev/null && echo present") for number, has in _more_images(mine)],
        ask_value("pulling", "systemctl list-units --plain --no-legend --state=activating 'enginehouse-pull@*'"),
        *(
            [ask_value("disk-bytes", f"lsblk --nodeps --noheadings --bytes --output SIZE {quote(disk.device)}")]
            if disk
            else []
        ),
    ]


def _more_images(mine: Slice) -> list[tuple[int, str]]:
    """(number, question to Docker) for each image of LLMs beside Triton."""
    images = enumerate(mine.runtime_images)
    return [(number, f"docker image inspect {quote(image.pull_reference)}") for number, image in images]


def _ask_driver() -> list[str]:
    return [
        ask_value("loaded", "cat /sys/module/nvidia/version || cat /sys/module/nvidia_current/version"),
        ask_value("nouveau", "[ -d /sys/module/nouveau ] && echo loaded"),
        ask_value("runfile", "command -v nvidia-uninstall || ls /var/log/nvidia-installer.log"),
        ask_value("secure-boot", f"[ $(od -An -tu1 -j4 -N1 {_VARIABLE}) -eq 1 ] && echo on"),
        ask_value("enrolled", "mokutil --test-key /var/lib/dkms/mok.pub | grep 'already enrolled'"),
        ask_value(
            "confidential", "nvidia-smi conf-compute -f | grep -i 'CC status: *ON'; ls /dev/sev-guest /dev/tdx_guest"
        ),
        # Processes on the GPU outside Docker's scopes are not ours. `grep` drops nvidia-smi's message about a missing
        # GPU.
        ask_value(
            "gpu-users",
            "nvidia-smi --query-compute-apps=pid --format=csv,noheader | grep -x '[0-9][0-9]*' | while read -r p; do"
            ' grep -q docker /proc/$p/cgroup || echo "$p $(cat /proc/$p/comm)"; done',
        ),
    ]


def _ask_service(mine: Slice) -> list[str]:
    servers = [f"triton@{server.name}.service" for server in mine.servers]
    servers += [f"llm@{server.name}.service" for server in mine.servers if server.standalone_llm]
    more = ["'enginehouse-gateway@*'"] if mine.gateway else []
    more += ["enginehouse-mutual.service"] if mine.mutual and mine.mutual.port else []
    more += ["enginehouse-https.service"] if mine.https else []
    units = " ".join([join(servers), "enginehouse-traffic.service", *more])
    active = f"systemctl list-units --plain --no-legend --state=active,activating {units}"
    labels = ("server", "llm") if any(server.standalone_llm for server in mine.servers) else ("server",)
    ours = "; ".join(f"docker ps --quiet --filter label=enginehouse.{label}" for label in labels)
    ours = f"{{ {ours}; }}" if len(labels) > 1 else ours
    ports = "{{range .HostConfig.PortBindings}}{{range .}}{{.HostPort}} {{end}}{{end}}"
    listening = 'while read -r n a r s x; do [ "$s" = 0A ] && echo "$a"; done'
    return [
        ask_value("serving", f"{active} | cut -d' ' -f1"),
        ask_value("listening", f"cat /proc/net/tcp /proc/net/tcp6 | {listening}"),
        ask_value("listeners", "ss -Hltnp"),
        ask_value("published", f"{ours} | xargs -r docker inspect -f '{ports}'"),
    ]


def _ask_network(mine: Slice, timeout_seconds: int) -> list[str]:
    """Commands that try each address in the background, except addresses of parts that the host already has."""
    tries = []
    for what, url, have in _sources(mine):
        place = _place(url)
        attempt = f"timeout {timeout_seconds} {_connection(mine.proxy, place, is_plain=url.startswith('http://'))}"
        tries.append(f"{{ {have} || {attempt} || echo {quote(f'{what} {place}')}; }} &")
    return [
        ask_value("proxy", "apt-config dump Acquire::http::Proxy | grep -o '\"..*\"'"),
        ask_value("unreachable", " ".join([*tries, "wait"])),
    ]


_OPEN, _ANSWER = 'exec 3<>"/dev/tcp/$2/$3" && printf', ">&3 && read -r line <&3 && [[ $line =~ ^HTTP/1.[01]\\ "
TUNNEL = f'{_OPEN} "CONNECT %s:%s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" "$0" "$1" "$0" {_ANSWER}(200|407) ]]'
PLAIN = f'{_OPEN} "HEAD http://%s:%s/ HTTP/1.0\\r\\nHost: %s\\r\\n\\r\\n" "$0" "$1" "$0" {_ANSWER}(2|3|404|405|407) ]]'
"""Programs of bash that ask a proxy ($2, $3) for an address ($0, $1). Proxies fetch plain HTTP themselves, and connect
to ports with only TLS."""


def _connection(proxy: ProxySlice | None, place: str, is_plain: bool = False) -> str:
    """Shell that succeeds if HOST:PORT can be connected to, through the proxy unless the host needs no proxy.

    A proxy that asks for a login (407) counts as a success: programs send the login, but this check never does.
    """
    where = join(place.rsplit(":", 1))  # arguments, because the inner shell would expand its own text
    if proxy is None or reached_directly(place.rsplit(":", 1)[0], (*proxy.direct, *proxy.fleet)):
        return f"bash -c '<\"/dev/tcp/$0/$1\"' {where}"
    ask = PLAIN if is_plain else TUNNEL
    return f"bash -c '{ask}' {where} {join(proxy.place)}"


def addresses(mine: Slice) -> list[tuple[str, str, str]]:
    """Each download: purpose, host:port, and shell that succeeds if the host has it already."""
    return [(what, _place(url), have) for what, url, have in _sources(mine)]


def _sources(mine: Slice) -> list[tuple[str, str, str]]:
    """Each download: purpose, URL, and shell that succeeds if the host has it already.

    Files that peers may send are left out: one peer with the files is enough, and that peer is not known yet.
    """
    mirrors, sources = mine.mirrors, []
    if mine.driver.manage and mine.driver.source == "nvidia":
        url = mirrors.nvidia.url if mirrors.nvidia else "https://developer.download.nvidia.com"
        sources.append(("driver-packages", url, "[ -e /usr/lib/x86_64-linux-gnu/libcuda.so.1 ]"))
    if mine.docker.source == "docker":
        url = mirrors.docker.url if mirrors.docker else "https://download.docker.com"
        sources.append(("docker-packages", url, "command -v dockerd >/dev/null"))
    url = mirrors.toolkit.url if mirrors.toolkit else "https://nvidia.github.io"
    sources.append(("toolkit-packages", url, "command -v nvidia-ctk >/dev/null"))
    if mine.https and mine.https.acme:
        sources.append(("the-certificate", mine.https.acme.directory, f"[ -s {SETTINGS}/https/acme.pem ]"))
    image = f"docker image inspect {quote(mine.image.pull_reference)} >/dev/null"
    if not _has_peers(mine, mine.image.files_name, mine.image.digest):
        sources.append(("image", f"https://{mine.image.reference.split('/')[0]}", image))
    for beside, (_, has) in zip(mine.runtime_images, _more_images(mine), strict=True):
        place = registry_host(beside.reference)
        sources.append((f"image-of-{beside.reference.rsplit('/', 1)[-1]}", f"https://{place}", f"{has} >/dev/null"))
    for weights in mine.weights:
        if weights.fetch_on == "host" and not _has_peers(mine, weights.model, weights.revision):
            sources.append((f"weights-of-{weights.model}", mine.hub.endpoint, f"[ -d {quote(weights_path(weights))} ]"))
    return sources


def _has_peers(mine: Slice, name: str, revision: str) -> bool:
    return bool(mine.sharing and mine.sharing.of(name, revision))


def _place(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or (80 if parts.scheme == 'http' else 443)}"
