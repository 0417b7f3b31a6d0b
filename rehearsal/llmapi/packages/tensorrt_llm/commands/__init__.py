"""What `trtllm-build` and its sisters are started through."""
