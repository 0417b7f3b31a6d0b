"""Files as a compressed tar, for hosts that get a directory on standard input; the same files give the same bytes."""

import gzip
import io
import tarfile
from collections.abc import Container, Mapping

MIDNIGHT = 1_700_000_000  # one modification time for every file


def tarred(files: Mapping[str, bytes], executable: Container[str] = ()) -> bytes:
    """The tar, with sorted paths and neutral owners."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mtime = len(content), MIDNIGHT
            entry.mode = 0o755 if path in executable else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(target.getvalue(), mtime=0)  # tarfile's own w:gz writes the time of packing into the header
