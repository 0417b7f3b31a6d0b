"""Refusals of a card that the inventory declares itself, its untested properties, and cards meant by other words."""

import re
from collections.abc import Iterator

from deploy.catalog import GPUS
from deploy.catalog.gpus import card_called, counted
from deploy.catalog.machine_types import card_in, listed, machine_type, not_here
from deploy.catalog.names import nearest
from deploy.models.cards import declared_card
from deploy.refusals import Refusal, refuse, shortened
from deploy.spec import GPU, Host

PCI_ID = re.compile(r"10de:[0-9a-f]{4}")
SM = re.compile(r"(?:[1-9][0-9]|1[0-9][0-9])")
LEAST_MIB = 2048
"""Least memory of a card in MiB; `deploy.validation.numbers` refuses less, which is probably a number of GiB."""
X86 = [gpu.name for gpu in GPUS.values() if gpu.platform == "x86_64"]
NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,30}[a-z0-9])?")
PRODUCT = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9 ._+-]{0,62}[A-Za-z0-9])?)?")
OPEN_MODULES_SM, LLM_SM = 75, 80
"""The open kernel modules begin with Turing; TensorRT-LLM's support matrix (1.0 to 1.2) and vLLM's kernels for
bfloat16 begin with Ampere. Read 2026-11-27."""


def card_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each mistake in the inventory's own card, and for an LLM on a card that is too old for one."""
    name, card, known = host.machine.gpu, host.machine.card, declared_card(host.machine)
    if (llms := host.llms) and known and OPEN_MODULES_SM <= int(known.sm) < LLM_SM:
        yield _refused("card.sm" if card else "gpu", f"{llms[0].name}: no engine of an LLM here runs on SM {known.sm}",
                       repr(card.sm if card else name), f"SM {LLM_SM} or later for an LLM",
                       "another card; or only encoders")  # fmt: skip
    if card is None:
        return
    if name in GPUS:
        yield _refused("gpu", f"{name} is in the catalog already, and the inventory declares it again", repr(name),
                       "the catalog's row, or another name", "leave card out")  # fmt: skip
    elif not NAME.fullmatch(name):
        yield _refused("gpu", "prices and reports cannot use this name of a card", shortened(name),
                       "at most 32 small letters, digits, dots and dashes", 'gpu="rtx-5090-32"')  # fmt: skip
    elif row := next((row for row in GPUS.values() if row.pci_id == card.pci_id), None):
        yield _refused("card.pci_id", f"{card.pci_id} is {row.title}, which is in the catalog", repr(card.pci_id),
                       "the PCI id of a card that is not in the catalog", f'gpu="{row.name}" without card')  # fmt: skip
    yield from _numbers(card)
    if host.machine.mig and SM.fullmatch(card.sm):
        yield _refused("mig", "the MIG profiles of a declared card are unknown, so it cannot be cut",
                       str(host.machine.mig), "()", "leave mig out")  # fmt: skip


def _numbers(card: GPU) -> Iterator[Refusal]:
    if not PCI_ID.fullmatch(card.pci_id):
        yield _refused("card.pci_id", "this is not a PCI id, by which preflight finds the card", shortened(card.pci_id),
                       "NVIDIA's vendor and the device in small letters, as `lspci -nn` shows both in brackets",
                       'pci_id="10de:2b85"')  # fmt: skip
    if not SM.fullmatch(card.sm) or int(card.sm) < OPEN_MODULES_SM:
        yield _refused("card.sm", "this is not a compute capability that can be declared",
                       shortened(card.sm), f"two or three digits without the point, from {OPEN_MODULES_SM} on: older "
                       "cards have no open kernel modules", 'sm="120"')  # fmt: skip
    if not PRODUCT.fullmatch(card.smi):
        yield _refused("card.smi", "this name of a card cannot be a label and a title", shortened(card.smi),
                       "at most 64 letters, digits, blanks and . _ + -", 'smi="GeForce RTX 5090"')  # fmt: skip
    if card.reserved_mib * 4 > card.mib >= LEAST_MIB:
        yield _refused("card.reserved_mib", "a driver reserves some hundred MiB, not a quarter of the card's memory",
                       f"reserved_mib={card.reserved_mib}, mib={card.mib}", "less than a quarter of mib",
                       "leave reserved_mib out")  # fmt: skip


def own_card(host: Host) -> str:
    """The sentence about untested properties of a declared card; empty for a card of the catalog."""
    card = declared_card(host.machine)
    if host.machine.card is None or card is None:
        return ""
    links = "with NVLink as declared" if card.nvlink else "without NVLink between its GPUs"
    return (
        f"{card.title} ({card.pci_id}, SM {card.sm}, {card.total_mib:,} MiB) is declared by the inventory: nothing "
        f"here has run on it. Unproven are its {card.reserved_mib:,} reserved MiB, memory of contexts and of encoders "
        f"(measured on an H100), kernels for SM {card.sm} in the image, and the driver. It is planned {links} and whole"
    )


def _refused(where: str, problem: str, seen: str, wanted: str, attempt: str) -> Refusal:
    return refuse("own-card", problem, where=f"machine.{where}", seen=seen, wanted=wanted, attempt=attempt)


def card_meant(name: str) -> tuple[str, str]:
    """The card of the catalog that a typed text means, and the count in the text; both empty without a match.

    Only another board of the same card matches: a V100 is never taken for an H100.
    """
    if not_here(name):
        return "", ""
    if called := card_called(re.sub("[oO]", "0", name)):
        return called.name, ""
    count, kind = counted(name)
    if called := card_called(name) or (card_called(kind) if count else None):
        return called.name, "" if card_called(name) else count
    card, number = machine_type(name)
    if not card:
        card, number = card_in(name)
    if card:
        return card, str(number or "")
    bare = (kind if count else name).lower().removeprefix("nvidia").strip()
    meant = nearest(bare, X86)
    family = re.match("[a-z-]*[0-9]*", meant)
    is_family = bool(meant) and family is not None and _letters(bare).startswith(_letters(family[0]))
    return (meant, count) if is_family else ("", "")


def is_named(name: str) -> bool:
    """True if the text names one card of the catalog, in whatever words."""
    words = (card_called(name) or card_called(counted(name)[1]), machine_type(name)[0], card_in(name)[0])
    return any(words) and not not_here(name)


def card_problem(name: str) -> str:
    """The sentence about a text that is no card of the catalog: a machine type, a foreign card, or an unknown word."""
    card, number = machine_type(name)
    if card and not not_here(name):
        return f"{name} is a machine type with {number} x {GPUS[card].title}, and no card"
    return f"GPU {name} is " + (not_here(name) or "not in the catalog")


def known_cards(meant: str) -> str:
    return (f"did you mean `{meant}`?  " if meant else "") + f"known: {', '.join(sorted(X86))}"


def with_count(name: str) -> str:
    """The correction of a machine's `gpu`: a card with its count, or the cards of the catalog."""
    meant, count = card_meant(name)
    if meant and is_named(name):
        return f'gpu="{meant}"' + (f", gpus={count}" if count else "")
    sm, mib = listed(name)
    declared = f'; or card=GPU(pci_id="10de:…", sm="{sm}", mib={mib}), with the id that lspci -nn shows' if sm else ""
    return known_cards(meant) + declared


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name))
