"""Starts a fetch on the host, and sends a directory of the control machine."""

import hashlib
import json
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from shlex import quote
from typing import Any

import gevent
from gevent import subprocess
from pyinfra import state
from pyinfra.api import QuoteString
from pyinfra.api.command import PyinfraCommand, StringCommand

from deploy.io.local_paths import local_path
from deploy.models.files import WEIGHTS, weights_path
from deploy.refusals import Refusal
from deploy.slices.host import Slice, WeightsSlice
from deploy.spec import Hub
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Refuse, write
from roles._pyinfra.turns import turn
from roles._shipping import secrets, units
from roles._shipping.places import FETCH_USER, RUNTIME, SETTINGS, SHARE_USER, UNITS, command
from roles._shipping.texts import Text, shipped
from roles.model_store.defaults import Defaults
from roles.model_store.facts import StoreState
from roles.model_store.manifest import chosen, manifest, sent, spoiled
from roles.model_store.rsync import Rsync

CACHE = Path("~/.cache/enginehouse/weights")
LATER = ("chat_template.jinja",)
"""Files that are fetched since 2026-11: weights that were published without these files stay valid."""


def fetch_unit(weights: WeightsSlice) -> str:
    return f"enginehouse-weights@{weights.model}.service"


def texts(mine: Slice) -> list[Text]:
    """The unit, and one settings file for each model that the host fetches; a private hub's CA beside them."""
    fetched = {weights.model for weights in mine.weights if weights.fetch_on == "host"}
    ca = _ca(mine)
    return [
        shipped("files/units/enginehouse-weights@.service", f"{UNITS}/enginehouse-weights@.service"),
        *(
            [shipped("files/units/enginehouse-share@.service", f"{UNITS}/enginehouse-share@.service")]
            if mine.sharing
            else []
        ),
        *([Text(ca, local_path(mine.hub.ca_file).read_text().rstrip("\n") + "\n")] if ca else []),
        *(Text(path, text) for path, text in fetch_settings(mine, fetched).items()),
    ]


def fetch_settings(mine: Slice, models: Collection[str] | None = None) -> dict[str, str]:
    return {
        f"{SETTINGS}/weights/{weights.model}.json": _settings(weights, mine.hub, _ca(mine))
        for weights in mine.weights
        if models is None or weights.model in models
    }


def _ca(mine: Slice) -> str:
    return f"{SETTINGS}/hub-ca.crt" if mine.hub.ca_file else ""


def accounts(mine: Slice, facts: HostFacts) -> Iterator[str | PyinfraCommand]:
    for user in (FETCH_USER, *([SHARE_USER] if mine.sharing else [])):
        if not facts.value(user):
            yield f"useradd --system --user-group --no-create-home --home-dir / --shell /usr/sbin/nologin {user}"


def start_fetch(weights: WeightsSlice, hub: Hub) -> PyinfraCommand:
    """A command that sends the token into memory on standard input (empty without a token) and starts the unit."""
    directory = quote(f"{RUNTIME}/weights/{weights.model}")
    if problem := secrets.missing(hub.token):
        return Refuse(problem)
    return StringCommand(
        f"mkdir -p {RUNTIME}/weights && install -d -m 0700 {directory} && umask 077 && cat > {directory}/token"
        f" && test -s {directory}/token && {units.start(fetch_unit(weights))} || {{ rm -rf {directory}; exit 1; }}",
        _stdin=secrets.SecretText(hub.token) if hub.token else "\n",
    )


