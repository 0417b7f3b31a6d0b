"""Which host sends to, reads from or shares with which other host, and in which order hosts are changed."""
