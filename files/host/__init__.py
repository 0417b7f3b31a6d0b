"""The programs that run on hosts, with Python's standard library only (3.10 and later); `__main__` lists them.

The only exception: `peers.torrent_session` imports libtorrent, a package of the distribution.

The whole folder is published to /usr/local/lib/enginehouse/host at once (roles/_shipping/programs.py), so its modules
may import each other. Three modules also run without the package and import nothing of it: `replay` and `cuda_probe`
run inside a container, and `removal` is sent to hosts that may no longer have our programs.
"""
