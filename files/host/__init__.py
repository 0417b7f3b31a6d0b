"""The programs that run on hosts, Python's standard library only (3.10 and later); `__main__` lists them.

One exception: `peers.torrent_session` imports libtorrent, which is a package of the distribution.

The whole folder is published to /usr/local/lib/enginehouse/host at once (roles/_shipping/programs.py), so the modules
import one another freely. Three files are also read where the package is not, and import nothing of it: `replay` and
`cuda_probe` run inside a container, and `removal` is sent to hosts that may have no programs of ours any more.
"""
