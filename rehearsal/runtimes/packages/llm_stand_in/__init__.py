"""Rehearsal stand-in of `vllm serve` and `trtllm-serve`: their command lines, pages, errors and signals; no model runs.

It says "rehearsal stand-in" in its first line of output, in its version and in every text that it makes.
"""
