"""Refusals: their parts, and the texts in them."""
