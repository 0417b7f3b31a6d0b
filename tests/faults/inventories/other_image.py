"""The rehearsal with another image: the original and one more layer, under the digest in the state directory."""

from dataclasses import replace

from tests.faults.variants import hosts

rehearsal = hosts(
    lambda data, state: {"release": replace(data["release"], digest=(state / "other-image").read_text().strip())}
)
