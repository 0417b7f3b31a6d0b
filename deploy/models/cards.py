"""The card of a declared machine: a row of the catalog, or the inventory's own."""

from deploy.catalog import GPUS
from deploy.catalog.gpus import GPU
from deploy.spec import Machine

DECLARED = "declared by an inventory; nothing here was measured on it"


def declared_card(machine: Machine) -> GPU | None:
    """The machine's card; None if neither the catalog nor the inventory has its numbers."""
    own = machine.card
    if own is None:
        return GPUS.get(machine.gpu)
    if not own.sm.isdecimal():
        return None
    return GPU(
        name=machine.gpu,
        title=own.smi or machine.gpu,
        smi=own.smi or machine.gpu,
        pci_id=own.pci_id,
        sm=own.sm,
        total_mib=own.mib,
        reserved_mib=own.reserved_mib,
        source=DECLARED,
        is_joined=own.nvlink,
    )


def planned_card(machine: Machine) -> GPU:
    """The card of a machine that the validation accepted."""
    card = declared_card(machine)
    assert card is not None, "an unknown card passed the checks"
    return card
