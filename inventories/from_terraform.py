"""Three hosts and a balancer that Terraform made: its outputs say who and where, this file what each serves.

`terraform output -json > inventories/terraform/outputs.json` records them; names, addresses, users and `peer_address`
come from there. The jump host stands in one ssh_config, which pyinfra, rsync and the smoke tests read.
"""

from deploy.io.hosts import terraform_hosts
from deploy.spec import LLM, Balancer, Firewall, Machine, Rollout, Route, Secret, Server, Weights

gpt_oss = LLM(
    name="gpt-oss-20b",
    checkpoint="gpt-oss-20b",
    weights=Weights.hub("openai/gpt-oss-20b", "6cee5e81ee83917806bbde320786a8fb61efebee"),
)

_file = "inventories/terraform/outputs.json"
_every = {
    "_sudo": True,
    "ssh_config_file": "inventories/ssh_config",
    "rollout": Rollout(canary_hosts=1, wave_percent=50),
}

chat = (
    terraform_hosts(_file, "chat"),
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
    terraform_hosts(_file, "balancers"),
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
