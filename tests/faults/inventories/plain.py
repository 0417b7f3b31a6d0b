"""The rehearsal with two embedders: one the host fetches itself, one the control machine sends."""

from tests.faults.variants import hosts

rehearsal = hosts()
