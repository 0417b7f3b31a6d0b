"""The rehearsal with another image: the same one and a layer more, under the digest the state directory names."""

from dataclasses import replace

from tests.faults.variants import hosts

rehearsal = hosts(
    lambda data, state: {"release": replace(data["release"], digest=(state / "other-image").read_text().strip())}
)
