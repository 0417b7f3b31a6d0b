"""A host's gateway: its addresses, the names of its models, and models that it can use.

More than 300 lines, because all refusals of a gateway's own fields are in one place.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from deploy.catalog.names import offer
from deploy.inventory.reach import ip_of
from deploy.refusals import Refusal, at, model_at, refuse
from deploy.spec import LLM, Alias, Embedder, Gateway, GatewayLimits, Host, Model, Reranker
from deploy.topology.balancing import is_loopback
from deploy.topology.gateway import TASK_NAMES, adapter_names, named
from deploy.topology.monitors import OURS
from deploy.validation.gateway_identity import identity_problems
from deploy.validation.gateway_prices import price_problems
from deploy.validation.numbers import number_problems
from deploy.validation.ports import free_port, port_twice, taken_ports
from deploy.validation.urls import has_place

MOST_PORTS = 64
ORIGIN = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+")
MOST_WEIGHT = 1_000_000
"""Sum of the weights of an alias."""
URL = re.compile(r"https?://[A-Za-z0-9.:\[\]_/~-]+")


def gateway_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each mistake in the gateway of a host; none if no gateway is declared."""
    gateway = host.gateway
    if gateway is None:
        return
    if not host.servers:
        yield refuse(
            "gateway-before-nothing",
            "the gateway's host has no servers to send requests to",
            where="gateway",
            seen="a Gateway on a host without servers",
            wanted="a gateway on a host that serves",
            attempt='take "gateway" out here, and declare it on the hosts that serve',
        )
    yield from _address(gateway)
    yield from _url(gateway)
    yield from _ports(gateway, host)
    yield from _bodies(gateway.limits)
    if not gateway.others:
        yield from name_problems(gateway, [host])
    yield from _origins(gateway)
    yield from identity_problems(gateway)
    yield from _models(host)


def gateway_notice(host: Host) -> str:
    """Notices about a valid gateway that an operator should read; empty without notices."""
    if host.gateway is None or host.gateway.keys is not None:
        return ""
    who = "whoever reaches its balancer" if host.gateway.protection else "every user and program of its host"
    return f"the gateway asks for no key (keys=None): {who} may use every model"


def past_the_gateway(host: Host) -> str:
    """A sentence if clients may bypass a gateway that requires keys, directly to Triton; empty if they cannot."""
    if host.gateway is None or host.gateway.keys is None or host.firewall is None:
        return ""
    passed = [
        server.name for server in host.servers if server.protection == "firewall" and not is_loopback(server.address)
    ]
    if not passed:
        return ""
    return (
        f"the gateway asks for keys, but the firewall admits {', '.join(host.firewall.allow)} to server "
        f"{', '.join(passed)} directly, without keys and limits"
    )


def _address(gateway: Gateway) -> Iterator[Refusal]:
    address = ip_of(gateway.address)
    if not address or not (gateway.protection == "balancer" or address.is_loopback):
        yield refuse(
            "gateway-in-plain-text",
            f"the gateway would listen on {gateway.address!r} with HTTP and without TLS: keys would travel in "
            "plain text",
            where="gateway.address",
            seen=repr(gateway.address),
            wanted="a loopback address, with `https` or your own TLS in front of it for clients on other machines; "
            "or a "
            "balancer's TLS in front of it, and a private network between the two",
            attempt='Gateway(address="127.0.0.1", https=Https(acme=Acme(names=("llm.example.com",)))), '
            '"firewall": Firewall(rest="closed"), for TLS on the host itself; or, behind a balancer, '
            'protection="balancer" and a Route(…, gateway_port=443)',
        )


def _url(gateway: Gateway) -> Iterator[Refusal]:
    if gateway.url and not URL.fullmatch(gateway.url):
        yield refuse(
            "bad-url",
            f"{gateway.url!r} is not a URL that a client could use",
            where="gateway.url",
            seen=repr(gateway.url),
            wanted="https://NAME, and a port if it is not 443",
            attempt='Gateway(url="https://llm.example.com")',
        )