class Send:
    """Transfer of a model's files from the control machine to the host."""

    def __init__(self, weights: WeightsSlice, hub: Hub, settings: Defaults) -> None:
        self.weights, self.hub, self.settings = weights, hub, settings
        self.target = weights_path(weights)
        self.staging = f"{WEIGHTS}/{weights.model}/.{weights.revision}.partial"

    def commands(self, facts: StoreState) -> Iterator[PyinfraCommand]:
        """None if the published manifest is right; a refusal if another manifest is published."""
        if self.weights.repository and facts.manifest:
            return  # a pinned commit was published and checked: it cannot have changed
        if self.weights.repository and not state.is_executing:
            problem = secrets.missing(self.hub.token)
            # Never run: `--dry` only reports a change, and downloads nothing to the control machine.
            yield Refuse(problem) if problem else StringCommand("true")
            return
        try:
            source = self._source()
            names = chosen(source, sent(self.weights.files))
        except Refusal as problem:
            yield Refuse(problem)
            return
        wanted = manifest(source, names)
        earlier = manifest(source, [name for name in names if name not in LATER])
        if facts.manifest in (hashlib.sha256(text.encode()).hexdigest() for text in (wanted, earlier)):
            return
        if facts.manifest:
            yield Refuse(self._changed(source))
            return
        yield StringCommand("install -d -m 0755", QuoteString(self.staging))
        yield write(f"{self.staging}/manifest.sha256", wanted)
        yield StringCommand(f"{command('publish')} --before", QuoteString(self.staging))
        yield Rsync(source, names, self.staging, self.weights.model, self.settings)
        yield StringCommand(command("publish"), QuoteString(self.staging), QuoteString(self.target))

    def _source(self) -> Path:
        """The directory to send; a hub repository is fetched here first."""
        if not self.weights.repository:
            return local_path(self.weights.directory)
        target = CACHE.expanduser() / self.weights.repository.replace("/", "--") / self.weights.revision
        with turn(target):
            for attempt in range(1, self.settings.fetch_attempts + 1):
                problem = self._fetch(target)
                if not problem:
                    return target
                if attempt == self.settings.fetch_attempts or _is_final(problem["status"]):
                    break
                gevent.sleep(2**attempt)
        raise self._not_fetched(problem["said"])

    def _fetch(self, target: Path) -> dict[str, Any]:
        """Empty once all files are fetched; else the hub's message and its HTTP status."""
        request = {
            "repository": self.weights.repository,
            "revision": self.weights.revision,
            "files": list(sent(self.weights.files)),
            "target": str(target),
            "endpoint": self.hub.endpoint,
            "token": secrets.read(self.hub.token) if self.hub.token else "",
            "ca_file": str(local_path(self.hub.ca_file)) if self.hub.ca_file else "",
        }
        program = [sys.executable, str(Path(__file__).with_name("download.py"))]
        ran = subprocess.run(program, input=json.dumps(request), capture_output=True, text=True, check=False)
        if ran.returncode:
            errors = ran.stderr.strip().splitlines() or ["it ended without a message"]
            return {"said": errors[-1], "status": 0}
        return dict(json.loads(ran.stdout.splitlines()[-1])) or self._held(target)

    def _held(self, target: Path) -> dict[str, Any]:
        """Empty if every file matches the hub's checksum; wrong files are removed and fetched again."""
        others = spoiled(target, chosen(target, sent(self.weights.files)))
        for name in others:
            (target / name).unlink()
        problem = f"{', '.join(others)}: the content differs from the hub's checksum"
        return {"said": problem, "status": 0} if others else {}

    def _not_fetched(self, reason: str) -> Refusal:
        return Refusal(
            f"{self.weights.model}: {self.hub.endpoint} did not deliver {self.weights.repository}",
            facts={"revision": self.weights.revision, "said": reason},
            attempt="check endpoint, revision and token, and run again: fetched files are kept",
            state="no weights were sent; running servers are not affected",
            kind="weights-not-fetched",
        )

    def _changed(self, source: Path) -> Refusal:
        return Refusal(
            f"{self.weights.model}: {source} differs from the published content of {self.weights.revision}",
            facts={
                "published": self.target,
                "means": "same names, sizes and headers, other bytes; a published revision never changes",
            },
            attempt=f"put a file that names the version into {source}: it makes another revision",
            state="no weights were sent; running servers are not affected",
            kind="weights-changed",
        )


def _is_final(status: int) -> bool:
    return 400 <= status < 500 and status not in (408, 429)


def _settings(weights: WeightsSlice, hub: Hub, ca: str) -> str:
    content = {
        "endpoint": hub.endpoint,
        "repository": weights.repository,
        "revision": weights.revision,
        "files": list(weights.files),
        "target": weights_path(weights),
        "ca_file": ca,
    }
    return json.dumps(content, indent=2) + "\n"
