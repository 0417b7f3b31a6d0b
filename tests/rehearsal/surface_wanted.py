"""The expected surface of a serving machine: Triton's refusals, Docker's settings, and the owners of files."""

from __future__ import annotations

RESTRICTED = [
    ("POST", "/v2/repository/index"),
    ("POST", "/v2/repository/models/minilm/load"),
    ("POST", "/v2/repository/models/minilm/unload"),
    ("GET", "/v2/models/minilm/config"),
    ("GET", "/v2/trace/setting"),
    ("POST", "/v2/trace/setting"),
    ("GET", "/v2/logging"),
    ("POST", "/v2/logging"),
    ("GET", "/v2/systemsharedmemory/status"),
    ("POST", "/v2/systemsharedmemory/region/x/register"),
    ("POST", "/v2/systemsharedmemory/unregister"),
    ("GET", "/v2/cudasharedmemory/status"),
    ("POST", "/v2/cudasharedmemory/region/x/register"),
    ("POST", "/v2/cudasharedmemory/unregister"),
    ("GET", "/v2/models/minilm/trace/setting"),
]
FORBIDDEN_CALLS = {
    "index": lambda client: client.get_model_repository_index(),
    "load": lambda client: client.load_model("minilm"),
    "unload": lambda client: client.unload_model("minilm"),
    "config": lambda client: client.get_model_config("minilm"),
    "trace": lambda client: client.get_trace_settings(),
    "trace on": lambda client: client.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"]}),
    "logging": lambda client: client.get_log_settings(),
    "louder": lambda client: client.update_log_settings({"log_verbose_level": 9}),
    "shared memory": lambda client: client.get_system_shared_memory_status(),
    "register": lambda client: client.register_system_shared_memory("x", "/x", 64),
    "unregister": lambda client: client.unregister_system_shared_memory(),
    "CUDA memory": lambda client: client.get_cuda_shared_memory_status(),
    "register CUDA": lambda client: client.register_cuda_shared_memory("x", b"x" * 64, 0, 64),
}
INSPECTED = {
    "User": "61140:61140",
    "ReadonlyRootfs": True,
    "Privileged": False,
    "CapAdd": None,
    "CapDrop": ["ALL"],
    "SecurityOpt": ["no-new-privileges"],
    "NetworkMode": "enginehouse",
    "PidMode": "",
    "IpcMode": "private",
    "Dns": ["127.0.0.1"],
    "LogConfig": "none",
    "core": [0, 0],
}
EXPOSURE = {"triton@main": 3.0, "enginehouse-swap@main": 4.0}
MODES = {
    "/etc/enginehouse/firewall.nft": "644 0",
    "/etc/enginehouse/undo": "700 0",
    "/run/enginehouse/triton-main": "700 0",
    "/run/enginehouse/triton-main/key": "400 61140",
    "/usr/local/lib/enginehouse/host/undo.py": "644 0",
    "/usr/local/lib/enginehouse/firewall.sh": "755 0",
    "/etc/enginehouse/before": "700 0",
    "/etc/docker/daemon.json": "644 0",
    "/etc/systemd/system/triton@.service": "644 0",
    "/var/lib/enginehouse/cache/*": "700 61140",
    "/var/lib/enginehouse/releases/*/run": "755 0",
    "/var/lib/enginehouse/releases/*/server.json": "644 0",
}
OURS = "/etc/enginehouse /usr/local/lib/enginehouse /var/lib/enginehouse /run/enginehouse"
NOT_ROOTS = (
    f"find {OURS} /etc/systemd/system/*triton@* /etc/systemd/system/*enginehouse-* ! -type l"
    r" \( ! -uid 0 -o -perm /022 \) ! -path '/var/lib/enginehouse/cache/*' 2>/dev/null"
)
"""Files of ours, beside the caches, that are not root's or that others may write."""
LOCKED_OUT = """
kept=/etc/enginehouse/undo/units-triton
while [ ! -e $kept ]; do sleep 0.01; done
iptables -w -I INPUT -p tcp --dport 22 -m conntrack --ctstate NEW -j REJECT --reject-with tcp-reset
while [ -e $kept ]; do sleep 0.1; done
iptables -w -D INPUT -p tcp --dport 22 -m conntrack --ctstate NEW -j REJECT --reject-with tcp-reset
"""
"""Refuses new logins from the moment at which the old units are saved until they are restored."""
