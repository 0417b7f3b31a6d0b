"""State of a gateway process, kept current: settings, keys, servers, and each LLM's tokenizer and template."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from gateway import clock
from gateway.bodies import Parser
from gateway.budgets import Budgets, folder_of_the_unit
from gateway.errors import ENDS, ApiError, place
from gateway.fleet import Fleet
from gateway.keys import Key, Keys
from gateway.load import ANSWER_BYTES, TENANT_ANSWER_BYTES, Held, Pauses, Turns
from gateway.metrics import Metrics
from gateway.prompts import Completer, Prompter
from gateway.published import knows_chats
from gateway.settings import Alias, ModelSettings, Settings, read
from gateway.tokens import Tokens
from gateway.usage import Usage
from gateway.usage import folder_of_the_unit as usage_folder

COUNT_SECONDS = 1.0
LOOK_SECONDS = 0.5
"""Seconds between two checks of the files: a revoked key is refused within a second."""


class Gateway:
    """The state of a process. `settings` and `prompters` are replaced as a whole: a request keeps its first ones."""

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, stamp_of(path)
        self.settings = read(path)
        self.turns, self.pauses, self._bodies = Turns(), Pauses(), Counter[str]()
        self._answers = Counter[str]()
        self.parser = Parser(self.turns)
        self.prompters = self._prompters_of(self.settings, {})
        self.keys = Keys(self.settings.keys_file)
        self.keys.refresh()
        self.fleet, self.metrics = Fleet(), Metrics()
        self.budgets = Budgets(folder_of_the_unit())
        self.budgets.follow(self.settings)
        self.usage = Usage(usage_folder())
        self.usage_turn = asyncio.Semaphore(1)
        """A lock: counters of a year take a while to add up, so the process does that for one page at a time."""
        self._follow_usage()
        self.budgets.periods = self.usage.periods
        self.usage.count(clock.now())  # before the first request, so that a restart does not renew budgets

    def _follow_usage(self) -> None:
        self.usage.days, self.usage.prices = self.settings.usage_days, self.settings.prices

    async def keep_counting(self) -> None:
        while True:
            await asyncio.sleep(COUNT_SECONDS)
            await asyncio.to_thread(self.usage.count, clock.now())

    async def keep_current(self) -> None:
        """Updates servers, settings and keys from hosts and files within a second or two, forever."""
        self.fleet.follow(self.settings)
        looking = asyncio.ensure_future(kept(self.fleet.keep_looking))
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                await self.refresh()
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def refresh(self) -> None:
        """Applies changed files. If a file cannot be read, nothing changes, and the journal has a message."""
        try:
            if (stamp := stamp_of(self._path)) != self._stamp:
                self._stamp = stamp
                settings = await asyncio.to_thread(read, self._path)
                prompters = await asyncio.to_thread(self._prompters_of, settings, self.prompters)
                keys = self.keys if settings.keys_file == self.keys.path else Keys(settings.keys_file)
                keys.refresh()
                self.settings, self.prompters, self.keys = settings, prompters, keys
                self.fleet.follow(settings)
                self.budgets.follow(settings)
                self._follow_usage()
                print("settings read again", flush=True)
            await asyncio.to_thread(self.keys.refresh)
        except Exception as error:  # libraries refuse a file by any exception; keys are revoked all the same
            print(f"<4>settings and keys are unchanged: new files are unusable: {error}", file=sys.stderr, flush=True)

    def _prompters_of(self, settings: Settings, known: Mapping[str, Tokens]) -> dict[str, Tokens]:
        prompters = prompters_of(settings, known)
        for prompter in prompters.values():
            prompter.lanes.turns = self.turns
        return prompters

    def held_by(self, tenant: str) -> Held:
        """The counter of a request's body bytes, for this tenant; it begins at 0."""
        limits = self.settings.limits
        has_tenants = bool(self.settings.keys_file)
        most = max(limits.tenant_bodies_bytes if has_tenants else limits.bodies_bytes, limits.body_bytes)
        return Held(self._bodies, tenant, most, max(limits.bodies_bytes, most))

    def answer_of(self, tenant: str) -> Held:
        """The counter of an answer's bytes, for this tenant; it begins at 0."""
        most = TENANT_ANSWER_BYTES if self.settings.keys_file else ANSWER_BYTES
        return Held(self._answers, tenant, most, ANSWER_BYTES, "answers")

    def standing(self) -> dict[str, bool]:
        return {name: bool(self.fleet.ready(model.servers)) for name, model in self.settings.models.items()}

    def model(self, name: str, kind: str, key: Key) -> tuple[ModelSettings, Alias]:
        """The model of this name or alias, and the alias.

        Raises: ApiError 404 if there is none or the key has no right to it, 400 if it is of another kind.
        """
        alias = self.settings.aliases.get(name, Alias(name))
        model = self.settings.models.get(alias.model)
        if model is None or not (key.may_use(name) or all(map(key.may_use, alias.models))):
            shown = name if len(name) <= 128 else name[:128] + "…"
            message = f"the model `{shown}` does not exist, or this key may not use it"
            raise ApiError(404, message, param="model", code="model_not_found")
        if model.kind != kind:
            article = "an" if model.kind in ("llm", "embedder") else "a"
            message = f"`{name}` is {article} {model.kind}; this path needs a model of kind {kind}"
            raise ApiError(400, message, param="model", code="wrong_model_kind")
        return model, alias


async def kept(work: Callable[[], Awaitable[None]]) -> None:
    """Runs endless work, again after an exception: revoked keys, lost servers and budgets depend on it."""
    while True:
        try:
            await work()
        except ENDS:
            raise
        except BaseException as error:
            print(f"<3>{work.__name__} failed and starts again: {place(error)}", file=sys.stderr, flush=True)
        await asyncio.sleep(LOOK_SECONDS)


def prompters_of(settings: Settings, known: Mapping[str, Tokens]) -> dict[str, Tokens]:
    """The templates and tokenizers of the LLMs; those with unchanged files are kept.

    Raises: OSError, ValueError if a file of a model is missing or unusable.
    """
    prompters: dict[str, Tokens] = {}
    for model in settings.models.values():
        if model.kind == "llm":
            before, folder, kind = known.get(model.name), Path(model.files), prompter_kind(model)
            is_same = before is not None and type(before) is kind and before.is_of(folder)
            prompters[model.name] = before if before is not None and is_same else kind(folder)
    return prompters


def prompter_kind(model: ModelSettings) -> Callable[[Path], Tokens]:
    """The class that writes the model's prompts; openai-harmony is imported only if a model needs it.

    Raises: OSError, ValueError if a file of the tokenizer is missing or unusable.
    """
    if not model.is_harmony:
        return Prompter if knows_chats(Path(model.files)) else Completer
    from gateway.harmony import HarmonyPrompter

    return HarmonyPrompter


def stamp_of(path: Path) -> tuple[int, int, int]:
    """A value that differs once a file was replaced or written."""
    status = path.stat()
    return (status.st_ino, status.st_mtime_ns, status.st_size)
