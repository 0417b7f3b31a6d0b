"""Three hosts and a balancer of an Ansible inventory: it says who and where, this file what each serves.

Names, addresses, users, keys and `peer_address` come from `ansible/hosts.yml` and its `host_vars/`. The jump host, the
known hosts and the agent stand in one ssh_config, which pyinfra, rsync and the smoke tests read.
"""

from deploy.io.hosts import ansible_hosts
from deploy.spec import LLM, Balancer, Firewall, Machine, Rollout, Route, Secret, Server, Weights

gpt_oss = LLM(
    name="gpt-oss-20b",
    checkpoint="gpt-oss-20b",
    weights=Weights.hub("openai/gpt-oss-20b", "6cee5e81ee83917806bbde320786a8fb61efebee"),
)

_file, _ssh = "inventories/ansible/hosts.yml", "inventories/ssh_config"
_every = {"_sudo": True, "rollout": Rollout(canary_hosts=1, wave_percent=50)}

chat = (
    ansible_hosts(_file, "chat", ssh_config_file=_ssh),
    _every
    | {
        "pool": "chat",
        "machine": Machine(os="ubuntu-24.04", gpu="h100-80"),
        "release": "26.07",
        "image_digest": "",
        "servers": (Server(name="main", address="0.0.0.0", protection="balancer", models=(gpt_oss,)),),
    },
)
balancers = (
    ansible_hosts(_file, "balancers", ssh_config_file=_ssh),
    _every
    | {
        "balancer": Balancer(
            os="debian-12",
            address="10.0.0.5",
            routes=(Route(pool="chat", http_port=8443, grpc_port=8444, hold_seconds=60),),
            certificate="keys/edge.pem",
            certificate_key=Secret.command("cat", "keys/edge.key"),
        ),
        "firewall": Firewall(allow=("10.0.0.0/8",), rest="closed"),
    },
)
