"""The control process is killed at random moments of a full run, and the next run repairs the result."""
