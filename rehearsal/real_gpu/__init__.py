"""The whole path on a real GPU: what travels to a machine that can reach nothing, and the steps that run there.

`parts.py` packs what travels, `drive` unpacks it there and enters the control root, `steps.py` is what happens in it.
"""
