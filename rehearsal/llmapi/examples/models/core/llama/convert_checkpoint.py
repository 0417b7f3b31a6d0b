"""Converts published weights of the `llama` family (rehearsal stand-in)."""

import sys

from tensorrt_llm.stand_in.convert import main

if __name__ == "__main__":
    sys.exit(main("llama"))
