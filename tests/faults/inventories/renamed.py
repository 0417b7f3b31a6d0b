"""The rehearsal with its server under another name: same models, same ports, another unit and another container."""

from dataclasses import replace

from tests.faults.variants import hosts

rehearsal = hosts(lambda data, _: {"servers": tuple(replace(server, name="other") for server in data["servers"])})
