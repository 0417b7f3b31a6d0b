"""The doctor's checks as pieces of shell, and the one script that runs them all. They only read.

They use only bash, coreutils, grep, sed and systemd's own tools, because a bare host has nothing else. Each check is a
separate process with a time limit, and all run in parallel. A process that hangs in the driver cannot even be killed,
so the script does not wait for it: it reads each answer from a pipe within the check's time limit, and ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote

from deploy.doctor.causes import HOST_PATTERN, STAMP
from deploy.doctor.phrases import WITHOUT_CUDA
from deploy.doctor.phrases_kernel import KERNEL_PATTERN
from deploy.models.files import ROOT
from deploy.slices.host import Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from roles._shipping.places import SERVERS, SETTINGS

SECONDS = 15
"""Seconds for every question; nvidia-smi takes two on a host of eight GPUs without persistence."""
MOST_BYTES = 65_536
"""Largest answer in bytes."""
SHORT = 4_000
"""Longest answer in characters whose lines bash itself prefixes with their name, which costs less than another
program."""
LAST = 200
"""Number of the driver's last messages that are read."""
_JOURNAL = "journalctl -q --no-pager"
_LOGGED = f"{_JOURNAL} -b --since=-1d -n 3000 -o cat"
_SERVERS = "-u 'triton@*' -u 'llm@*' -u 'enginehouse-build@*'"
_SERVICES = " ".join(
    f"-u {unit}"
    for unit in (
        *("docker", "containerd", "enginehouse-balancer", "enginehouse-https", "enginehouse-mutual", "haproxy"),
        *("apt-daily", "apt-daily-upgrade", "unattended-upgrades", "chrony", "systemd-timesyncd"),
        *("nvidia-fabricmanager", "nvidia-persistenced", "nvidia-cdi-refresh", "enginehouse-first-boot"),
    )
)
_UPGRADES = "tail -qn 300 $(find /var/log/unattended-upgrades/unattended-upgrades.log -mtime -1)"
"""Command for the end of unattended-upgrades' own log file, if it was written within a day."""
_PHRASED = (
    f"grep -avE {quote(WITHOUT_CUDA)} | LC_ALL=C grep -aoE {quote(HOST_PATTERN)} | sed -E {quote(f's/{STAMP}/ /')}"
    " | sort | uniq -c | head -n 50"
)
"""Command that counts known phrases. Its expression is ASCII, and the C locale halves its cost."""
_KERNEL = "SYSLOG_IDENTIFIER=kernel _TRANSPORT=kernel + SYSLOG_IDENTIFIER=kernel _UID=0"
"""The kernel's messages, and root's in its name: as files/host/gpu_state.py reads them."""
_MESSAGES = f"grep -aE 'NVRM.*Xid|fallen off the bus' | tail -n {LAST}"
_BESIDE = f"LC_ALL=C grep -aE {quote(KERNEL_PATTERN)} | tail -n {LAST}"
"""Command for the kernel's lines beside Xids: a separate question, because a driver that fails to start logs thousands
of lines, which would push out the Xids."""
_PLACES = f"/ {ROOT} /var/lib/docker"
_WRITTEN = f"/ /etc /usr/local /var/lib {ROOT} /var/lib/docker"
_SPECIFICATIONS = "/var/run/cdi/nvidia.yaml /etc/cdi/nvidia.yaml"
_LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.1"
_UNITS = (
    *("'triton@*'", "'llm@*'", "'enginehouse-*'", "docker.service", "nvidia-persistenced.service"),
    *("nvidia-fabricmanager.service", "systemd-journald.service"),
)
_PCI = (
    "for d in /sys/bus/pci/devices/*; do read -r v <$d/vendor && [ $v = 0x10de ] || continue;"
    " read -r i <$d/device; read -r c <$d/class; echo ${d##*/} 10de:${i#0x} $c; done"
)
_USERS = (
    "nvidia-smi --query-compute-apps=pid --format=csv,noheader | grep -x '[0-9][0-9]*' | while read -r p; do"
    ' grep -q docker /proc/$p/cgroup || echo "$p $(cat /proc/$p/comm)"; done'
)
_RECORDS = (
    f"for d in {SERVERS}/*/; do [ -d $d ] || continue; s=${{d%/}} s=${{s##*/}};"
    ' c=$(readlink $d/current) && echo "$s current ${c##*/}"; [ -e $d/swap.json ] && echo "$s cut yes";'
    " for r in verdict watch; do [ -f $d/$r.json ] && echo \"$s $r $(tr '\\n' ' ' <$d/$r.json)\"; done; done"
)
_UNDO = (
    f"cd {SETTINGS}/undo || exit 0; for f in */kept.json; do [ -e $f ] && echo ${{f%/*}} waiting; done;"
    " for f in *.taken-back.json; do [ -e $f ] && echo \"${f%.taken-back.json} $(tr '\\n' ' ' <$f)\"; done"
)
_HOLDS = f"for f in {ROOT}/traffic/*.json; do [ -e $f ] && echo \"$(basename $f .json) $(tr '\\n' ' ' <$f)\"; done"
_FIRST_BOOT = (  # the state, without the host's name and plan
    r"""sed -nE 's/^(\{"state": .*), "host": .*(, "since": .*)$/\1\2/p' /var/lib/enginehouse-first-boot/state.json"""
)
_APT = (
    "grep ' POSIX ' /proc/locks | while read -r n t m w p x; do"
    ' [ ! -d /proc/$p ] || ! ls -l /proc/$p/fd | grep -qE "/var/(lib/dpkg|lib/apt/lists|cache/apt/archives)/lock" ||'
    " echo $p $(cat /proc/$p/comm); done | sort -u"
)
_PACKAGES = (
    r"dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' | grep -E '^.([HUF]|.R)' | head -n 20;"
    " for f in /var/lib/dpkg/updates/*; do [ ! -e $f ] || { echo journal; break; }; done"
)
_JUDGED = "haproxy docker-ce docker.io containerd.io containerd runc"
# Held packages, as ours are, begin with `hi`. containerd.io contains its own runc, which is not a package.
_INSTALLED = (
    rf"dpkg-query -W -f='${{db:Status-Abbrev}} ${{Package}} ${{Version}}\n' {_JUDGED} | sed -n 's/^.i *//p';"
    " [ ! -e /usr/share/doc/containerd.io ] || runc --version | sed -n 's/^runc version /runc-binary /p'"
)
_IMAGES = (
    f"for d in {SERVERS}/*/; do f=$d/current/server.json; [ -f $f ] || continue; s=${{d%/}};"
    r""" echo "${s##*/}" $(sed -nE 's/^ *"(triton_core|trtllm)": "([^"]*)".*/\1 \2/p' $f); done"""
)
LINKS = (
    f"for d in {SERVERS}/*/; do c=$(readlink $d/current) s=${{d%/}}; f={ROOT}/cache/${{c##*/}}.llm/all-reduce.txt;"
    r""" [ ! -f $f ] || sed -nE "s/^# Avg bus bandwidth *: *([0-9.]{1,20}).*/${s##*/} \1/p" $f; done"""
)
# A shared lock, so that two readers do not mistake each other for a run. Without read access the state is unknown.
_LOCK = "f=/run/enginehouse.lock; if [ -r $f ] && ! flock -ns $f true; then grep . $f || echo '{}'; fi"
_LISTENING = "grep -h ' 0A ' /proc/net/tcp /proc/net/tcp6 | while read -r n a r s x; do echo $a $s; done"
_NO_SMI = "nvidia-smi: command not found"
"""Message for a missing nvidia-smi, as deploy/doctor/archive.py admits it; a shell's own message has a line number."""
_READY = """ready() {
  exec 3<>/dev/tcp/$2/$3 && printf 'GET %s HTTP/1.1\\r\\nHost: h\\r\\nConnection: close\\r\\n\\r\\n' "$5" >&3 &&
    read -r -t 5 _ code _ <&3; echo "$1 $4 ${code:-}"; code=; exec 3>&-
}"""
_METRICS = """metrics() {
  exec 3<>/dev/tcp/$2/$3 && printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3 &&
    timeout 5 cat <&3 |
    grep -aE '^nv_trt_llm_[a-z_]*[{][^}]*"(fraction|paused_requests)"|^enginehouse_llm_cache_share' |
    sed "s/^/$1 /"; exec 3>&-
}"""
_COLLECT = """
declare -A at of; order=() line=$'\\n'
begin() {
  exec {fd}< <(exec 2>&1 </dev/null; trap 'printf "\\n\\001%s" $?' EXIT; eval "$2")
  at[$1]=$fd of[$1]=$! order+=("$1")
}
fell() {
  for child in $(cat /proc/$1/task/*/children 2>/dev/null); do (fell $child); done; kill -KILL $1 2>/dev/null
}
collect() {
  for name in "${order[@]}"; do
    left=$((@SECONDS@ - SECONDS)); [ $left -ge 1 ] || left=1
    IFS= read -r -d '' -n @BYTES@ -t $left -u ${at[$name]} text; got=$?
    case $text in
      *$'\\n\\001'*) ended=${text##*$'\\n\\001'} text=${text%$'\\n\\001'*} ;;
      *) [ $got -gt 128 ] && ended=late || ended=cut; fell ${of[$name]} ;;
    esac
    if [ ${#text} -gt @SHORT@ ]; then printf '%s\\n' "$text" | sed "s/^/$name|/"
    elif [ -n "$text" ]; then printf '%s|%s\\n' "$name" "${text//$line/$line$name|}"; fi
    printf '%s#%s\\n' "$name" "$ended"
  done
}
"""
"""Prints the answers in the form that deploy/doctor/readings.py parses."""


