"""TensorRT engines, decided and not yet built: their parts, their build commands, and their settings at run time.

Pure, as all of `deploy`. A unit on the host builds an engine; a replay of prompts and a signature make hosts trust it.
"""
