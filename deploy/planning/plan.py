"""Joins everything into one Plan, or refuses with every reason at once.

Pure: same fleet and surroundings, same plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from deploy.catalog import SYSTEMS
from deploy.engine.changes import why_built
from deploy.engine.farm import with_farm_engines
from deploy.inventory.fleet import DEFAULT_ROLLOUT, Fleet
from deploy.inventory.named_models import with_names
from deploy.models.cards import planned_card
from deploy.models.files import all_weights_of, disk_needed_mib, fetched, on_host_of
from deploy.models.resolve import image_of, release_row
from deploy.planning.bundled import support_with_bundles, with_bundles
from deploy.planning.digest import digest
from deploy.planning.groups import with_groups
from deploy.planning.key_models import key_notices
from deploy.planning.serving import served_by, server_slice
from deploy.refusals import Refusal, model_at, refuse, refuse_all, together
from deploy.slices.host import DriverSlice, EngineSlice, Slice, WeightsSlice, standalone_llm_images
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from deploy.spec import BalancerHost, Host, MonitorHost, Rollout
from deploy.spec.surroundings import Surroundings
from deploy.topology.balancing import balancer_slice, firewall_of, traffic_slice
from deploy.topology.gateway import gateway_slice, with_gateway_count
from deploy.topology.groups import pools_of_hosts
from deploy.topology.monitors import exporters_of, monitor_slices, watched_balancer
from deploy.topology.mutual import contract_conflicts, with_remote_servers
from deploy.topology.proxies import with_proxies
from deploy.topology.repairs import with_repairs
from deploy.topology.sharing import with_sharing
from deploy.topology.waves import Pool, waves
from deploy.validation.all_checks import judge, notices
from deploy.validation.default_gateway import with_default_gateway
from deploy.validation.replay import replay_missing


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The wanted state of every host, their order, and one digest over it."""

    slices: tuple[Slice, ...]
    waves: tuple[tuple[str, ...], ...] = ()
    digest: str = ""
    pools: tuple[Pool, ...] = ()
    rollout: Rollout = DEFAULT_ROLLOUT
    warnings: tuple[str, ...] = ()
    changes: Mapping[str, str] = field(default_factory=dict)
    """The reason for each build, by the engine's fingerprint: new, known, or its difference from the nearest known one.
    """
    balancers: tuple[BalancerSlice, ...] = ()
    monitors: tuple[MonitorSlice, ...] = ()
    gateway_only: bool = False
    """`--data only=gateway`: a run changes only gateways, so no host is in a wave."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of all hosts: GPU hosts, balancers, monitors; sorted within each kind."""
        gpu_hosts = (slice_.host for slice_ in self.slices)
        return (*gpu_hosts, *(slice_.host for slice_ in self._support))

    def for_host(self, name: str) -> Slice:
        return next(slice_ for slice_ in self.slices if slice_.host == name)

    def parts(self, name: str) -> tuple[Slice | None, BalancerSlice | MonitorSlice | None]:
        """(GPU host's slice, support host's slice) of the host of this name; one of the two is None."""
        support = next((slice_ for slice_ in self._support if slice_.host == name), None)
        return (None, support) if support else (self.for_host(name), None)

    @property
    def _support(self) -> tuple[BalancerSlice | MonitorSlice, ...]:
        return (*self.balancers, *self.monitors)

    def only(self, names: Iterable[str]) -> Plan:
        """This plan with only some of its hosts (`--limit`); digest and pools remain the whole fleet's."""
        wanted = set(names)
        kept = (tuple(name for name in wave if name in wanted) for wave in self.waves)
        slices = tuple(slice_ for slice_ in self.slices if slice_.host in wanted)
        balancers = tuple(slice_ for slice_ in self.balancers if slice_.host in wanted)
        monitors = tuple(slice_ for slice_ in self.monitors if slice_.host in wanted)
        left = tuple(wave for wave in kept if wave)
        return replace(self, slices=slices, balancers=balancers, monitors=monitors, waves=left)

    @property
    def engines(self) -> tuple[EngineSlice, ...]:
        return tuple({engine.path: engine for slice_ in self.slices for engine in slice_.engines}.values())

    def engine_json(self, engine: EngineSlice) -> dict[str, object]:
        return {
            "model": engine.model,
            "fingerprint": engine.fingerprint,
            "name": engine.name,
            "change": self.changes.get(engine.fingerprint, ""),
            "flags_row": engine.flags_row,
            "commands": [step.line for step in engine.steps],
            "hosts": [
                slice_.host
                for slice_ in self.slices
                if engine.path in {own_engine.path for own_engine in slice_.engines}
            ],
        }

    def to_json(self) -> dict[str, object]:
        return {
            "digest": self.digest,
            "waves": [list(wave) for wave in self.waves],
            **({"pools": [pool.to_json() for pool in self.pools]} if any(pool.name for pool in self.pools) else {}),
            "warnings": list(self.warnings),
            "engines": [self.engine_json(engine) for engine in self.engines],
            "hosts": {slice_.host: slice_.to_json() for slice_ in self.slices},
            **({"balancers": {slice_.host: slice_.to_json() for slice_ in self.balancers}} if self.balancers else {}),
            **({"monitors": {slice_.host: slice_.to_json() for slice_ in self.monitors}} if self.monitors else {}),
        }


