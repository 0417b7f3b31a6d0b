"""Refusals: their parts and their texts."""
