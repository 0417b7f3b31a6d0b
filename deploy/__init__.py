"""Pure decisions: the same inventory in, the same plan out, on a laptop, with no host needed.

inventory ─▶ Fleet (spec) ─▶ catalog, memory, paths, waves ─▶ Plan (plan) ─▶ one Slice per host ─▶ roles act on it.
Nothing here opens a file, reads a clock or talks to a host; `deploy/io/` does.
"""
