"""The plug is pulled in the middle of a publish and of a swap, on a machine whose disk loses what was not synced."""
