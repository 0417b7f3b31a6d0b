"""The small image of a Triton that only reads: made inside a machine of that machine's own Python, in seconds.

For machines with a kernel of their own that are cut from power many times: see `tritonserver` beside this file for
what stands in for what. Nobody can pull it; it is imported under a name of its own.
"""

from __future__ import annotations

from pathlib import Path

from rehearsal.machine import Machine

IMAGE = "rehearsal/reader:1"
PROGRAM = Path(__file__).resolve().parent / "tritonserver"
MAKE = f"""
set -e
made=$(mktemp -d)
cd "$made"
mkdir -p usr/bin usr/lib usr/lib64 tmp proc sys dev etc run/enginehouse var/lib/enginehouse var/cache/enginehouse
ln -s usr/bin bin; ln -s usr/lib lib; ln -s usr/lib64 lib64
cat >usr/bin/tritonserver; chmod 0755 usr/bin/tritonserver
python=$(readlink -f /usr/bin/python3)
cp "$python" usr/bin/python3
cp /usr/bin/bash /usr/bin/dirname /usr/bin/basename usr/bin/
cp -a --parents /usr/lib/${{python##*/}} .
for file in "$python" /usr/bin/bash /usr/lib/${{python##*/}}/lib-dynload/*.so; do ldd "$file"; done |
  grep -o '/[^ ]*' | sort -u | sed 's,^/lib,/usr/lib,' | while read -r library; do cp -L --parents "$library" .; done
tar -c . | docker import - {IMAGE}
cd /; rm -rf "$made"
"""


def bring(machine: Machine) -> None:
    """The machine's Docker has the image."""
    machine.run(MAKE, input=PROGRAM.read_bytes())
