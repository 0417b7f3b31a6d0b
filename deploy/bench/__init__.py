"""Load on a gateway: what aiperf is told, what its reports come to, and which of two results is slower.

Pure: `deploy.io.bench` runs aiperf and writes files.
"""
