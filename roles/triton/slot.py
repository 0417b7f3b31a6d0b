"""A model with the contract of deploy/models/llm_contract.py: configuration, program, and the modules beside it.

The server runs without auto-completion, so a tensor that config.pbtxt lacks does not exist for a client.
"""

from collections.abc import Mapping

from deploy.models.llm_contract import INPUTS, OUTPUTS
from roles._shipping.texts import HERE
from roles.triton.templates import rendered

PROGRAMS = HERE / "files" / "llm"
SHARED = ("__init__", "events", "inputs", "requests")
"""Modules of both paths; `tokens` is the engine path's."""


def slot(name: str, program: str, decoupled: bool, parameters: Mapping[str, object]) -> dict[str, bytes]:
    """Files of the model `name` by their path inside its directory; `program` is a file of files/llm."""
    modules = (*SHARED, "tokens") if program == "completion.py" else SHARED
    config = rendered(
        "llm.pbtxt.j2", name=name, decoupled=decoupled, inputs=INPUTS, outputs=OUTPUTS, parameters=parameters
    )
    return {
        "config.pbtxt": config,
        "1/model.py": (PROGRAMS / program).read_bytes(),
        **{f"1/llm/{module}.py": (PROGRAMS / f"{module}.py").read_bytes() for module in modules},
    }
