"""How this project says no."""
