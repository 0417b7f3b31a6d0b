"""The small image of a read-only Triton stand-in, built in seconds from a machine's own Python.

It serves machines with their own kernel that lose power many times; `tritonserver` beside this file lists its
stand-ins. The image cannot be pulled; it is imported under its own name.
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
    """Imports the image into the machine's Docker."""
    machine.run(MAKE, input=PROGRAM.read_bytes())
