"""The rehearsal with two embedders: one downloaded by the host, one sent by the control machine."""

from tests.faults.variants import hosts

rehearsal = hosts()
