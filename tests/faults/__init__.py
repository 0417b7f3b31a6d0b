"""What goes wrong on a host, one thing after the other, on a whole machine."""
