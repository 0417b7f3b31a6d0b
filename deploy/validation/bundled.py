"""Refusals of hosts without a network: settings that no bundle can serve."""

import re
from collections.abc import Iterator

from deploy.inventory.fleet import Fleet
from deploy.models.resolve import image_of, release_row
from deploy.refusals import Refusal, refuse, shortened
from deploy.spec import BalancerHost, Host, MonitorHost
from deploy.validation.proxies import proxy_of_no_network


def bundled_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each setting of a host without a network that still needs a network, or a key."""
    if host.connected:
        return
    row = release_row(host.release)
    yield from _path_problems(host)
    if row and not image_of(host, row).digest:
        yield refuse(
            "bundle-unpinned-image",
            "a host without a network takes its image by digest, and the image is not pinned",
            where="image_digest",
            seen="only a tag",
            wanted="the digest of the image",
            attempt="enginehouse pin INVENTORY on a connected machine",
        )
    yield from _trust_problems(host)
    if host.gateway and host.gateway.https and host.gateway.https.acme:
        yield refuse(
            "acme-without-network",
            "an ACME authority is reached over the network, and this host has no network",
            where="gateway.https.acme",
            seen=host.gateway.https.acme.directory,
            wanted="a certificate of your own",
            attempt='Https(names=…, certificate="host.pem", certificate_key=Secret.env("HOST_KEY"))',
        )


def bundled_support_problems(fleet: Fleet) -> Iterator[tuple[str, Refusal]]:
    """(host, refusal) for each balancer and monitor without a network that still needs one, or a key."""
    support: tuple[BalancerHost | MonitorHost, ...] = (*fleet.balancers, *fleet.monitors)
    for host in support:
        if not host.connected:
            yield from (
                (host.name, problem)
                for problem in (*_path_problems(host), *_trust_problems(host), *_proxy_problems(host))
            )
    closed = [host.name for host in fleet.hosts if not host.connected]
    for monitor in fleet.monitors if closed else ():
        if monitor.monitor.dcgm_image:
            yield (
                monitor.name,
                refuse(
                    "bundle-without-dcgm",
                    "dcgm-exporter's image is pulled by its own unit, which reads no bundle",
                    where="monitor.dcgm_image",
                    seen=f"{monitor.monitor.dcgm_image}, and connected=False on {', '.join(closed[:3])}",
                    wanted="no image of its own; node-exporter and Triton show memory, power and utilization of GPUs",
                    attempt="leave dcgm_image out",
                ),
            )


def _proxy_problems(host: BalancerHost | MonitorHost) -> Iterator[Refusal]:
    if host.proxy is not None:
        yield proxy_of_no_network()


def _path_problems(host: Host | BalancerHost | MonitorHost) -> Iterator[Refusal]:
    if re.search(r"://|\.(?:tar|tgz|tar\.\w+|zip)$", host.bundle):
        yield refuse(
            "no-path",
            "`bundle` is a directory of this machine, as `enginehouse bundle` writes it",
            where="bundle",
            seen=shortened(host.bundle),
            wanted="the path of a directory, unpacked",
            attempt='bundle="bundle", the default',
        )


def _trust_problems(host: Host | BalancerHost | MonitorHost) -> Iterator[Refusal]:
    if host.engine_trust is None:
        yield refuse(
            "bundle-without-trust",
            "the inventory names no key that verifies the bundle of this host",
            where="engine_trust",
            seen="nothing",
            wanted="the key that signs bundles and engines",
            attempt='engine_trust=EngineTrust(key="~/.ssh/engines"), after: ssh-keygen -t ed25519 -f ~/.ssh/engines',
        )
