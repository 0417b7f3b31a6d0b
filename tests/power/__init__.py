"""Power cuts during a publish and a swap, on a machine whose disk loses unsynced data."""
