"""Each host's part of the plan, which its roles act on."""
