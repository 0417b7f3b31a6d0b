"""Batch files of a plan for Slurm: a job acts as a host, and runs the servers of its node's part of the plan.

cluster      the operator's settings: container runtime, shared directory, time limit
refused      plans that a job cannot run as a host does
jobs         hosts that share a batch file, and its time limits
start_lines  the container of a server under Docker or pyxis
batch        the batch files
page         the page beside them
folder       everything as files of a folder
"""
