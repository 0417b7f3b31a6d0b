#!/bin/bash
# Stands where NVIDIA's entry point stands: a banner, then the command.
cat <<'BANNER'

=============================
== Triton Inference Server ==
=============================

rehearsal stand-in: Triton 2.51.0 out of the nvidia-pytriton wheel, on Debian 12, for CPUs; not an image of NVIDIA's.

BANNER
if [[ ! -e /dev/nvidiactl ]]; then
    echo "WARNING: The NVIDIA Driver was not detected. GPU functionality will not be available."
fi
exec "$@"
