"""Flags of `trtllm-build` that exclude each other: each is valid alone, and the build stops if both are given.

Read in `build.py` of the releases whose flags are in `deploy.catalog.flags`.
"""

RIVALS = (
    ("--multiple_profiles", "enable", "--opt_num_tokens"),
    ("--gather_context_logits", "", "--max_draft_len"),
    ("--gather_all_token_logits", "", "--max_draft_len"),
)
"""A flag, its value (empty: any value), and a second flag that the builder refuses together with it."""
