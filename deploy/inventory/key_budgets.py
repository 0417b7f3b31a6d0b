"""Budgets in the file of keys that a gateway could not enforce: its counters end too early, or it has no price."""

from collections.abc import Iterable, Iterator, Mapping

from deploy.inventory.gateway_keys import GatewayKey, KeyFile
from deploy.inventory.key_limits import TenantLimits
from deploy.refusals import Refusal

STATE = "the host's keys and settings are as they were"
Budgeted = GatewayKey | TenantLimits


def check_budgets(
    content: KeyFile, days: int, currencies: Mapping[str, str], aliases: Mapping[str, Iterable[str]]
) -> None:
    """Confirms that the gateway keeps its counters long enough for the budgets, and has prices for money budgets.

    `currencies` are by model, empty for a model without a price; `aliases` are by name, with their models.

    Raises: Refusal naming the first key or tenant whose budget would not hold.
    """
    for name, line, models in _budgeted(content):
        check_days(name, line, days)
        reached = {model for word in models for model in (word, *aliases.get(word, ()))}
        known = sorted(model for model in currencies if "*" in models or model in reached)
        check_prices(name, line, {model: currencies[model] for model in known})


def check_days(name: str, line: Budgeted, days: int) -> None:
    """Raises: Refusal for a budget whose counters a restart would lose."""
    has_month, has_day = line.tokens_per_month or line.cost_per_month, line.tokens_per_day or line.cost_per_day
    wanted = 31 if has_month else 1 if has_day else 0
    if days < wanted:
        raise Refusal(
            f"the gateway would forget how much of its budget {name} has used",
            facts={"seen": f"usage_days={days}", "wanted": f"{wanted} or more"},
            attempt=f"Gateway(usage_days={wanted}), or no budget of a day or a month",
            state=STATE,
            kind="budget-without-usage",
        )


def check_prices(name: str, line: Budgeted, currencies: Mapping[str, str]) -> None:
    """Raises: Refusal for a money budget whose currency has no price for one of the models."""
    if not line.currency:
        return
    for model, currency in currencies.items():
        if currency != line.currency:
            price = f'Price(prompt=0.1, completion=0.4, currency="{line.currency}")'
            raise Refusal(
                f"{name} has a budget in {line.currency}, and {model} costs nothing of it",
                facts={
                    "seen": f"prices of {model} in {currency}" if currency else f"no price for {model}",
                    "wanted": f"a price in {line.currency} for every model that the budget is for",
                },
                attempt=f'Gateway(prices={{"{model}": {price}}}), or a budget of tokens',
                state=STATE,
                kind="budget-without-price",
            )


def _budgeted(content: KeyFile) -> Iterator[tuple[str, Budgeted, tuple[str, ...]]]:
    """Every key and tenant with its name, and the models that it may use."""
    for key in content.keys:
        yield f"{key.prefix} of {key.tenant}", key, key.models
    for line in content.tenants:
        models = tuple(model for key in content.keys if key.tenant == line.tenant for model in key.models)
        yield f"the tenant {line.tenant}", line, models
