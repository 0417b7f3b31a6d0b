"""Facts of a host for the firewall role, asked in one command."""

from roles._pyinfra.facts import ask_files, ask_packages, ask_units, ask_value, script
from roles._pyinfra.role_facts import RoleFact
from roles._pyinfra.undo import KEPT
from roles.firewall import defaults

# Ports in sshd's configuration, ports on which it listens, and ports of the connections that it serves, this run's
# among them. Connections count only on ports with a listener (systemd may listen for sshd): sshd also connects to the
# targets of forwarded ports. Ports of `ssh -R` are on loopback, which the rules leave open.
SSH_PORTS = (
    "{ /usr/sbin/sshd -T | sed -n 's/^port //p';"
    " ss -Htlnp; ss -Htnp state established; } | awk 'NF == 1 { print; next }"
    r' $1 == "LISTEN" && $4 ~ /^(127\.|\[::1\])/ { next }'
    ' { place = $1 == "LISTEN" ? $4 : $3; sub(/.*:/, "", place); if ($1 == "LISTEN") listens[place] = 1 }'
    " /\"sshd/ && place in listens { print place }' | sort -nu"
)


class FirewallHost(RoleFact):
    """The package, our files, True if our table is in force as it was loaded and confirmed, and the ports of SSH."""

    def command(self, is_wanted: bool) -> str:
        return script(
            ask_packages("nftables"),
            ask_files(defaults.RULES, defaults.PROGRAM, defaults.UNIT),
            ask_units(defaults.UNIT_NAME),
            ask_value("loaded", f"bash {defaults.PROGRAM} seen"),
            ask_value("unconfirmed", f"ls {KEPT}/firewall"),
            *((ask_value("ssh-ports", SSH_PORTS),) if is_wanted else ()),
        )
