"""Quantizes published weights with calibration texts (rehearsal stand-in)."""

import sys

from tensorrt_llm.stand_in.quantize import main

if __name__ == "__main__":
    sys.exit(main())
