"""Commands that copy an engine from its host to the control machine, and from there to other hosts."""

import shlex

from pyinfra import logger
from pyinfra import state as run_state
from pyinfra.api import Host, State, StringCommand
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand

from deploy.refusals import Refusal
from deploy.slices.host import EngineSlice
from roles._shipping.places import command
from roles._shipping.rsync import BY_CONTENT, PROGRESS, RESUMING, rsync_target, transfer
from roles.engines.defaults import Defaults
from roles.engines.keep import Kept


class Carry(PyinfraCommand):
    """A command about one engine, its cached copy and a host; a refusal meanwhile is logged under the host's name."""

    verb = ""

    def __init__(self, engine: EngineSlice, kept: Kept, settings: Defaults) -> None:
        super().__init__()
        self.engine, self.kept, self.settings = engine, kept, settings

    def __repr__(self) -> str:
        return f"{self.verb} {self.engine.name}"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        try:
            return self.done(host, connector_arguments)
        except Refusal as problem:
            for line in str(problem).splitlines():
                host.log_styled(line, fg="red", log_func=logger.error)
            return False

    def done(self, host: Host, arguments: ConnectorArguments) -> bool:
        """True once the command's work is done. Raises: a Refusal with the reason if it is not."""
        raise NotImplementedError


class Collect(Carry):
    """Copies the engine of this host into the cache, checked to its last byte, and into a declared store."""

    verb = "collect"

    def done(self, host: Host, arguments: ConnectorArguments) -> bool:
        if not self.kept.is_cached(self.engine):
            how, there = rsync_target(host, bool(arguments.get("_sudo")), self.engine.path)
            staging = self.kept.staging(self.engine)
            begun = [BY_CONTENT] if any(staging.iterdir()) else []
            argv = [*RESUMING, *begun, "--exclude=.*", *PROGRESS, *how, there, f"{staging}/"]
            if not transfer(host, argv, f"engine {self.engine.model}", self.settings):
                return False
            self.kept.publish(self.engine)
        self.kept.put_away(self.engine)
        return True


class Fetch(Carry):
    """Copies the cached engine to the host: first into another directory, where every byte is checked, and then
    renamed."""

    verb = "fetch"

    def done(self, host: Host, arguments: ConnectorArguments) -> bool:
        source = self.kept.brought(self.engine)
        path = self.engine.path
        parent, _, last = path.rpartition("/")
        incoming = f"{parent}/.{last}.incoming"
        i, p = shlex.quote(incoming), shlex.quote(path)
        _, output = self._run(host, f"if test -e {i}; then echo begun; else mkdir -p {i}; fi", arguments)
        begun = [BY_CONTENT] if "begun" in output else []
        how, there = rsync_target(host, bool(arguments.get("_sudo")), incoming)
        argv = [*RESUMING, *begun, "--delete", *PROGRESS, *how, f"{source}/", there]
        if not transfer(host, argv, f"engine {self.engine.model}", self.settings):
            return False
        checked, output = self._run(host, f"{command('engine')} verify {i} 2>&1", arguments)
        if not checked:
            self._run(host, f"rm -rf {i}", arguments)
            self.kept.check_again(self.engine)
            raise self._not_as_sent((output or ["nothing"])[0])
        return self._run(host, f"rm -rf {p} {p}.refused && sync {i}/engine.json && mv -T {i} {p}", arguments)[0]

    @staticmethod
    def _run(host: Host, command: str, arguments: ConnectorArguments) -> tuple[bool, list[str]]:
        done, output = host.run_shell_command(StringCommand(command), **arguments)
        return done, list(output.stdout_lines)

    def _not_as_sent(self, reason: str) -> Refusal:
        return Refusal(
            f"engine {self.engine.model} ({self.engine.fingerprint}) is not accepted by this host",
            facts={"found": reason, "sent from": str(self.kept.cached(self.engine))},
            attempt="run again; if that fails too, remove that directory: a copy is fetched, or a new engine built",
            state="it was not published; running servers are not affected",
            kind="engine-not-accepted",
        )


def left_by_builder(engine: EngineSlice, builder: str) -> Refusal:
    """The refusal of a host that should fetch an engine, although no builder made it."""
    lost = builder and builder not in {peer.name for peer in run_state.active_hosts}
    why = "did not finish it; its own messages are above" if lost else "has not finished it"
    return Refusal(
        f"engine {engine.model} ({engine.fingerprint}) was to come from {builder or 'another host'}, which {why}",
        attempt="correct the cause on that host, and run again: until then this host changes nothing",
        state="nothing was changed here; running servers are not affected",
        kind="engine-not-built-elsewhere",
    )


def cannot_check(engine: EngineSlice, reason: str) -> Refusal:
    return Refusal(
        f"this host cannot check engine {engine.model} ({engine.fingerprint})",
        facts={"said": reason},
        attempt="install the missing program (apt-get install openssh-client), and run again",
        state="the engine is unchanged; running servers are not affected",
        kind="engine-not-checkable",
    )
