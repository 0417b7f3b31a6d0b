"""openai 1.107.3 as in the images 26.03 to 26.07, reduced to its version (rehearsal stand-in)."""

__version__ = "1.107.3"
