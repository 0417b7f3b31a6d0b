"""Facts of a host for the firewall role, asked in one command."""

from roles._pyinfra.facts import ask_files, ask_packages, ask_units, ask_value, script
from roles._pyinfra.role_facts import RoleFact
from roles._pyinfra.undo import KEPT
from roles.firewall import defaults

# sshd's configured ports, those it listens on, and the one of every connection it serves: ours is among them. Somebody
# listens there (systemd may, for sshd); nobody does where sshd connects to what a client forwards a port to. Ports that
# a client has sshd listen at (`ssh -R`) are loopback's, which the rules leave open.
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
