"""Pure decisions: the same inventory in, the same plan out, on a laptop, with no host needed.

inventory ─▶ Fleet (inventory) ─▶ models, topology ─▶ Plan (planning) ─▶ one Slice per host ─▶ roles act on it.
Nothing here opens a file, reads a clock or talks to a host; `deploy/io/` and `deploy/cli/` do. CONTRIBUTING.md lists
the folders.
"""

import sys

if sys.argv[:1] == ["-m"]:
    sys.path.append(sys.path.pop(0))  # `python -m`: a random.py in the current directory is not Python's module
