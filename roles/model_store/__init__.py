"""Puts every model's files on the host, pinned, verified and published by rename: /var/lib/enginehouse/weights.

There are three ways to the same result (a directory with manifest.sha256): a hub repository fetched by the host in its
own unit; a hub repository fetched by the control machine, or a directory of the control machine, sent with rsync and
verified on the host. `begin` starts the units; `finish` sends the control machine's files and waits for the units.

Hosts that share (`Sharing`) fetch a model once among them: the first host that needs a model that no host has. The
others get it from peers, and fetch it directly if the peers fail.
"""

from collections.abc import Callable, Iterator
from shlex import quote

from pyinfra import host
from pyinfra import state as run_state
from pyinfra.api.command import PyinfraCommand, StringCommand

from deploy.models.files import weights_path
from deploy.slices.host import Slice, WeightsSlice
from roles._pyinfra import quiet, undo
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.settings import overridden
from roles._pyinfra.steps import CachedFact, check, step
from roles._shipping import apt, peers, units
from roles.model_store.defaults import Defaults
from roles.model_store.facts import Accounts, Published, StoreState, Tools
from roles.model_store.operations import Send, accounts, fetch_unit, start_fetch, texts

Store = dict[str, StoreState]
Decide = Callable[[Store], Iterator[PyinfraCommand]]


def begin(mine: Slice) -> None:
    """Starts every fetch that the host does itself, unless it is done already."""
    wanted, settings = texts(mine), overridden(host, "model_store", Defaults())
    step(
        CachedFact(Accounts),
        lambda facts: accounts(mine, facts),
        name="Model store | Make the users that receive files",
    )
    prepared = undo.put_texts("model-store", wanted, name="Model store | Install the fetch program")
    published = CachedFact(Published, _arguments(mine))
    if mine.sharing:
        step(CachedFact(Tools), _tools, name="Model store | Install the programs of sharing")
        check(published, _noted(mine), name="Model store | List the published weights")
        # Noted before the first host acts, because a host with the weights may reach this step after a host without
        # them.
        quiet.when_prepared(_note_now, mine, published)

    def decide(store: Store) -> Iterator[PyinfraCommand]:
        for weights in mine.weights:
            state = store.get(weights.model, StoreState())
            is_wanted = weights.fetch_on == "host" and not state.manifest and not state.unit.is_going
            if is_wanted and _is_direct(mine, weights, settings):
                yield start_fetch(weights, mine.hub)

    step(published, decide, after=[prepared], name="Model store | Start fetching weights")


def finish(mine: Slice) -> None:
    """Publishes all weights, complete and verified."""
    settings = overridden(host, "model_store", Defaults())
    published = CachedFact(Published, _arguments(mine))
    for weights in host.loop(mine.weights):
        verb = "Wait for" if weights.fetch_on == "host" else "Send"
        name = f"{weights.model} {weights.revision[:12]}"
        step(published, _itself(weights, mine, settings), name=f"Model store | {verb} {name}")
    if mine.sharing:
        check(published, _noted(mine), name="Model store | List the received weights")
        step(published, _received(mine, settings), name="Model store | Get weights from other hosts")
        step(published, _left_over(mine, settings), name="Model store | Fetch weights that other hosts did not send")


def _tools(facts: HostFacts) -> Iterator[str | PyinfraCommand]:
    yield from apt.install({"python3-libtorrent": ""}, facts.packages)


def _noted(mine: Slice) -> Decide:
    """Notes for the other hosts of the run if this host has the files; never refuses."""

    def judge(store: Store) -> Iterator[PyinfraCommand]:
        for weights in mine.weights:
            has_it = bool(store.get(weights.model, StoreState()).manifest)
            peers.board(host.state).note(mine.host, peers.Files.of(weights), has_it)
        yield from ()

    return judge


def _note_now(mine: Slice, published: CachedFact[Store]) -> None:
    list(_noted(mine)(published.now()))


def _is_direct(mine: Slice, weights: WeightsSlice, settings: Defaults) -> bool:
    """True if this host fetches directly, without asking peers first."""
    shared = peers.Sharing.of(mine, peers.Files.of(weights), settings, host.state)
    return shared is None or shared.is_first(host.state)


def _itself(weights: WeightsSlice, mine: Slice, settings: Defaults) -> Decide:
    """Fetches or receives missing weights; checks present ones."""

    def decide(store: Store) -> Iterator[PyinfraCommand]:
        facts = store.get(weights.model, StoreState())
        if weights.fetch_on != "host":
            if facts.manifest or _is_direct(mine, weights, settings):
                yield from Send(weights, mine.hub, settings).commands(facts)
        elif not facts.manifest and (facts.unit.is_going or _is_direct(mine, weights, settings)):
            yield from _followed(weights, settings)

    return decide


def _followed(weights: WeightsSlice, settings: Defaults) -> Iterator[PyinfraCommand]:
    yield units.Follow(fetch_unit(weights), f"weights of {weights.model}", settings.fetch_seconds)
    yield StringCommand(f"test -s {quote(f'{weights_path(weights)}/manifest.sha256')}")


def _received(mine: Slice, settings: Defaults) -> Decide:
    """Gets the weights that this host lacks from peers."""

    def decide(store: Store) -> Iterator[PyinfraCommand]:
        lacking = [weights for weights in mine.weights if not store.get(weights.model, StoreState()).manifest]
        shared = [peers.Sharing.of(mine, peers.Files.of(weights), settings, host.state) for weights in lacking]
        wanted = [sharing for sharing in shared if sharing and not sharing.is_first(host.state)]
        if run_state.is_executing:
            wanted = [sharing for sharing in wanted if sharing.has_a_giver(host.state)]
        requests = [peers.Ask(sharing) for sharing in wanted]
        yield from requests  # all requests before the first wait
        yield from (peers.Await(sharing) for sharing in requests)

    return decide


def _left_over(mine: Slice, settings: Defaults) -> Decide:
    """Fetches models that are still missing directly; decides only at execution."""

    def decide(store: Store) -> Iterator[PyinfraCommand]:
        for weights in mine.weights if run_state.is_executing else ():
            facts = store.get(weights.model, StoreState())
            if facts.manifest:
                continue
            if weights.fetch_on != "host":
                yield from Send(weights, mine.hub, settings).commands(facts)
                continue
            if not facts.unit.is_going:
                yield start_fetch(weights, mine.hub)
            yield from _followed(weights, settings)

    return decide


def _arguments(mine: Slice) -> dict[str, object]:
    return {"wanted": tuple((weights.model, weights.revision, fetch_unit(weights)) for weights in mine.weights)}
