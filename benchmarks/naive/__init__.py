"""The backends that guides describe: one request at a time, padded to its longest text, answered synchronously.

They follow such guides, so that the comparison is with common practice: every request alone (no batcher in
config.pbtxt), `padding=True`, one blocking copy per request, no warm-up, the embedder without prefix, mask or norm
(its vectors are therefore wrong for all but the longest text of a request; only its speed is read here).

If there was a choice the faster one was taken: today's transformers with fused attention instead of the guides'
4.44 with eager attention, and fused attention in the embedder too. nomic's own remote code cannot be had offline, so
`embedder/network.py` follows the published descriptions, with the loop over experts through Python lists.
"""
