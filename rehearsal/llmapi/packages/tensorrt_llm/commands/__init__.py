"""Entry points of `trtllm-build` and similar programs."""
