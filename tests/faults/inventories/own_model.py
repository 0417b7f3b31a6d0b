"""The rehearsal with a model of the operator's own, which Triton loads from a directory of the host."""

from dataclasses import replace

from deploy.spec import OwnModel
from tests.faults.variants import hosts

OWN = OwnModel(name="echo", path="/srv/triton", mib=0)

rehearsal = hosts(lambda data, state: {"servers": tuple(replace(own, own_models=(OWN,)) for own in data["servers"])})
