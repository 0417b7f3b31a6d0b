"""TensorRT engines, decided and not yet built: their parts, their build commands, and their settings at run time.

Pure, as all of `deploy`. Building is a unit on the host; trusting is a replay and a signature.
"""