def _ports(gateway: Gateway, host: Host) -> Iterator[Refusal]:
    if not 1 <= len(gateway.ports) <= MOST_PORTS:
        yield refuse(
            "gateway-without-ports",
            f"a gateway runs a process for each of its ports, and {len(gateway.ports)} ports are declared",
            where="gateway.ports",
            seen=f"{len(gateway.ports)} ports",
            wanted=f"1 to {MOST_PORTS} ports",
            attempt="Gateway(ports=(8080,))",
        )
    taken = taken_ports(host)
    for number, port in enumerate(gateway.ports):
        if port in taken or port in gateway.ports[:number]:
            free = free_port({*taken, *gateway.ports, *OURS}, port + 1)
            owner = taken.get(port, "gateway.ports")
            yield port_twice(port, owner, "gateway.ports", f"Gateway(ports=({free},))")


def gateway_beside(host: Host) -> str:
    """The gateway that a host without one may declare: on its default port, or on a free one."""
    taken, port = taken_ports(host), Gateway().ports[0]
    return f"Gateway(ports=({free_port(taken, port)},))" if port in taken else "Gateway()"


def _bodies(limits: GatewayLimits) -> Iterator[Refusal]:
    sizes = (limits.body_mib, limits.tenant_bodies_mib, limits.bodies_mib)
    if list(sizes) != sorted(sizes) and not any(number_problems(limits)):
        most = max(sizes)
        body, tenant = limits.body_mib, max(limits.body_mib, limits.tenant_bodies_mib)
        yield refuse(
            "bodies-without-room",
            f"a body of {limits.body_mib} MiB, a tenant's {limits.tenant_bodies_mib} MiB and all {limits.bodies_mib} "
            "MiB contradict each other",
            where="gateway.limits.bodies_mib",
            seen=f"body_mib={sizes[0]}, tenant_bodies_mib={sizes[1]}, bodies_mib={sizes[2]}",
            wanted="body_mib <= tenant_bodies_mib <= bodies_mib",
            attempt=f"GatewayLimits(body_mib={body}, tenant_bodies_mib={tenant}, bodies_mib={most})",
        )


def name_problems(gateway: Gateway, hosts: Sequence[Host]) -> Iterator[Refusal]:
    """A refusal for each wrong alias, default or price, by the names of the models on these hosts."""
    models = {model.name: model for host in hosts for _, model in host.served_models}
    yield from _aliases(gateway, models)
    yield from _defaults(gateway, models)
    yield from price_problems(gateway, sorted(models))


