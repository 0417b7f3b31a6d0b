"""Cards as words of a command line: with a count, several in one word, or instead of a model."""

import re
from collections.abc import Iterable

from deploy.catalog import GPUS
from deploy.catalog.gpus import counted
from deploy.catalog.machine_types import listed, not_here
from deploy.planning.fit import near_card
from deploy.refusals import refuse
from deploy.validation.cards import card_meant, card_problem, is_named, known_cards


def confirm_order(gpu: str, models: tuple[str, ...]) -> None:
    """Raises: a Refusal for a card with a count, for a card behind a model, and for an unknown card."""
    count, card = counted(gpu)
    if count and is_card(card) and not is_card(gpu):
        raise refuse(
            "unknown-gpu",
            "a count stands in the name of the card, and --tp says over how many GPUs a model is split",
            where="GPU",
            seen=gpu,
            wanted="one card of the catalog",
            attempt=f"enginehouse fit {near_card(card)[0]} {' '.join(models)} --tp {count}",
        )
    behind = [word for word in models if is_card(word) or is_card(counted(word)[1])]
    if behind and not is_card(gpu):
        number, card = counted(behind[0])
        rest = " ".join(word for word in (gpu, *models) if word != behind[0])
        raise refuse(
            "unknown-gpu",
            "the card stands behind a model, and it comes first",
            where="GPU",
            seen=f"{gpu} {' '.join(models)}",
            wanted="enginehouse fit GPU MODELS",
            attempt=f"enginehouse fit {near_card(card)[0]} {rest}" + (f" --tp {number}" if number else ""),
        )
    if not is_card(gpu) and " MIG " not in gpu:
        own = re.sub("[^a-z0-9]+", "-", (card if count else gpu).lower()).strip("-")
        meant, number = card_meant(gpu)
        fitting = f"enginehouse fit {meant} {' '.join(models)}" + (f" --tp {number}" if number not in ("", "1") else "")
        sm, mib = listed(gpu)
        typed = f"enginehouse fit {own} {' '.join(models)} --sm {sm or 89} --mib {mib or 24564}"
        typed += f" --tp {count}" if count else ""
        is_elsewhere = bool(not_here(gpu))
        raise refuse(
            "unknown-gpu",
            card_problem(gpu),
            where="GPU",
            seen=gpu,
            wanted="a card of the catalog"
            if is_elsewhere
            else "a card of the catalog; else its compute capability without the point, and its MiB: "
            "nvidia-smi --query-gpu=compute_cap,memory.total --format=csv",
            attempt=fitting
            if number or is_named(gpu)
            else typed
            if sm
            else known_cards(meant) + ("" if is_elsewhere else f"; or the card's own numbers, as in {typed}"),
        )


def is_card(word: str) -> bool:
    return near_card(word)[0] in GPUS


def cards_of(words: Iterable[str]) -> list[str]:
    """The rows of the catalog that --gpu names. Raises: a Refusal for a word that is no card."""
    cards = []
    for word in words:
        parts = [counted(part.strip())[1] for part in re.split(r"[,;]", word) if part.strip()]
        if not is_card(word):
            known = [near_card(part)[0] for part in parts if is_card(part)]
            meant, number = card_meant(word)
            known += [meant] if (number or is_named(word)) and not known else []
            raise refuse(
                "unknown-gpu",
                card_problem(word),
                where="--gpu",
                seen=word,
                wanted="one card of the catalog; several as --gpu CARD --gpu CARD",
                attempt=" ".join(f"--gpu {card}" for card in known) or known_cards(meant),
            )
        cards.append(near_card(word)[0])
    return cards
