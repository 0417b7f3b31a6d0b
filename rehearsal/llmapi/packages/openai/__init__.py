"""openai 1.107.3 as the images 26.03 to 26.07 carry it, empty but for its version (rehearsal stand-in)."""

__version__ = "1.107.3"
