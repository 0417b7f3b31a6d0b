"""A machine of Ubuntu 24.04, made of Ubuntu's own archive: `make test-ubuntu`."""
