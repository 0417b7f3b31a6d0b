"""The verbs of `enginehouse`: each parses its options and prints."""
