"""The command that judges a built engine on the control machine and signs it there; hosts load only signed engines."""

import json
import shlex
from typing import Any

from pyinfra import logger
from pyinfra.api import Host, State, StringCommand
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand

from deploy.io.local_paths import local_path
from deploy.refusals import Refusal
from deploy.rollout import replay
from deploy.rollout.replay import Answer, Verdict
from deploy.slices.host import EngineSlice, ReplaySlice
from deploy.spec import EngineTrust
from roles._pyinfra.answers import MALFORMED, unreadable
from roles._shipping.places import command
from roles.engines.remote import read, replace
from roles.engines.trust import STATE, sign


class Sign(PyinfraCommand):
    """Judges the engine on this host by its answers, and signs it."""

    def __init__(self, engine: EngineSlice, trust: EngineTrust) -> None:
        super().__init__()
        self.engine, self.trust = engine, trust

    def __repr__(self) -> str:
        return f"judge and sign {self.engine.path}"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True once the host's own check accepts the signature."""
        try:
            self._sign(host, connector_arguments)
        except MALFORMED as error:
            problem = unreadable("the record and the answers of a built engine", error, executing=True)
        except Refusal as refusal:
            problem = refusal
        else:
            return True
        for line in str(problem).splitlines():
            host.log_styled(line, fg="red", log_func=logger.error)
        return False

    def _sign(self, host: Host, arguments: ConnectorArguments) -> None:
        record = read(host, f"{self.engine.path}/engine.json", arguments) or b"{}"
        self._require_planned(json.loads(record))
        if self.engine.replay:
            verdict = self._judge(host, arguments, self.engine.replay)
            if not verdict.is_good:
                raise replay.regression(f"engine {self.engine.model} ({self.engine.fingerprint})", verdict)
            host.log(f"engine {self.engine.model}: {verdict.sentence}", log_func=logger.info)
        elif self.engine.lacks_replay:
            raise replay_missing(self.engine)
        elif self.engine.unjudged:
            record = self._with_reason(host, arguments, json.loads(record))
            host.log(f"engine {self.engine.model}: signed unjudged: {self.engine.unjudged}", log_func=logger.info)
        replace(host, f"{self.engine.path}/engine.json.sig", sign(record, self.trust), arguments)
        self._require_accepted(host, arguments)

    def _with_reason(self, host: Host, arguments: ConnectorArguments, record: dict[str, Any]) -> bytes:
        """The record with the reason for not judging the engine; it is signed, and written to the host too."""
        text = json.dumps(record | {"unjudged": self.engine.unjudged}, indent=2, sort_keys=True) + "\n"
        replace(host, f"{self.engine.path}/engine.json", text.encode(), arguments)
        return text.encode()

    def _require_accepted(self, host: Host, arguments: ConnectorArguments) -> None:
        """Removes a signature that the host's own check does not accept, and fails."""
        path = shlex.quote(self.engine.path)
        verify = f"{command('engine')} verify {path} --quick 2>&1 || {{ rm -f {path}/engine.json.sig; exit 1; }}"
        done, output = host.run_shell_command(StringCommand(verify), **arguments)
        if not done:
            raise self._refusal("is not accepted by its host", {"found": (list(output.stdout_lines) or ["nothing"])[0]})

    def _require_planned(self, record: dict[str, Any]) -> None:
        """Refuses a record with other fields under this fingerprint: a forgery, or a defect of this project."""
        if record.get("fingerprint") != self.engine.fingerprint or record.get("fields") != _plain(self.engine.fields):
            raise self._refusal("is another engine by its engine.json", {"path": self.engine.path})

    def _judge(self, host: Host, arguments: ConnectorArguments, limits: ReplaySlice) -> Verdict:
        content = read(host, f"{self.engine.path}/answers.jsonl", arguments)
        if content is None:
            raise self._refusal("has no answers to the prompts of its replay", {"wanted": "answers.jsonl beside it"})
        tasks = replay.tasks(local_path(limits.tasks).read_text()) if limits.tasks else []
        return replay.judge(self._wanted(host, arguments, limits), replay.answers(content.decode()), tasks, limits)

    def _wanted(self, host: Host, arguments: ConnectorArguments, limits: ReplaySlice) -> list[Answer]:
        """The stored answers, or the checkpoint's own answers from the host."""
        if limits.answers:
            return replay.answers(local_path(limits.answers).read_text())
        reference = read(host, f"{self.engine.path}/reference.jsonl", arguments)
        if reference is None:
            raise self._refusal(
                "has no stored answers for a comparison", {"wanted": "reference.jsonl, or Replay.answers"}
            )
        return replay.answers(reference.decode())

    def _refusal(self, problem: str, facts: dict[str, str]) -> Refusal:
        return Refusal(
            f"engine {self.engine.model} ({self.engine.fingerprint}) {problem}",
            facts=facts,
            attempt=f"remove {self.engine.path} on the host and run again: it is built anew",
            state=STATE,
            kind="engine-not-signed",
        )


def replay_missing(engine: EngineSlice) -> Refusal:
    """The refusal of an engine that would be built and signed without a replay or a reason against one.

    The plan accepts it because the same engine was signed before; that engine, or its signature, is gone.
    """
    return Refusal(
        f"engine {engine.model} ({engine.fingerprint}): the signed engine is gone, "
        "and a new one would be signed without a comparison",
        facts={"found": "replay=None in the inventory", "wanted": "prompts for a comparison, or a reason for none"},
        attempt='Replay(prompts="replay/prompts.jsonl"), or Replay.none(reason="…"), then run again',
        state="nothing was built or signed; running servers are not affected",
        kind="unjudged-engine",
    )


def _plain(fields: object) -> object:
    return json.loads(json.dumps(fields))
