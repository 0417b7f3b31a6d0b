"""A bare Debian VM to practise on, without a cloud and without a GPU.

Machines are real: own systemd, sshd, apt, Docker, address and reboot. Only what needs NVIDIA's hardware or NVIDIA's
servers is stood in for, under this package alone, and says so where a person would look. Nothing imports this package
but its own tests; production code cannot tell a rehearsal from a provider's VM.
"""
