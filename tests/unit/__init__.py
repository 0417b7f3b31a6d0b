"""Tests of `deploy/`: no network, no host, no GPU."""
