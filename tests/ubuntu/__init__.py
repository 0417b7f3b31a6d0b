"""Machines of Ubuntu 22.04, 24.04 and 26.04, made of Ubuntu's own archive: `make test-ubuntu`."""