def make_plan(fleet: Fleet, surroundings: Surroundings) -> Plan:
    """The plan of a fleet. Raises: Refusals of `deploy.validation`, then refusals that need the finished plan."""
    refuse_all(judge(fleet, surroundings))
    fleet = with_default_gateway(with_names(fleet, surroundings))
    slices = gpu_host_slices(fleet, surroundings)
    balancers = balancer_slices(fleet)
    scraping = monitor_slices(fleet.monitors, slices, balancers)
    monitors = support_with_bundles(with_proxies(scraping, fleet.monitors, fleet), fleet.monitors)
    plan = with_order(Plan(slices=slices, balancers=balancers, monitors=monitors), fleet)
    plan = with_notices(plan, fleet, surroundings)
    refuse_all(plan_refusals(plan, fleet, surroundings))
    return plan


def gpu_host_slices(fleet: Fleet, surroundings: Surroundings) -> tuple[Slice, ...]:
    """The slices of all GPU hosts, with the parts that depend on other hosts: groups, engines, gateways, peers."""
    hosts = fleet.hosts
    slices = tuple(host_slice(host, surroundings, fleet.balancers, fleet.monitors) for host in hosts)
    slices = with_repairs(slices, fleet)
    slices = with_groups(slices, hosts, surroundings)
    slices = with_farm_engines(slices)
    slices = with_gateway_count(slices)
    slices = with_remote_servers(slices, hosts)
    slices = with_sharing(slices, hosts)
    slices = with_bundles(slices, hosts)
    return with_proxies(slices, hosts, fleet)


def balancer_slices(fleet: Fleet) -> tuple[BalancerSlice, ...]:
    """The slices of all balancers, with the exporters that the fleet's monitors read."""
    slices = (balancer_slice(balancer, fleet.hosts, fleet.balancers) for balancer in fleet.balancers)
    watched = tuple(watched_balancer(slice_, fleet.monitors) for slice_ in slices)
    return support_with_bundles(with_proxies(watched, fleet.balancers, fleet), fleet.balancers)


def with_order(plan: Plan, fleet: Fleet) -> Plan:
    """The plan with its digest, pools and waves; a run that changes only gateways (`fleet.only`) has no waves."""
    pools = pools_of_hosts(fleet.hosts, fleet.rollout)
    build_hosts = (host.name for host in fleet.hosts if host.farm)
    return replace(
        plan,
        digest=digest((*plan.slices, *plan.balancers, *plan.monitors)),
        pools=pools,
        rollout=fleet.rollout,
        waves=() if fleet.only else waves(pools, fleet.rollout, non_serving=build_hosts),
        gateway_only=fleet.only == "gateway",
    )


def with_notices(plan: Plan, fleet: Fleet, surroundings: Surroundings) -> Plan:
    return replace(
        plan,
        changes={engine.fingerprint: why_built(engine, surroundings.engines) for engine in plan.engines},
        warnings=(
            *notices(fleet, surroundings),
            *key_notices(plan.slices, surroundings.keys),
            *unjudged_notices(plan.engines),
        ),
    )


