"""The rehearsal's machines with one embedder and one LLM, which the environment changes for a test.

SURFACE_VERBOSE: Triton's log_verbose. SURFACE_ALLOW, SURFACE_SSH: networks of a declared firewall, comma-separated.
SURFACE_REST: the firewall's `rest`. SURFACE_BIP: an address of Docker's own bridge.
"""

import os
from dataclasses import replace

from deploy.spec import Docker, Firewall
from tests.rehearsal.variants import hosts

_SERVED = ("minilm", "gpt-oss-tiny")


def _networks(variable):
    return tuple(filter(None, os.environ.get(variable, "").split(",")))


def _firewall():
    if not _networks("SURFACE_ALLOW"):
        return None
    rest = os.environ.get("SURFACE_REST", "untouched")
    ssh = _networks("SURFACE_SSH")
    return Firewall(allow=_networks("SURFACE_ALLOW"), ssh=ssh, rest=rest, confirm_seconds=12)


def _change(data, state):
    (server,) = data["servers"]
    models = tuple(model for model in server.models if model.name in _SERVED)
    verbose = int(os.environ.get("SURFACE_VERBOSE", "0"))
    bip = os.environ.get("SURFACE_BIP")
    firewall = _firewall()
    server = server if firewall else replace(server, address="127.0.0.1", protection="")
    return {
        "servers": (replace(server, models=models, log_verbose=verbose),),
        "firewall": firewall,
        "docker": Docker(daemon={"bip": bip} if bip else {}),
        "docker_settings": {"confirm_seconds": 25},
    }


rehearsal = hosts(_change)
