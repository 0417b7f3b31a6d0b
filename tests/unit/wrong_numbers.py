"""Wrong inventories of right types: numbers in another unit, pairs that exclude each other, mistyped logins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deploy.spec import (
    DataDisk,
    Docker,
    Fabric,
    Firewall,
    Hub,
    KVCache,
    Opening,
    Registry,
    Release,
    Replay,
    Rollout,
    Secret,
    Toolkit,
)
from deploy.spec.surroundings import CertificateFile
from tests.unit.samples import AROUND, LLAMA, MACHINE, main, pinned
from tests.unit.wrong import Wrong, own_llm
from tests.unit.wrong_balancers import CHAT, edge, pool, second
from tests.unit.wrong_monitors import EYES, eyes

LLAMA_AT = 'servers["main"].models["llama"]'
STRANGE = "unbelievable-number"


def implausible(where: str, **data: Any) -> Wrong:
    """A host with an implausible number."""
    return Wrong(data, STRANGE, where)


def implausible_llm(field: str, **changes: Any) -> Wrong:
    """An LLM with an implausible number."""
    return implausible(f"{LLAMA_AT}.{field}", **main(replace(LLAMA, **changes)))


def login(where: str, kind: str = "unsafe-login", **data: Any) -> Wrong:
    """A host with a connection setting that does not reach it."""
    return Wrong(data, kind, where)


NUMBERS = {
    "a share of tasks is no fraction": implausible_llm(
        "replay.minimum_percent", replay=Replay(tasks="tasks.jsonl", minimum_percent=0.95)
    ),
    "a share of tokens is no fraction": implausible_llm("replay.equal_percent", replay=Replay(equal_percent=0.9)),
    "memory of a host is typed in MiB and not in GiB": implausible(
        "machine.memory_mib", machine=replace(MACHINE, memory_mib=512)
    ),
    "memory of a host is typed in MiB and not in bytes": implausible(
        "machine.memory_mib", machine=replace(MACHINE, memory_mib=549_755_813_888)
    ),
    "a host's disk is typed in MiB": implausible("machine.disk_mib", machine=replace(MACHINE, disk_mib=2000)),
    "a host has as many GPUs as hosts have": implausible("machine.gpus", machine=replace(MACHINE, gpus=99)),
    "a cache in host memory is typed in MiB": implausible_llm("kv_cache.host_mib", kv_cache=KVCache(host_mib=32)),
    "a queue is not endless": implausible_llm("max_queue_size", max_queue_size=10**9),
    "a batch is one that a card serves": implausible_llm("max_batch_size", max_batch_size=100_000),
    "parameters are counted and not in billions": implausible(
        'servers["main"].models["mine"].checkpoint.parameters', **main(own_llm("LlamaForCausalLM", parameters=8))
    ),
    "a wave waits no week": Wrong({"rollout": Rollout(bake_seconds=300_000)}, STRANGE, "rollout.bake_seconds", ()),
}

PAIRS = {
    "more canaries than hosts are every host": Wrong(
        pool(rollout=Rollout(canary_hosts=100)),
        "canaries-beyond-the-fleet",
        "rollout.canary_hosts",
        (second(rollout=Rollout(canary_hosts=100)), edge(rollout=Rollout(canary_hosts=100))),
    ),
    "two halves of a network are everybody": Wrong(
        {"firewall": Firewall(allow=("0.0.0.0/1", "128.0.0.0/1"))}, "firewall-allows-everybody", "firewall.allow"
    ),
    "sixteen parts of a network are everybody": Wrong(
        {"firewall": Firewall(allow=tuple(f"{first}.0.0.0/8" for first in range(16, 32)))},
        "firewall-allows-everybody",
        "firewall.allow",
    ),
    "two halves of IPv6 are everybody": Wrong(
        {"firewall": Firewall(allow=("::/1", "8000::/1"))}, "firewall-allows-everybody", "firewall.allow"
    ),
    "an opening of SSH's port closes it to nobody": Wrong(
        {"firewall": Firewall(allow=("10.0.0.0/8",), open=(Opening(port=22, sources=("10.9.0.0/16",)),))},
        "opening-of-ssh",
        "firewall.open[0].port",
    ),
    "a host is not the balancer before it": Wrong(
        pool(peer_address="10.0.0.5"), "address-of-another-host", "peer_address", (second(), edge())
    ),
    "a monitor is not the host that it watches": Wrong(
        {"peer_address": EYES.address}, "address-of-another-host", "peer_address", (eyes(),)
    ),
    "a token does not travel in plain text": Wrong(
        {"hub": Hub(endpoint="http://hub.example", token=Secret.env("HF_TOKEN"))}, "token-in-plain-text", "hub.endpoint"
    ),
    "a registry's user has a key": Wrong(
        {"registry": Registry(username="builder")}, "username-without-key", "registry.key"
    ),
    "an image is of the release that it is derived from": Wrong(
        {
            "release": Release(
                name="ours", image="registry.example/triton:25.04-trtllm-python-py3", derived_from="26.07"
            ),
            "image_digest": "sha256:" + "a" * 64,
        },
        "image-of-another-release",
        "release.image",
    ),
    "a toolkit's version has a revision": Wrong({"toolkit": Toolkit(version="1.20")}, "no-version", "toolkit.version"),
    "a data disk is no partition": Wrong(
        {"machine": replace(MACHINE, data_disk=DataDisk(device="/dev/nvme1n1p1"))},
        "data-disk-device",
        "machine.data_disk.device",
    ),
    "an address of one link has no clients": Wrong(
        main(address="fe80::1%eth0", protection="firewall"), "bad-address", 'servers["main"].address'
    ),
    "a commit is of its repository": Wrong(
        main(replace(LLAMA, weights=replace(LLAMA.weights, revision=pinned("gpt-oss-20b").revision))),
        "revision-of-another-repository",
        f"{LLAMA_AT}.weights.revision",
    ),
    "a command's words are not one word": Wrong(
        {"hub": Hub(token=Secret.command("cat keys/token"))}, "command-in-one-word", "hub.token"
    ),
    "an L40S has no NVSwitch": Wrong(
        {"machine": replace(MACHINE, gpu="l40s-48", nvswitch=True)}, "nvswitch-without-nvlink", "machine.nvswitch"
    ),
    "an interface has a name of Linux": Wrong(
        {"machine": replace(MACHINE, fabric=Fabric(kind="roce", gbit=400, interface="mlx5_0:1"))},
        "fabric-interface",
        "machine.fabric.interface",
    ),
    "a kernel's flavour is offered the nearest": Wrong(
        {"machine": replace(MACHINE, kernel_flavour="azur")}, "kernel-flavour", "machine.kernel_flavour"
    ),
    "a disk has its whole name": Wrong(
        {"machine": replace(MACHINE, data_disk=DataDisk(device="/dev/nvme1n"))},
        "data-disk-device",
        "machine.data_disk.device",
    ),
    "a route is not SSH's": Wrong(
        pool(),
        "port-twice",
        'balancer.routes["chat"].http_port',
        (second(), edge(routes=(replace(CHAT, http_port=22),))),
    ),
    "a server's port is not SSH's": Wrong(
        {"ssh_port": 2222, **main(http_port=2222)}, "port-twice", 'servers["main"].http_port'
    ),
    "typed numbers make as many parameters as are typed": Wrong(
        main(own_llm("LlamaForCausalLM", parameters=70_000_000_000)),
        "numbers-apart",
        'servers["main"].models["mine"].checkpoint.parameters',
    ),
    "a variable that is not set is no address": Wrong(
        {"hub": Hub(endpoint=f"https://{None}/mirror")}, "unfilled-text", "hub.endpoint"
    ),
    "a template that nobody filled in is no path": Wrong(
        {"registry": Registry(ca_file="${CA_FILE}")}, "unfilled-text", "registry.ca_file"
    ),
    "a peer's address is no number": Wrong({"peer_address": "26.07"}, "bad-peer-address", "peer_address"),
    "a server's certificate is no authority": Wrong(
        {"registry": Registry(ca_file="keys/registry.pem")},
        "leaf-as-authority",
        "registry.ca_file",
        around=replace(AROUND, certificates={"keys/registry.pem": CertificateFile(is_authority=False)}),
    ),
}

DAEMON = {
    "dockerd's keys are offered the nearest": Wrong(
        {"docker": Docker(daemon={"registry-mirors": ["https://mirror.example"]})},
        "daemon-key",
        'docker.daemon["registry-mirors"]',
    ),
    "dockerd's lists are lists": Wrong(
        {"docker": Docker(daemon={"insecure-registries": "registry.example:5000"})},
        "daemon-key",
        'docker.daemon["insecure-registries"]',
    ),
    "Docker's API does not answer the network": Wrong(
        {"docker": Docker(daemon={"hosts": ["unix:///var/run/docker.sock", "tcp://0.0.0.0:2375"]})},
        "docker-over-network",
        'docker.daemon["hosts"]',
    ),
    "what JSON cannot write is in no daemon.json": Wrong(
        {"docker": Docker(daemon={"debug": object()})}, "wrong-type", 'docker.daemon["debug"]'
    ),
}

LOGINS = {
    "a user is no part of an address": login("ssh_hostname", ssh_hostname="ubuntu@203.0.113.7"),
    "a port is no part of an address": login("ssh_hostname", ssh_hostname="203.0.113.7:2222"),
    "an address is no URL": login("ssh_hostname", ssh_hostname="ssh://gpu-1"),
    "an address has no blanks": login("ssh_hostname", ssh_hostname="gpu-1 "),
    "an address is no network": login("ssh_hostname", ssh_hostname="10.0.0.5/24"),
    "a port of SSH is a number": login("ssh_port", ssh_port="22/tcp"),
    "a port of SSH is in TCP's range": login("ssh_port", ssh_port=222_222),
    "sudo is a switch": login("_sudo", _sudo="yes"),
    "a setting of SSH is offered the nearest": login("ssh_usr", "unknown-key", ssh_usr="ubuntu"),
    "an argument of operations is offered the nearest": login("_sudoo", "unknown-key", _sudoo=True),
    "a key of one's own begins with own": login("_rack", "unknown-key", _rack="b12"),
    "an address of nobody is no host's": login("ssh_hostname", ssh_hostname="0.0.0.0"),
    "digits alone are no host's name": login("ssh_hostname", ssh_hostname="8000"),
    "a login waits for seconds": login("ssh_connect_retry_max_delay", ssh_connect_retry_max_delay=60_000),
    "an environment is a dictionary": login("_env", _env="A=1"),
    "a step that failed does not pass": login("_ignore_errors", "out-of-step", _ignore_errors=True),
    "a run is named by a word": login("run", "wrong-type", run=Rollout()),
    "a password of SSH is not typed": login("ssh_password", "literal-secret", ssh_password="hunter2"),
    "a password of sudo is not typed": login("_sudo_password", "literal-secret", _sudo_password="hunter2"),
    "a secret is in no key of one's own": login(
        "own_token", "literal-secret", own_token="ghp_0123456789abcdefghijklmnopqrstuvwxyz"
    ),
}

ALL = {**NUMBERS, **PAIRS, **DAEMON, **LOGINS}
