"""What only a machine with a real GPU serves, as far as a CPU can run it."""
