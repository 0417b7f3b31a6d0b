"""Measurements of speed beside a peer, with the machine they ran on. Every program here prints one JSON line last.

Nothing else imports this package but `rehearsal.real_gpu`, which measures a deployed server with its clients.

Programs:

    python -m benchmarks.encoders        reranker and embedder behind the real Triton, beside the naive backends
    python -m benchmarks.soak            a long mixed load: right answers, refusals, leaks, restarts
    python -m benchmarks.rollout         what clients lose while a fleet of rehearsal machines is changed under load
    python -m benchmarks.hostile         what one tenant's bad requests cost another, at the gateway
    python -m benchmarks.chart           the SVG of README.md beside it out of a stored JSON line
    python -m benchmarks.bring_triton    one file that carries the real Triton to a machine without a package index
"""
