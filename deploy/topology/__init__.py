"""Relations between hosts: sending, reading and sharing, and the order in which they are changed."""
