"""Advice for keys that belong elsewhere: the nearest known key would lead operators astray."""

from __future__ import annotations

import re

ELSEWHERE = (
    (
        re.compile(r"(?i)([a-z]+_)?prox(y|ies)(_[a-z]+)?"),
        'images: Docker(daemon={"proxies": {"https-proxy": "http://HOST:3128"}}); packages: Acquire::http::Proxy in '
        '/etc/apt/apt.conf.d/ of the host; weights: fetch_on="control", and https_proxy in the environment here',
    ),
    (
        re.compile(r"(?i)(triton_)?model_(repository|repo|dir)|triton_models?|models?_path"),
        "leave it out: a server has LLM, Embedder and Reranker; a model.py of your own needs a Triton of its own",
    ),
    (
        re.compile(r"(?i)(nodes?|num_nodes|nnodes|world_size|multi_?node|ray_.+|mpi_.+)"),
        "leave it out: a model is not split over hosts; a fleet is more hosts with the same server",
    ),
)


def elsewhere(key: str) -> str:
    """The advice for a key that belongs elsewhere; "" for a key that is not in the table."""
    return next((attempt for pattern, attempt in ELSEWHERE if pattern.fullmatch(key)), "")
