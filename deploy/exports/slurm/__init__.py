"""Batch files of a plan for Slurm: a job is a host, which runs the servers of its node's part of the plan.

cluster      what the operator says of the cluster: container runtime, shared directory, time limit
refused      what a job cannot do as a host does it
jobs         hosts that one batch file serves, and its times
start_lines  the container of a server under Docker or pyxis
batch        the batch files
page         the page beside them
folder       all of it as files of a folder
"""
