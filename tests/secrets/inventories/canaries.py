"""The rehearsal with its keys in an operator's usual places: one in the environment, one in an encrypted file."""

from dataclasses import replace

from deploy.spec import Secret
from tests.rehearsal.variants import hosts

rehearsal = hosts(
    lambda data, state: {
        "registry": replace(data["registry"], key=Secret.env("NGC_API_KEY")),
        "hub": replace(data["hub"], token=Secret.vault(str(state / "vault.yml"), "hub_token")),
    }
)
