"""Programs of a Triton container that run before Triton does."""
