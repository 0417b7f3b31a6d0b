"""Each host's part of the plan, on which its roles act."""
