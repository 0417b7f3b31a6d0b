"""A vLLM command line as an inventory: which of its options have a place here, which have none and why.

text ─▶ the words of a `vllm serve` (a line, docker run, a compose file, a manifest) ─▶ a finding for each option ─▶ the
inventory. Nothing is run, and no option is passed over in silence.
"""
