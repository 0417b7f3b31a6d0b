"""Rehearsal stand-in of `vllm serve` and `trtllm-serve`: their command lines, pages, errors and signals; no model runs.

Its first line of output, its version and each of its texts contain "rehearsal stand-in".
"""
