"""Checks the models that keys of the gateway name: notes and refusals for models that no gateway serves."""

from collections.abc import Iterable, Iterator, Mapping

from deploy.catalog.names import offer
from deploy.refusals import refuse, refuse_all
from deploy.slices.host import Slice


def served_names(slices: Iterable[Slice]) -> frozenset[str]:
    """Names and aliases that clients of the gateways may write; none without a gateway."""
    gateways = [slice_.gateway for slice_ in slices if slice_.gateway]
    models = {model.name for gateway in gateways for model in gateway.models}
    return frozenset(models | {alias.name for gateway in gateways for alias in gateway.aliases})


def key_notices(slices: Iterable[Slice], keys: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """A sentence for each name in the file of keys that no gateway serves: such a key is refused everything."""
    served = served_names(slices)
    named = {name: prefix for prefix, models in keys.items() for name in models if name != "*"}
    for name in sorted(named.keys() - served) if served else ():
        yield f"key {named[name]} is for {name}, which no gateway of this inventory serves: {offer(name, served)}"


def confirm_served(models: Iterable[str], slices: Iterable[Slice], inventory: str) -> None:
    """Confirms the models of a new key. Raises: a Refusal for names that no gateway of the inventory serves."""
    served = served_names(slices)
    refuse_all(
        refuse(
            "no-such-model",
            f"no gateway of {inventory} serves {name}",
            where="--models",
            seen=name,
            wanted="names or aliases of its models" if served else "an inventory with a gateway",
            attempt=offer(name, served) if served else '"gateway": Gateway() in the data of a host',
        )
        for name in models
        if name not in {"*", *served}
    )
