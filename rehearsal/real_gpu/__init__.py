"""The whole deploy on a machine with a real GPU: steps, what they measure, and the report they leave."""
