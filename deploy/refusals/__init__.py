"""Refusals: their parts and their texts. Other folders import them from here."""

from deploy.refusals.errors import PREFLIGHT, Refusal, Refusals, refuse_all
from deploy.refusals.json_faults import json_fault
from deploy.refusals.quoting import (
    ForeignObject,
    described,
    inside_quotes,
    kind_of,
    on_one_line,
    shortened,
    source,
    visible,
)
from deploy.refusals.refuse import at, model_at, refuse, server_at, together
from deploy.refusals.renamed import renamed
from deploy.refusals.secrets_in_text import secret_in, typed_out, without_secrets

__all__ = [
    "PREFLIGHT",
    "ForeignObject",
    "Refusal",
    "Refusals",
    "at",
    "described",
    "inside_quotes",
    "json_fault",
    "kind_of",
    "model_at",
    "on_one_line",
    "refuse",
    "refuse_all",
    "renamed",
    "secret_in",
    "server_at",
    "shortened",
    "source",
    "together",
    "typed_out",
    "visible",
    "without_secrets",
]