@dataclass(frozen=True)
class About:
    """Argument of the fact; short in pyinfra's log, which prints a fact's arguments."""

    mine: Slice | BalancerSlice | MonitorSlice

    @classmethod
    def of(cls, mine: Slice | BalancerSlice | MonitorSlice) -> About:
        return cls(mine)

    def __str__(self) -> str:
        return self.mine.host


def names_of(about: About) -> tuple[str, ...]:
    return tuple(questions(about.mine))


def script(about: About) -> str:
    return asking(questions(about.mine))


def asking(pieces: Mapping[str, str], seconds: int = SECONDS) -> str:
    """The command that runs these pieces of shell in parallel, each for `seconds`, and always succeeds.

    It starts no `timeout` and no shell for each piece, which would be a quarter of the doctor's cost on a host.
    """
    values = {"@SECONDS@": seconds, "@BYTES@": MOST_BYTES, "@SHORT@": SHORT}
    collect = _COLLECT.strip()
    for name, value in values.items():
        collect = collect.replace(name, str(value))
    begun = [f"begin {name} {quote(shell)}" for name, shell in pieces.items()]
    return f"bash -c {quote(chr(10).join([collect, *begun, 'collect', 'true']))}"


def questions(mine: Slice | BalancerSlice | MonitorSlice) -> dict[str, str]:
    """Each check's shell, by its name; a balancer is not asked about GPUs or servers."""
    pieces = _of_machine() | {"certificates": _certificates(mine)}
    if isinstance(mine, (BalancerSlice, MonitorSlice)):
        return pieces
    return {**_of_gpus(), **pieces, **_of_servers(mine)}


