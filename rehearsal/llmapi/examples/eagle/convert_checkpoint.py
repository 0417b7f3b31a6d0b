"""Puts eagle heads on published weights (rehearsal stand-in)."""

import sys

from tensorrt_llm.stand_in.heads import main

if __name__ == "__main__":
    sys.exit(main("eagle"))
