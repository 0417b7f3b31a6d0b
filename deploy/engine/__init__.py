"""TensorRT engines, decided and not yet built: what one is made of, how it is made, what it is told at run time.

Pure, as all of `deploy`. Building is a unit on the host; trusting is a replay and a signature.
"""
