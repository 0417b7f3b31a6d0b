"""Before the reasoning part was added (rehearsal stand-in)."""