def _aliases(gateway: Gateway, models: dict[str, Model]) -> Iterator[Refusal]:
    taken = {*models, *(f"{name}:{word}" for name in models for word in TASK_NAMES)}
    taken |= {f"{name}:{adapter}" for model in models.values() for name, adapter in adapter_names(model)}
    for name, value in gateway.aliases.items():
        place = at("gateway", "aliases", f'"{name}"')
        wanted = _models_of(value)
        if not name or not wanted or not all(isinstance(word, str) for word in [name, *wanted]):
            yield refuse(
                "wrong-type",
                "an alias has to map one text to the names of models",
                where=place,
                seen=f"{name!r}: {value!r}",
                wanted="a text, and a model's name, a tuple of names, or an Alias of models with weights",
                attempt=_alias_meant(name, value, min(models, default="llama")),
            )
        elif re.search("[,;]", name):
            yield refuse(
                "bad-name",
                f"{name!r} cannot be an alias: it has a comma or a semicolon",
                where=place,
                seen=repr(name),
                wanted="a name without commas and semicolons, which separate names in `enginehouse key`",
                attempt=_alias_meant(re.sub("[,;]+ *", "-", name.strip()), value, wanted[0]),
            )
        elif isinstance(value, tuple) and len(set(wanted)) < len(wanted):
            names = ", ".join(f'"{word}"' for word in dict.fromkeys(wanted))
            yield refuse(
                "model-twice-in-an-alias",
                f"the alias {name} names a model twice",
                where=place,
                seen=", ".join(wanted),
                wanted="each model once; shares are weights of an Alias",
                attempt=f'aliases={{"{name}": {f"({names})" if "," in names else names}}}',
            )
        elif name in taken:
            yield refuse(
                "alias-of-a-model",
                f"{name} is the name of a model already",
                where=place,
                seen=f"{name!r}, an alias of {', '.join(wanted)}",
                wanted="a name that no model has",
                attempt=f'aliases={{"{wanted[0]}": "{name}"}}, the new name first'
                if len(wanted) == 1 and name in models and wanted[0] not in taken
                else "another name, or none",
            )
        elif loops := [word for word in wanted if word not in models and word in gateway.aliases]:
            yield refuse(
                "alias-of-an-alias",
                f"the alias {name} names {loops[0]}, which is an alias itself",
                where=place,
                seen=repr(loops[0]),
                wanted="names of models, so that no alias leads back to itself",
                attempt=f"the model of {loops[0]}: {offer(loops[0], sorted(models))}",
            )
        elif unknown := [word for word in wanted if word not in models]:
            fit = _of_one_kind(wanted, models)
            yield refuse(
                "alias-of-nothing",
                f"the alias {name} names {unknown[0]}, which this gateway does not serve",
                where=place,
                seen=repr(unknown[0]),
                wanted=", ".join(sorted(models)) or "a model",
                attempt=offer(unknown[0], fit) if fit else f"take {unknown[0]} out of the alias",
            )
        elif isinstance(value, Alias):
            yield from _split(place, name, value, models)
        elif len(wanted) > 1:
            yield from _one_llm(place, name, [models[word] for word in wanted])


def _alias_meant(name: object, value: object, model: str) -> str:
    """A valid form of the alias: shares in whole numbers; fractions become percent."""
    shares = value.models if isinstance(value, Alias) and isinstance(value.models, dict) else {}
    if isinstance(value, Alias) and isinstance(value.models, (tuple, list)):
        pairs = [pair for pair in value.models if isinstance(pair, (tuple, list)) and len(pair) == 2]
        shares = (
            dict(pairs) if len(pairs) == len(value.models) and all(isinstance(key, str) for key, _ in pairs) else {}
        )
    typed = {key: re.fullmatch(r"([0-9]{1,6}) ?%?", str(share)) for key, share in shares.items()}
    if shares and all(typed.values()):
        written = ", ".join(f'"{key}": {number[1]}' for key, number in typed.items() if number)
        fallback = value.fallback if isinstance(value, Alias) and isinstance(value.fallback, str) else ""
        spare = fallback if fallback not in shares else ""
        if len(shares) == 1 and not spare:
            return f'aliases={{"{name}": "{next(iter(shares))}"}}'
        return f'aliases={{"{name}": Alias(models={{{written}}}' + (f', fallback="{spare}")}}' if spare else ")}")
    if shares and all(isinstance(share, (int, float)) and 0 <= share <= 1 for share in shares.values()):
        written = ", ".join(f'"{key}": {round(100 * share)}' for key, share in shares.items())
        return f'aliases={{"{name}": Alias(models={{{written}}})}}, in whole numbers'
    return f'aliases={{"gpt-4o": "{model}"}}'


def _of_one_kind(wanted: Sequence[str], models: Mapping[str, Model]) -> list[str]:
    """The models of the kind of the known ones, which an alias may name together; all models if no model is known."""
    kinds = {type(models[word]) for word in wanted if word in models}
    same = [name for name, model in models.items() if type(model) in kinds and name not in wanted]
    return sorted(same if kinds else models)


