"""Measures speed beside a peer, with the machine it ran on. Every program here prints one JSON line last.

Only `rehearsal.real_gpu` imports this package, to measure a deployed server with its clients.

Programs:

    python -m benchmarks.encoders        reranker and embedder behind the real Triton, beside the naive backends
    python -m benchmarks.soak            a long mixed load: right answers, refusals, leaks, restarts
    python -m benchmarks.rollout         lost requests while a fleet of rehearsal machines is changed under load
    python -m benchmarks.hostile         the cost of one tenant's bad requests to another, at the gateway
    python -m benchmarks.chart           the SVG of README.md from a stored JSON line
    python -m benchmarks.bring_triton    one file with the real Triton for a machine without a package index
"""
