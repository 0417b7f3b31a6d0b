"""The run on a real GPU, as far as a CPU can run it."""