def _defaults(gateway: Gateway, models: dict[str, Model]) -> Iterator[Refusal]:
    """A refusal for each default that names no model of its kind."""
    kinds: dict[str, type[Embedder] | type[Reranker]] = {"embedder": Embedder, "reranker": Reranker}
    for kind, family in kinds.items():
        name = getattr(gateway, f"default_{kind}")
        known = [name for name, model in models.items() if isinstance(model, family)]
        firsts = [[name] for name in known]
        aliases = [alias for alias, value in gateway.aliases.items() if _models_of(value)[:1] in firsts]
        tasks = [f"{model}:{word}" for model in known for word in TASK_NAMES] if kind == "embedder" else []
        if name and name not in [*known, *aliases, *tasks]:
            yield refuse(
                "default-of-nothing",
                f"the default {kind} {name} is not served by this gateway",
                where=f"gateway.default_{kind}",
                seen=repr(name),
                wanted=", ".join(sorted(known)) or f"a model of kind {kind}",
                attempt=offer(name, sorted(known)) if known else f"leave default_{kind} out",
            )


def _origins(gateway: Gateway) -> Iterator[Refusal]:
    for origin in gateway.cors_origins:
        if not ORIGIN.fullmatch(origin) or not has_place(origin):
            yield refuse(
                "bad-origin",
                f"{origin!r} is not an origin of a page",
                where="gateway.cors_origins",
                seen=repr(origin),
                wanted="https://NAME, and a port if it is not 443, and no path",
                attempt=f'Gateway(cors_origins=("{_origin_meant(origin)}",))',
            )


def _origin_meant(text: str) -> str:
    """The origin in a URL or a name with a dot; an example for any other text."""
    match = re.fullmatch(r"(?:(https?)://)?([\w-]+(?:\.[\w-]+)+)(:[0-9]{1,5})?(?:/.*)?", text)
    port = (match[3] or "") if match else ""
    is_port = not port or 0 < int(port[1:]) < 65_536
    return f"{match[1] or 'https'}://{match[2]}{port}" if match and is_port else "https://app.example.com"


def _models_of(alias: object) -> list[str]:
    """The models that an alias names, the fallback last; none if it is not an alias or its weights are not numbers."""
    if isinstance(alias, (str, tuple)):
        return list(named(alias))
    if not isinstance(alias, Alias) or not isinstance(alias.models, dict) or not alias.models:
        return []
    if not all(type(weight) is int for weight in alias.models.values()):
        return []
    return [*alias.models, *([alias.fallback] if alias.fallback else [])]


def _split(place: str, name: str, alias: Alias, models: dict[str, Model]) -> Iterator[Refusal]:
    """Refusals of an `Alias` whose models are all known."""
    weights = list(alias.models.values())
    if min(weights) < 0 or not 0 < sum(weights) < MOST_WEIGHT:
        yield refuse(
            "alias-without-weight",
            f"the weights of the alias {name} give its models no requests",
            where=place,
            seen=", ".join(f"{model} {weight}" for model, weight in alias.models.items()),
            wanted=f"weights of 0 or more that sum to 1 or more, and to less than {MOST_WEIGHT:,}",
            attempt="a weight for each in percent: 95 and 5",
        )
    if alias.fallback in alias.models:
        yield refuse(
            "fallback-to-itself",
            f"the alias {name} falls back to {alias.fallback}, which is a model of the alias",
            where=place,
            seen=f"fallback={alias.fallback!r}",
            wanted="a model that the alias does not name already",
            attempt="another model, or no fallback",
        )
    if alias.sticky not in ("key", "request"):
        yield refuse(
            "wrong-type",
            f"the alias {name} is sticky by {alias.sticky!r}, which is not supported",
            where=place,
            seen=repr(alias.sticky),
            wanted="key or request",
            attempt='sticky="key", the default',
        )
    several = [models[word] for word in _models_of(alias)]
    kinds = {type(model) for model in several}
    if len(kinds) > 1:
        yield refuse(
            "alias-of-two-kinds",
            f"the alias {name} names models of several kinds: no request fits all of them",
            where=place,
            seen=", ".join(f"{model.name}, {type(model).__name__}" for model in several),
            wanted="only LLMs, or only rerankers",
            attempt="an alias for each of them",
        )
    elif Embedder in kinds and len(several) > 1:
        yield refuse(
            "alias-of-two-models",
            f"the alias {name} names several embedders: vectors of different models do not compare",
            where=place,
            seen=", ".join(model.name for model in several),
            wanted="one embedder, without a fallback",
            attempt="an alias for each of them",
        )