def plan_refusals(plan: Plan, fleet: Fleet, surroundings: Surroundings) -> list[Refusal]:
    return [
        *missing_replays(plan.slices, surroundings),
        *together(contract_conflicts(plan.slices)),
        *unexpected(plan, fleet.expect),
    ]


def missing_replays(slices: Iterable[Slice], surroundings: Surroundings) -> list[Refusal]:
    """A refusal for each engine without a replay or a reason, unless this very engine was signed before.

    An engine that an earlier version signed is kept: it is neither built nor judged again.
    """
    signed = {record.fingerprint for record in surroundings.engines}
    refusals = [
        (slice_.host, replay_missing(model.name, model_at(server.name, model.name, "replay")))
        for slice_ in slices
        for server in slice_.servers
        for model in server.models
        for engine in model.engines
        if engine.lacks_replay and engine.fingerprint not in signed
    ]
    return together(refusals)


def unjudged_notices(engines: Iterable[EngineSlice]) -> Iterator[str]:
    for engine in engines:
        if engine.unjudged:
            yield f"{engine.model}: its engine is signed unjudged, by the inventory's choice: {engine.unjudged}"
        elif engine.lacks_replay:
            yield (
                f"{engine.model}: its engine was signed before and its answers were never compared; the next engine "
                'needs Replay(…) or Replay.none(reason="…")'
            )


def host_slice(
    host: Host, surroundings: Surroundings, balancers: Iterable[BalancerHost] = (), monitors: Iterable[MonitorHost] = ()
) -> Slice:
    """The decisions for one GPU host. Its inventory has been validated: an unknown name is a defect of this code."""
    row = release_row(host.release)
    assert row is not None, "an unknown release passed the checks"
    image, gpu = image_of(host, row), planned_card(host.machine)
    servers = tuple(server_slice(server, host, image, surroundings) for server in host.servers)
    served = [model for server in host.servers for model in served_by(server, host, surroundings)]
    weights = distinct(fetched(weights for model in served for weights in all_weights_of(model)))
    engines = {engine.path: engine for server in servers for model in server.models for engine in model.engines}
    return Slice(
        host=host.name,
        machine=host.machine,
        pci_id=gpu.pci_id,
        sm=gpu.sm,
        gpu_mib=gpu.total_mib,
        driver=driver_slice(host, row.floor),
        docker=host.docker,
        toolkit_version=host.toolkit.version,
        registry=host.registry,
        hub=host.hub,
        mirrors=host.mirrors,
        image=image,
        weights=weights,
        servers=servers,
        disk_needed_mib=disk_needed_mib(
            image,
            weights,
            ((engine.size_mib, engine.scratch_mib) for engine in engines.values()),
            standalone_llm_images(servers),
        ),
        engines=tuple(engines.values()),
        engine_store=host.engine_store,
        engine_trust=host.engine_trust,
        farm=host.farm,
        mig=host.machine.mig,
        firewall=firewall_of(host, balancers),
        pool=host.pool,
        traffic=traffic_slice(host, balancers),
        gateway=gateway_slice(host, servers),
        https=host.gateway.https if host.gateway else None,
        exporters=exporters_of(host, monitors),
        on_host=tuple(dict.fromkeys(files for model in served for files in on_host_of(model))),
    )


def driver_slice(host: Host, floor: str) -> DriverSlice:
    """The driver; its source is the system's default unless the inventory names one."""
    auto = host.driver.source == "auto"
    return DriverSlice(
        manage=host.driver.manage,
        source=SYSTEMS[host.machine.os].driver_source if auto else host.driver.source,
        branch=host.driver.branch,
        version=host.driver.version,
        floor=floor,
        fabric_manager=host.machine.nvswitch,
    )


def distinct(weights: Iterable[WeightsSlice]) -> tuple[WeightsSlice, ...]:
    return tuple({(files.model, files.revision): files for files in weights}.values())


def unexpected(plan: Plan, expected: str) -> list[Refusal]:
    """The refusal of a plan whose digest is not `expected`; no refusal if `expected` is empty."""
    if expected in ("", plan.digest):
        return []
    return [
        refuse(
            "unexpected-plan",
            "this is not the plan that was expected",
            where="expect",
            seen=plan.digest,
            wanted=expected,
            attempt=f"read the plan again (enginehouse plan), then --data expect={plan.digest}",
        )
    ]
