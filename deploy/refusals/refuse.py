"""The one shape of a planning refusal: place, value seen, value wanted, and the text to type.

Checks build their refusals here, so that no part is missing. `where` is a path inside the inventory without the host;
`together` adds the hosts, once for all hosts that share the problem.
"""

from collections.abc import Iterable

from deploy.refusals.errors import PLANNING, Refusal
from deploy.refusals.quoting import clipped, lookalike_in
from deploy.refusals.secrets_in_text import without_secrets


def refuse(kind: str, problem: str, *, where: str, seen: str, wanted: str, attempt: str) -> Refusal:
    """A refusal of the planning stage with its four parts; a secret typed into the inventory is masked in each."""
    if lookalike := lookalike_in(seen):
        seen = f"{seen}, with {lookalike}"
    facts = {"where": where, "seen": seen, "wanted": wanted}
    return Refusal(
        clipped(without_secrets(problem)),
        facts={name: clipped(without_secrets(text)) for name, text in facts.items()},
        attempt=clipped(without_secrets(attempt)),
        state=PLANNING,
        kind=kind,
    )


def together(refusals: Iterable[tuple[str, Refusal]]) -> list[Refusal]:
    """The refusals of all hosts, each one once, in order of first appearance; `where` then names its hosts."""
    hosts: dict[tuple[str, str, str], list[str]] = {}
    first: dict[tuple[str, str, str], Refusal] = {}
    for host, refusal in refusals:
        key = (refusal.kind, refusal.problem, str(refusal))
        first.setdefault(key, refusal)
        names = hosts.setdefault(key, [])
        if host and host not in names:
            names.append(host)
    return [_with_hosts(refusal, hosts[key]) for key, refusal in first.items()]


def _with_hosts(refusal: Refusal, hosts: list[str]) -> Refusal:
    if not hosts:
        return refusal
    more = f" and {len(hosts) - 1} more" if len(hosts) > 1 else ""
    first = clipped(without_secrets(sorted(hosts)[0]))
    facts = refusal.facts | {"where": f"{first}{more}: {refusal.facts['where']}"}
    return Refusal(refusal.problem, facts=facts, attempt=refusal.attempt, state=refusal.state, kind=refusal.kind)


def at(*parts: str) -> str:
    """A path inside one host's data: at('servers', '"main"', 'http_port') is `servers["main"].http_port`."""
    text = ""
    for part in parts:
        text += f"[{part}]" if part.startswith('"') else f".{part}" if text else part
    return text


def server_at(server: str, *parts: str) -> str:
    return at("servers", f'"{server}"', *parts)


def model_at(server: str, model: str, *parts: str) -> str:
    return at("servers", f'"{server}"', "models", f'"{model}"', *parts)
