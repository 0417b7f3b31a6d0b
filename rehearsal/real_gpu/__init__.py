"""The whole path on a real GPU: the files sent to an isolated machine, and the steps that run there.

`parts.py` packs the files, `drive` unpacks them there and enters the control root, `steps.py` has the steps.
"""
