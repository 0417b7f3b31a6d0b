"""Commands for the difference between the firewall's facts and the wanted state. Pure; `step` runs them."""

from collections.abc import Iterator
from shlex import join

from deploy.refusals import Refusal
from roles._pyinfra import undo
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, Refuse, write
from roles._shipping import apt
from roles._shipping.texts import shipped
from roles.firewall import defaults
from roles.firewall.rules import Guarded, firewall_of, rules


def packages(facts: HostFacts) -> Iterator[Command]:
    """Commands that install nft; its own service stays unchanged, because ours does not need it."""
    yield from apt.install({"nftables": ""}, facts.packages)


def programs(facts: HostFacts) -> Iterator[Command]:
    """Commands that place the program and the unit, neither of which changes the open ports."""
    program = shipped("files/shell/firewall.sh", defaults.PROGRAM, "0755")
    service = shipped(f"files/units/{defaults.UNIT_NAME}", defaults.UNIT)
    if not facts.holds(program.path, program.content):
        yield write(program.path, program.content, program.mode)
    if not facts.holds(service.path, service.content):
        yield write(service.path, service.content, service.mode, then="systemctl daemon-reload")


def in_force(facts: HostFacts, mine: Guarded) -> Iterator[Command]:
    """Commands after which exactly the declared rules are in force, now and after a boot, and SSH still works."""
    firewall = firewall_of(mine)
    assert firewall
    ports = [int(line) for line in facts.value("ssh-ports").split() if line.isdigit()]
    if not ports:
        yield Refuse(_no_ssh())
        return
    wanted, unit = rules(mine, ports), facts.unit(defaults.UNIT_NAME)
    if not unit.starts_at_boot:
        yield f"systemctl enable {defaults.UNIT_NAME}"
    if facts.holds(defaults.RULES, wanted) and facts.value("loaded") and unit.runs:
        if facts.value("unconfirmed"):  # an interrupted run loaded the rules, and the host is about to revert them
            yield from watched(firewall.confirm_seconds).around([])
        return
    yield from watched(firewall.confirm_seconds).around(
        [write(defaults.RULES, wanted)], risky=f"systemctl reload-or-restart {defaults.UNIT_NAME}"
    )


def watched(seconds: int) -> undo.WatchedChange:
    return undo.WatchedChange(
        name="firewall",
        what="the firewall's new rules",
        paths=(defaults.RULES,),
        after=(f"bash {defaults.PROGRAM} load",),
        seconds=seconds,
        attempt="correct `firewall` in the inventory (`ssh` names who may log in), then run again",
    )


def taken_away(facts: HostFacts) -> Iterator[Command]:
    """Commands that remove an earlier plan's firewall; no command if this project never installed a firewall."""
    ours = [path for path in (defaults.UNIT, defaults.RULES, defaults.PROGRAM) if path in facts.files]
    if defaults.UNIT in ours:
        yield f"systemctl disable --now {defaults.UNIT_NAME}"
    if ours:
        yield f"rm -f {join(ours)} && systemctl daemon-reload"


def _no_ssh() -> Refusal:
    return Refusal(
        "the ports of this host's sshd are unknown, so no firewall is loaded",
        facts={"asked": "the output of sshd -T, and of ss for sshd's listeners and connections", "found": "no port"},
        attempt="run as root or with sudo; install iproute2",
        state="no rule was changed",
        kind="no-ssh-port",
    )
