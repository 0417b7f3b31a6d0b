"""Steps of a balancer or a monitor, in place of `foundation` and the later steps of other hosts.

Balancers and monitors are in no wave. Hosts join and leave a balancer before the first wave, and it is not reloaded
while a host is out. A monitor gets new targets after the last wave, because the new targets would not answer earlier.
"""

from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from roles import balancer, base, exporters, firewall, monitor, proxy


def apply(mine: BalancerSlice | MonitorSlice) -> None:
    """Installs tools and firewall; a balancer's HAProxy sends to the hosts of the plan, each once it is ready."""
    proxy.apply(mine)
    base.apply(mine)
    if isinstance(mine, BalancerSlice):
        balancer.apply(mine)
    firewall.apply(mine)


def send_keys(mine: BalancerSlice | MonitorSlice) -> None:
    if isinstance(mine, BalancerSlice):
        balancer.send_keys(mine)


def apply_after_waves(mine: BalancerSlice | MonitorSlice) -> None:
    """Makes a balancer check every model of the plan, and a monitor read every target."""
    exporters.apply(mine.exporters)
    if isinstance(mine, BalancerSlice):
        balancer.check_all_models(mine)
    else:
        monitor.apply(mine)


def check_servers_only(mine: BalancerSlice | MonitorSlice) -> None:
    if isinstance(mine, BalancerSlice):
        balancer.check_servers_only(mine)
