"""Configuration classes of the LLM API (rehearsal stand-in)."""


class KvCacheConfig(dict):
    """The fields of the cache's settings; LLM checks the names."""

    def __init__(self, **fields):
        super().__init__(fields)
