"""The part of a host's plan that the doctor compares with, and the clock and address of the machine that asks."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from deploy.slices.host import ServerSlice, Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice


@dataclass(frozen=True)
class WantedServer:
    """A planned server: its release, and the address at which it is asked."""

    name: str
    release: str
    """Id of the planned release; empty if it was not computed."""
    address: str = "127.0.0.1"
    http_port: int = 8000
    other_ports: tuple[int, ...] = ()
    models: tuple[str, ...] = ()
    accepted_holes: tuple[str, ...] = ()
    """CVE ids that stay open by the operator's decision."""
    llm: str = ""
    """The LLM that a program beside Triton serves."""
    gbit: int = 0
    """Declared speed of the network between the hosts of its group; 0 for a server of one host."""

    @property
    def is_local(self) -> bool:
        return self.address.startswith("127.") or self.address in ("::1", "localhost")


@dataclass(frozen=True)
class Wanted:
    """A host's plan. `before` and `after` are this machine's clock before and after the question, in seconds."""

    host: str
    gpus: int = 0
    """GPUs on the PCI bus; 0 on a balancer."""
    manages_driver: bool = True
    nvswitch: bool = False
    mig: bool = False
    servers: tuple[WantedServer, ...] = ()
    is_balancer: bool = False
    os: str = ""
    """The declared system, by which packages of the distribution are judged."""
    today: date = date.min
    before: float = 0.0
    after: float = 0.0


def wanted_of(
    mine: Slice | BalancerSlice | MonitorSlice,
    releases: Mapping[str, str],
    today: date,
    before: float = 0.0,
    after: float = 0.0,
) -> Wanted:
    """A slice as the doctor's rules read it; `releases` are the planned ids by server."""
    if isinstance(mine, (BalancerSlice, MonitorSlice)):
        return Wanted(mine.host, is_balancer=True, os=mine.os, today=today, before=before, after=after)
    return Wanted(
        host=mine.host,
        gpus=mine.machine.gpus,
        manages_driver=mine.driver.manage,
        nvswitch=mine.machine.nvswitch,
        mig=bool(mine.mig),
        servers=tuple(_server(server, releases.get(server.name, "")) for server in mine.servers),
        os=mine.machine.os,
        today=today,
        before=before,
        after=after,
    )


def _server(server: ServerSlice, release: str) -> WantedServer:
    llm, runtime = server.standalone_llm or (None, None)
    return WantedServer(
        name=server.name,
        release=release,
        address=server.address,
        http_port=server.http_port,
        other_ports=(server.grpc_port, server.metrics_port),
        models=tuple(model.name for model in server.models),
        accepted_holes=server.accepted_holes,
        llm=llm.name if llm else "",
        gbit=runtime.group.gbit if runtime and runtime.group else 0,
    )