def _certificates(mine: Slice | BalancerSlice | MonitorSlice) -> str:
    """The expiry of each certificate in use; a gateway without other hosts ignores its old one."""
    gateway = mine.gateway if isinstance(mine, Slice) else None
    used = [f"{SETTINGS}/mutual/host.pem", f"{SETTINGS}/mutual/authority.pem"]
    if gateway and gateway.others:
        used += [f"{SETTINGS}/gateway/mutual.pem", f"{SETTINGS}/gateway/authority.pem"]
    named = f"$(grep -ohE '{SETTINGS}/[^ ]*[.]pem' {SETTINGS}/{{balancer,https}}/haproxy.cfg | sort -u)"
    expiry = 'echo "$f $(openssl x509 -noout -enddate -in $f)"'
    return f"{{ for f in {named} {' '.join(used)}; do [ ! -e $f ] || {expiry}; done; }} 2>/dev/null"


def _of_gpus() -> dict[str, str]:
    return {
        "smi": f"command -v nvidia-smi >/dev/null || {{ echo {_NO_SMI}; exit 127; }}; nvidia-smi -q",
        "gpu-users": f"command -v nvidia-smi >/dev/null || exit 0; {{ {_USERS}; }} 2>/dev/null",
        "pci": _PCI,
        "loaded": "for f in /sys/module/nvidia{,_current}/version; do [ -e $f ] && read -r v <$f && echo $v; done",
        "library": f"[ -e {_LIBRARY} ] && l=$(readlink -f {_LIBRARY}) && echo ${{l##*libcuda.so.}}",
        "nouveau": "[ ! -d /sys/module/nouveau ] || echo loaded",
        "kernel": f"{_JOURNAL} -b 0 -o short-unix {_KERNEL} | {_MESSAGES}; exit ${{PIPESTATUS[0]}}",
        "kernel-before": f"{_JOURNAL} -b -1 -o short-unix {_KERNEL} 2>/dev/null | {_MESSAGES}",
        "mended": f"cat {ROOT}/xids-mended 2>/dev/null",
        "cdi": f"grep -ohE 'libcuda[.]so[.][0-9]+[.][0-9.]+' {_SPECIFICATIONS} 2>/dev/null | sort -u",
        "toolkit": "dpkg-query -W -f='${Version}' nvidia-container-toolkit 2>/dev/null",
    }


