"""The rehearsal by tag instead of by digest, so that the image must be pulled anew, with a key nobody knows."""

from dataclasses import replace

from deploy.spec import Secret
from tests.rehearsal.variants import hosts

rehearsal = hosts(
    lambda data, _: {
        "release": replace(data["release"], digest=""),
        "registry": replace(data["registry"], key=Secret.command("echo", "wrong")),
    }
)
