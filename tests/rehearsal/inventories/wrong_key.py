"""The rehearsal by tag instead of by digest, so that each run pulls the image, with an unknown key."""

from dataclasses import replace

from deploy.spec import Secret
from tests.rehearsal.variants import hosts

rehearsal = hosts(
    lambda data, _: {
        "release": replace(data["release"], digest=""),
        "registry": replace(data["registry"], key=Secret.command("echo", "wrong")),
    }
)
