"""The engine path behind the real Triton, with stand-ins for the compiled parts."""
