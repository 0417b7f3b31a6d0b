"""Entry points of `trtllm-build` and its sisters."""
