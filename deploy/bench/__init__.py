"""Load on a gateway: aiperf's arguments, the figures of its reports, and the comparison of two results.

Pure: `deploy.io.bench` runs aiperf and writes files.
"""
