"""A bare Debian VM to practise on, without a cloud and without a GPU.

Machines are real: own systemd, sshd, apt, Docker, address and reboot. Only NVIDIA's hardware and servers have
stand-ins, which are all in this package and name themselves in their output. Only its own tests import this package;
production code cannot tell a rehearsal from a provider's VM.
"""