def smaller_fallbacks(host: Host) -> Iterator[str]:
    """A sentence for each fallback with a smaller context than a model that it replaces."""
    models = {model.name: model for model in host.llms}
    for name, alias in sorted(host.gateway.aliases.items()) if host.gateway else ():
        if not isinstance(alias, Alias) or alias.fallback not in models:
            continue
        least = models[alias.fallback].max_seq_len
        if larger := [model for model in alias.models if model in models and models[model].max_seq_len > least]:
            yield (
                f"the alias {name} falls back to {alias.fallback}, whose context of {least:,} tokens is smaller than "
                f"that of {', '.join(larger)}: longer requests are answered 503 while those do not answer"
            )


def _one_llm(place: str, name: str, models: list[Model]) -> Iterator[Refusal]:
    """A refusal if an alias of several models is not one LLM in several lengths."""
    weights = [model.weights for model in models if isinstance(model, LLM)]
    if len(weights) < len(models) or any(files != weights[0] for files in weights):
        yield refuse(
            "alias-of-two-models",
            f"the alias {name} stands for different LLMs: answers would depend on the prompt's length",
            where=place,
            seen=", ".join(model.name for model in models),
            wanted="LLMs of the same weights, served for different lengths",
            attempt="an alias for each of them",
        )


def _models(host: Host) -> Iterator[Refusal]:
    first: dict[str, tuple[str, Model]] = {}
    for server, model in host.served_models:
        yield from spoken_to(server.name, model)
        owner, first_model = first.setdefault(model.name, (server.name, model))
        if seen_from_outside(model) != seen_from_outside(first_model):
            yield refuse(
                "one-name-two-models",
                f"{model.name} is a different model in server {owner} than in server {server.name}",
                where=model_at(server.name, model.name),
                seen="other weights or another length under one name",
                wanted="the same model: the gateway sends a request to either server",
                attempt=f'name="{model.name}-{server.name}" for one of them',
            )


def seen_from_outside(model: Model) -> tuple[Any, ...]:
    """The properties of a model that a client notices."""
    if isinstance(model, LLM):
        return (LLM, model.checkpoint, model.weights, model.max_seq_len)
    return (type(model), model.checkpoint, model.weights, model.max_items, model.max_tokens)


def spoken_to(server: str, model: Model) -> Iterator[Refusal]:
    """A refusal if an LLM cannot be used through a gateway."""
    if not isinstance(model, LLM):
        return
    if not model.decoupled:
        yield refuse(
            "gateway-wants-streams",
            f"{model.name} cannot stream (decoupled=False), and clients of a gateway ask for streams",
            where=model_at(server, model.name, "decoupled"),
            seen="decoupled=False",
            wanted="decoupled=True, the default",
            attempt="leave decoupled out",
        )
    files = model.weights.files
    if files and not any(fnmatchcase("tokenizer.json", pattern) for pattern in files):
        yield refuse(
            "gateway-wants-a-tokenizer",
            f"{model.name} has no tokenizer.json, and the gateway needs it to count tokens",
            where=model_at(server, model.name, "weights", "files"),
            seen=", ".join(files),
            wanted="tokenizer.json and tokenizer_config.json among them",
            attempt='files=(…, "tokenizer.json", "tokenizer_config.json"), or leave files out',
        )
