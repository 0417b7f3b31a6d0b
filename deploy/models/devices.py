"""Names of a host's GPUs inside a container."""

from deploy.spec import Host


def device_name(gpu: int, host: Host) -> str:
    """The CDI name of one of a server's GPUs, or of a MIG instance if the machine is cut into them."""
    cut = len(host.machine.mig)
    return f"nvidia.com/gpu={gpu // cut}:{gpu % cut}" if cut else f"nvidia.com/gpu={gpu}"
