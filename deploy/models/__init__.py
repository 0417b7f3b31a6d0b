"""A model by its numbers: memory, files, backend and settings."""
