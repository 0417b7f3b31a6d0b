"""Facts of a host for the MIG role, asked in one command."""

from roles import cards
from roles._pyinfra.facts import ask_files, ask_units, ask_value, script
from roles._pyinfra.role_facts import RoleFact
from roles.mig import defaults

# The cutting program stops Triton's processes; the daemons release the GPU themselves or are stopped too.
_USERS = (
    "ours=$(docker ps --no-trunc --quiet --filter name=^triton- --filter name=^llm- 2>/dev/null | paste -sd'|'); "
    "find /proc/[0-9]*/fd \\( -lname '/dev/nvidia[0-9]*' -o -lname '/dev/nvidia-caps/*' \\) -printf '%h\\n'"
    ' | sort -u | while read -r d; do p=${d%/fd}; [ -n "$ours" ] && grep -qE "$ours" $p/cgroup && continue; '
    "n=$(cat $p/comm); case $n in nvidia-persiste*|nv-hostengine|nvsm*|nvidia-smi|nv-fabricmanage*) ;; "
    '*) echo "${p#/proc/} $n" ;; esac; done'
)


class CutHost(RoleFact):
    """Modes, instances and users of every GPU, and the files that cut them again at boot."""

    def command(self) -> str:
        """The script with all commands; the host may have no driver yet."""
        return script(
            ask_files(defaults.UNIT, defaults.CUT),
            *cards.fact_commands(),
            ask_units(defaults.REFRESH),
            ask_value("boot", "cat /proc/sys/kernel/random/boot_id"),
            ask_value("users", _USERS),
        )
