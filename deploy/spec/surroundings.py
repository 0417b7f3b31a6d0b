"""The plan's inputs besides the inventory, which `deploy.io` reads once.

Today's date, local checkpoints, calibration texts and certificates, and the engines that were built before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any


@dataclass(frozen=True, kw_only=True)
class LocalWeights:
    """Published files: a directory of the control machine, or a repository in `models.lock.json`.

    They are read from config.json and the headers of the safetensors files; no weights are loaded.
    """

    revision: str
    """`local-` and 16 hex digits over names, sizes and headers; of a repository, its commit."""
    stored_bytes: int
    parameters: int
    files: tuple[str, ...]
    config: Mapping[str, Any] = field(default_factory=dict)
    """The part of config.json that the planner reads; empty without a config.json."""
    repository: str = ""
    fetched: tuple[str, ...] = ()
    """The files of a repository that a host fetches."""
    fault: str = ""
    """The first damaged file, and its damage; empty for whole files."""


@dataclass(frozen=True, kw_only=True)
class EngineRecord:
    """A signed engine, from its engine.json in the ledger.

    `model` is its served name, `built_at` a date or a time that begins with a date.
    """

    model: str
    role: str
    name: str
    fingerprint: str
    fields: Mapping[str, object]
    built_on: str
    built_at: str


@dataclass(frozen=True, kw_only=True)
class CertificateFile:
    """Names and dates in a PEM file's first certificate; `problem` is the reason why they could not be read.

    `is_authority` is True if one of its certificates may sign others, or signs itself.
    """

    problem: str = ""
    begins: date | None = None
    ends: date | None = None
    public_key: str = ""
    """sha256 of its public key (SubjectPublicKeyInfo, DER)."""
    is_authority: bool = True


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The plan's inputs besides the inventory. `local` has an entry for each directory with safetensors files that an
    inventory names.

    `calibrations` has the digest of each directory of calibration texts that could be read, by its path in the
    inventory.
    """

    today: date
    local: Mapping[str, LocalWeights] = field(default_factory=dict)
    engines: tuple[EngineRecord, ...] = ()
    calibrations: Mapping[str, str] = field(default_factory=dict)
    locked: Mapping[str, LocalWeights] = field(default_factory=dict)
    """Repositories by the name that an inventory uses, from the lock beside it."""
    inventory: str = ""
    """The inventory's file, for commands in messages; empty if unknown."""
    missing: tuple[str, ...] = ()
    """A sentence for each file the inventory names that is not on the control machine."""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Models that each key of the gateways may use, by the key's prefix, from the file of keys."""
    certificates: Mapping[str, CertificateFile] = field(default_factory=dict)
    """Certificates on the control machine, by their path in the inventory."""
