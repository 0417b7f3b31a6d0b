"""Module of openai before it gained the reasoning part (rehearsal stand-in)."""