def _of_machine() -> dict[str, str]:
    kept = (
        "[ -e /run/systemd/timesync/synchronized ] || systemd-detect-virt -cq"  # a container has its host's clock
        " || systemctl -q is-active chrony ntpsec ntp openntpd"
    )
    # Root may write everywhere except on a read-only file system.
    unwritable = f"[ $EUID = 0 ] || exit 0; for d in {_WRITTEN}; do [ ! -d $d ] || [ -w $d ] || echo $d; done"
    ours = "-u 'triton@*' -u 'llm@*' -u 'enginehouse-*'"
    errors = f"{_JOURNAL} -b -p 0..3 -o json --output-fields=_SYSTEMD_UNIT -n 500 {ours}"
    return {
        "user": "echo $EUID",
        "ptrace-scope": "cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null",
        "clock": "printf '%(%s)T' -1",
        "clock-kept": f"{{ {kept}; }} && echo yes || echo no",
        "room": f"df -Pk {_PLACES} 2>/dev/null | {{ read -r _; sort -u; }}",
        "inodes": f"df -Pi {_PLACES} 2>/dev/null | {{ read -r _; sort -u; }}",
        "unwritable": unwritable,
        "boot-wanted": "[ ! -e /run/reboot-required ] || head -n 3 /run/reboot-required.pkgs",
        "units": "systemctl show --property=Id,LoadState,ActiveState,Result,NRestarts " + " ".join(_UNITS),
        "apt": f"{{ {_APT}; }} 2>/dev/null",
        "packages": f"{{ {_PACKAGES}; }} 2>/dev/null",
        "installed": f"{{ {_INSTALLED}; }} 2>/dev/null",
        "errors": rf"{errors} 2>/dev/null | sed -n 's/.*\"_SYSTEMD_UNIT\":\"\([^\"]*\)\".*/\1/p' | sort | uniq -c",
        "kernel-beside": f"{_JOURNAL} -b 0 -o short-unix {_KERNEL} 2>/dev/null | {_BESIDE}",
        "causes": f"{{ {_LOGGED} {_SERVICES}; {_UPGRADES}; }} 2>/dev/null | {_PHRASED}",
        "first-boot": f"{_FIRST_BOOT} 2>/dev/null",
        "lock": _LOCK,
        "undo": f"{{ {_UNDO}; }} 2>/dev/null",
        "listening": f"{{ {_LISTENING}; }} 2>/dev/null",
    }


def _of_servers(mine: Slice) -> dict[str, str]:
    pieces, counted = [], []
    for server in mine.servers:
        address = "127.0.0.1" if server.address in ("0.0.0.0", "::", "") else server.address
        names = [*(model.name for model in server.in_triton), *(model.name for model in server.own_models)]
        paths = {"-": "/v2/health/ready"} | {name: f"/v2/models/{name}/ready" for name in names}
        pieces += [
            " ".join(["ready", *map(quote, (server.name, address, str(server.http_port), name, path))])
            for name, path in paths.items()
        ]
        if server.standalone_llm:
            model, runtime = server.standalone_llm
            words = (server.name, "127.0.0.1", str(runtime.port), model.name, "/health")
            pieces.append(" ".join(["ready", *map(quote, words)]))
        if any(model.path == "engine" for model in server.models):
            counted.append(" ".join(["metrics", *map(quote, (server.name, address, str(server.metrics_port)))]))
    return {
        "servers": f"{{ {_RECORDS}; }} 2>/dev/null",
        "images": f"{{ {_IMAGES}; }} 2>/dev/null",
        "causes": f"{{ {_LOGGED} {_SERVERS}; {_LOGGED} {_SERVICES}; {_UPGRADES}; }} 2>/dev/null | {_PHRASED}",
        "holds": f"{{ {_HOLDS}; }} 2>/dev/null",
        "repair": f"grep -h ^enginehouse_repair {ROOT}/metrics/repair.prom 2>/dev/null",
        "notices": f"grep -h ^enginehouse_notice {ROOT}/metrics/notices.prom 2>/dev/null",
        "metrics": f"exec 2>/dev/null; {_METRICS}; " + "; ".join([*counted, "true"]),
        "links": f"{{ {LINKS}; }} 2>/dev/null",
        "ready": f"exec 2>/dev/null; {_READY}; " + "; ".join([*pieces, "true"]),
    }
