"""The page beside the manifests: the commands in their order, the Secrets, and how Pods differ from hosts."""

from collections.abc import Mapping

from deploy.exports.kubernetes.gateway import KEYS_SECRET
from deploy.exports.kubernetes.names import object_name
from deploy.exports.kubernetes.weights import TOKEN_SECRET, job_name
from deploy.exports.served import Served, ServedHost


def page(
    served: Served, hosts: tuple[ServedHost, ...], short: Mapping[str, str], namespace: str, gateway_image: str
) -> str:
    """README.md of the folder."""
    jobs = " ".join(f"job/{job_name(host, short[host.slice.host])}" for host in hosts)
    names = [
        object_name("triton", server.slice.name, short[host.slice.host]) for host in hosts for server in host.servers
    ]
    rollouts = "\n".join(f"kubectl -n {namespace} rollout status deployment/{name}" for name in names)
    commands = _secrets(hosts, namespace) + _build(hosts, gateway_image)
    return f"""\
# {served.inventory} for Kubernetes

Plan {served.digest}, written by `enginehouse export kubernetes`. Write it anew instead of editing; put changes of your
own into an overlay of kustomize. It needs Kubernetes 1.29 or newer, and NVIDIA's GPU Operator: its device plugin and
GPU feature discovery.

```sh
kubectl apply --server-side -k stage
{commands}kubectl -n {namespace} wait --for=condition=complete --timeout=24h {jobs}
kubectl apply --server-side -k serve
{rollouts}
kubectl apply --server-side -k monitoring   # where a Prometheus operator is
```

`stage` interrupts nothing. A Pod whose weights are missing does not start, and its container `prepare` names the Job.
{_gateway(hosts)}
## The same as on a host

Image, flags, ports of Services, release and its id, weights at the same paths, user id, read-only file system, no
capabilities, /tmp, shared memory, no way out of the container, times of start and stop, the questions of the proof
and of the watchdog, the gateway's settings, alerts and their labels.

## Different from a host

- A Deployment has one Pod, on any node with the declared card. Nobody compares the node's driver with the plan.
- Waves and gates are yours: apply the files of `serve` one host after the other, each with its `rollout status`.
- `--pids-limit` and `--ulimit memlock` and `nofile` are settings of kubelet and container runtime. A Pod sets `core`
  and `stack` itself.
- The key of Triton's restricted endpoints is made for each Pod, and not for each start of its container.
- Compiled kernels are kept for the life of a Pod.
- A network policy holds only where the cluster's network plugin enforces it.
- Pod security is `restricted`, without an exception: the device plugin hands the GPU over.
- The alerts of jobs `host`, `dcgm`, `probe` and `haproxy` need exporters of yours under these names.
"""


def _secrets(hosts: tuple[ServedHost, ...], namespace: str) -> str:
    """Commands that make the Secrets of the manifests, without any secret value."""
    lines = []
    if any(host.slice.hub.token for host in hosts):
        lines.append(f"kubectl -n {namespace} create secret generic {TOKEN_SECRET} --from-file=token=TOKEN_FILE")
    if any(host.slice.registry.key for host in hosts):
        lines.append(f"kubectl -n {namespace} create secret docker-registry enginehouse-registry --docker-server=…")
    gateways = [host.gateway.slice for host in hosts if host.gateway]
    if any(gateway.keys or any(model.salts for model in gateway.models) for gateway in gateways):
        lines.append("openssl rand -hex 32 | tr -d '\\n' > salt")
        lines.append(
            f"kubectl -n {namespace} create secret generic {KEYS_SECRET}"
            " --from-file=keys.json=KEYS_FILE --from-file=salt=salt"
        )
    return "".join(f"{line}\n" for line in lines)


def _build(hosts: tuple[ServedHost, ...], image: str) -> str:
    if not any(host.gateway for host in hosts):
        return ""
    tagged = image.partition("@")[0]
    return f"docker build -t {tagged} -f gateway-image/Containerfile gateway-image && docker push {tagged}\n"


def _gateway(hosts: tuple[ServedHost, ...]) -> str:
    if not any(host.gateway for host in hosts):
        return ""
    return """
The gateway's image is yours to build from `gateway-image/` and to push where the cluster pulls it; the export names it
by `--gateway-image`. Clients reach all gateways at the Service `gateway`; put your own Ingress with TLS before it.
"""
