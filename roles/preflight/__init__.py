"""Checks that every host is the machine of the plan: once, before the first change, with all findings at once.

A host with findings fails alone, and the next gate stops the others: an exception would end the run for every host with
the first one's findings. Only a host without root access stops the run at once.
"""

import time
from collections.abc import Generator, Sequence
from functools import partial

from pyinfra import host, state
from pyinfra.api import FunctionCommand, operation

from deploy.refusals import PREFLIGHT, Refusal, Refusals, shortened
from deploy.slices.host import Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from roles._pyinfra import fact_batch
from roles._pyinfra.answers import MALFORMED, unreadable
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Refuse, ask, has_failed, load
from roles._shipping import bundle
from roles.preflight.balancers import BalancerMachine, findings
from roles.preflight.defaults import Defaults, settings
from roles.preflight.facts import About, Login, MachineHost
from roles.preflight.judge import judge, notes

OTHER_LOGINS = ("_sudo_user", "_sudo_password", "_use_sudo_login", "_preserve_sudo_env", "_su_user", "_doas")
"""pyinfra's arguments that run a command as another user."""


def confirm(mine: Slice | BalancerSlice | MonitorSlice, name: str = "Preflight | Confirm the machine") -> None:
    """Confirms that the host matches its slice. Reads only; refuses with every finding, or with the failed read."""
    chosen = settings(host)
    about = About(mine, chosen.connect_seconds) if isinstance(mine, Slice) else None
    login = _entered(about)
    if has_failed(host):  # a missing answer is no finding
        return
    _refuse_login(mine, login, bool(host.data.get("_sudo") or state.config.SUDO))
    facts = ask(host, MachineHost, about=about) if about else ask(host, BalancerMachine)
    if has_failed(host):
        return
    try:
        problems = _problems(facts, mine, chosen, name)
    except MALFORMED as error:
        problems = [unreadable(MachineHost.__name__, error, bool(state.is_executing))]
    _report(problems, name=name)


def _problems(
    facts: HostFacts, mine: Slice | BalancerSlice | MonitorSlice, chosen: Defaults, name: str
) -> list[Refusal]:
    """Every finding about the host; its notes are logged."""
    if isinstance(mine, (BalancerSlice, MonitorSlice)):
        return findings(facts, mine, chosen, time.time())
    problems = judge(facts, mine, chosen, time.time())
    if not facts.value("loaded") and (problem := bundle.kernel_refusal(mine, facts.value("kernel"))):
        problems = [*problems, problem]
    for note in notes(facts, mine):
        host.log(f"{name}: {note}")
    return problems


def _entered(about: About | None) -> dict[str, str]:
    """The login user's name. The same command also asks the following facts, as root; those answers are cached.

    If sudo needs a password, only the name is answered, without a prompt. If the inventory becomes root in another way,
    the command asks only the name.
    """
    if has_failed(host) or any(host.data.get(name) for name in OTHER_LOGINS):
        return ask(host, Login, _sudo=False)
    more = [fact_batch.FactCall(BalancerMachine, {})]
    if about:
        more = [fact_batch.FactCall(MachineHost, {"about": about}), *fact_batch.early_calls()]
    prefix = "sudo -n -H " if host.data.get("_sudo") or state.config.SUDO else ""
    return dict(fact_batch.of(host).enter(fact_batch.FactCall(Login, {}), more, prefix, partial(load, host)))


@operation()
def _report(problems: Sequence[Refusal]) -> Generator[FunctionCommand, None, None]:
    """No change without findings; otherwise the host fails with all of them."""
    if not problems:
        host.noop("this is the declared machine")
        return
    command = Refuse(Refusals(problems))
    if not state.is_executing:
        command.log(host)
    yield command


def _refuse_login(mine: Slice | BalancerSlice | MonitorSlice, login: dict[str, str], asks_sudo: bool) -> None:
    """Raises: a Refusal if no command could run as root, because later facts would stop at a password prompt."""
    user = login.get("user", "")
    if login.get("uid") == "0" or (asks_sudo and login.get("sudo")):
        return
    refusal = shortened(login["refusal"]) if login.get("refusal") else "sudo asks for a password"
    lack, line, file = "password", f"{user} ALL=(ALL) NOPASSWD:ALL", f"90-{user}"
    if "have a tty" in refusal:
        lack, line, file = "terminal", f"Defaults:{user} !requiretty", f"91-{user}"
    attempt = (
        f"echo '{line}' > /etc/sudoers.d/{file} as root on the host"
        if asks_sudo
        else "set `_sudo` to True in the inventory's data, or log in as root"
    )
    raise Refusal(
        f"{mine.host}: user {user or '(unknown)'} cannot become root without a {lack}",
        facts={"found": refusal if asks_sudo else "not root, and the inventory does not use sudo"},
        attempt=attempt,
        state=PREFLIGHT,
        kind="sudo",
    )
