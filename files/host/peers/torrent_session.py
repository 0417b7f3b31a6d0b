"""BitTorrent among the hosts of one plan: the session, its peers, its speed, and the senders of corrupt pieces.

It is the only module of the programs that needs more than the standard library: libtorrent 2.0, as Debian and Ubuntu
package it (python3-libtorrent). The run names all peers. There is no tracker, no DHT, no discovery, no port mapping and
no peer exchange; connections are plain TCP, because shared files are public (`private` files are not shared).

Torrents are of version 2 (BEP 52): a sha256 tree for each file. So the digest depends only on names, sizes and content,
every corrupt 16 KiB have one known sender, and a host needs only the digest: it gets the torrent itself from its peers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import libtorrent as lt

LEAST_PIECE, MOST_PIECE, PIECES = 1 << 14, 1 << 24, 8192
"""Smallest and largest piece in bytes, and the approximate number of pieces: a host can pass on whole pieces only. The
smallest piece is one block, which has one sender, so the sender of a corrupt block is certain."""
BANNED = "peer banned"
"""Libtorrent's message when smart_ban bans the sender of a corrupt block; libtorrent has no alert type for it."""
SETTINGS = {
    "user_agent": "enginehouse",
    # The other hosts and the firewall know this one port.
    "max_retry_port_bind": 0,
    "listen_system_port_fallback": False,
    "enable_dht": False,
    "enable_lsd": False,
    "enable_upnp": False,
    "enable_natpmp": False,
    "enable_incoming_utp": False,
    "enable_outgoing_utp": False,
    "in_enc_policy": int(lt.enc_policy.pe_disabled),
    "out_enc_policy": int(lt.enc_policy.pe_disabled),
    # An absent peer is retried at once, for as long as this host waits.
    "min_reconnect_time": 1,
    "max_failcount": 1 << 16,
    "peer_connect_timeout": 5,
    "peer_timeout": 20,
    # 16 peers, 300 MB, 100 Mbit/s, 16 cores, 2026-11-23: 44 s if all are served at once, 38 s with 8 at a time, 39 s
    # with 4; 41 s with 8,192 pieces instead of 2,048.
    "unchoke_slots_limit": 8,
    # Complete hosts stay connected, so that each of them sees when all peers are complete.
    "close_redundant_connections": False,
    # libtorrent's disk threads lose writes if they fall behind: verified blocks stay zero in the file (2.0.8, 16 peers
    # on two busy cores, 2026-11-23: in 8 of 11 runs; none of three runs without these threads).
    "aio_threads": 0,
    "hashing_threads": 0,
    "alert_mask": lt.alert.category_t.error_notification
    | lt.alert.category_t.status_notification
    | lt.alert.category_t.storage_notification
    | lt.alert.category_t.peer_notification
    | lt.alert.category_t.connect_notification,
}
FATAL = (lt.torrent_error_alert, lt.listen_failed_alert, lt.metadata_failed_alert)
BLOCKED = 1
DIRECT = lt.torrent_flags.paused | lt.torrent_flags.auto_managed | lt.torrent_flags.disable_pex


class SessionBroke(Exception):
    """Peers cannot be reached: the port is in use, or the torrent is invalid."""


class DiskBroke(SessionBroke):
    """A file could not be written or read."""


@dataclass(frozen=True)
class Progress:
    """Bytes that are received and verified, and the bytes received since the session began, right and wrong."""

    done: int
    received: int
    is_whole: bool
    has_torrent: bool
    is_checking: bool
    """True while data of an earlier session is being read; no file is requested meanwhile."""


class TorrentSession:
    """A torrent, shared with `peers`, a map from "address:port" to the host's name in messages."""

    def __init__(self, here: str, peers: dict[str, str], bytes_per_second: int = 0) -> None:
        address, _ = split(here)
        limit = {"upload_rate_limit": bytes_per_second, "download_rate_limit": bytes_per_second}
        bound = {"listen_interfaces": here, "outgoing_interfaces": address}
        self.session = lt.session(SETTINGS | limit | bound, 0)
        for extension in ("ut_metadata", "smart_ban"):
            self.session.add_extension(extension)
        self.peers = {split(peer): name for peer, name in peers.items()}
        self.names = {address: name for (address, _), name in self.peers.items()}
        self.session.set_ip_filter(only(set(self.names)))
        # Otherwise addresses of private networks count as "local", and no rate limit applies to them.
        self.session.set_peer_class_filter(everywhere(1 << self.session.global_peer_class_id))
        self.wrong: set[str] = set()
        """Hosts that sent wrong data, and from which no more data is accepted."""
        self.senders: set[str] = set()
        self.whole: set[str] = set()
        """Hosts that were seen to have all files."""
        self.is_flushed = False
        """True once all received data is in the files."""

    def join(self, digest: str, folder: Path) -> None:
        """Requests all files into `folder`/name; verified existing ones are kept."""
        wanted = lt.parse_magnet_uri(f"magnet:?xt=urn:btmh:1220{digest}")
        self._add(wanted, folder)

    def offer(self, torrent: bytes, folder: Path) -> None:
        """Shares everything under `folder`/name. It was verified before, so no file is read now."""
        parameters = lt.add_torrent_params()
        parameters.ti = lt.torrent_info(lt.bdecode(torrent))
        parameters.flags |= lt.torrent_flags.seed_mode
        self._add(parameters, folder)

    def resume(self, data: bytes, folder: Path) -> None:
        """Shares everything under `folder`/name; `data` is another session's `resume_data`."""
        parameters = lt.read_resume_data(data)
        parameters.flags |= lt.torrent_flags.seed_mode
        self._add(parameters, folder)

    def resume_data(self, seconds: int) -> bytes:
        """The state that a later process resumes from. Raises `SessionBroke` if it does not come in time."""
        self.torrent.save_resume_data(lt.torrent_handle.save_info_dict)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for alert in self._alerts_after(0.05):
                if isinstance(alert, lt.save_resume_data_alert):
                    return bytes(lt.write_resume_data_buf(alert.params))
                if isinstance(alert, lt.save_resume_data_failed_alert):
                    raise SessionBroke(alert.message())
        raise SessionBroke("libtorrent does not report its state")

    def _add(self, parameters: lt.add_torrent_params, folder: Path) -> None:
        parameters.save_path = str(folder)
        # Allocates the whole files now: a disk that fills up later would end this process during a write.
        parameters.storage_mode = lt.storage_mode_t.storage_mode_allocate
        parameters.flags &= ~DIRECT
        self.torrent = self.session.add_torrent(parameters)
        self.connect_peers()

    def connect_peers(self) -> bool:
        """True if a peer that lacks data is connected; starts connections to all unconnected peers."""
        seen = self.torrent.get_peer_info()
        for peer in seen:
            name = self.names.get(peer.ip[0], peer.ip[0])
            if peer.total_download:
                self.senders.add(name)
            if peer.flags & lt.peer_info.seed:
                self.whole.add(name)
        connected = {peer.ip[0] for peer in seen}
        for address, port in self.peers:
            if address not in connected:
                self.torrent.connect_peer((address, port))
        return any(not peer.flags & lt.peer_info.seed for peer in seen)

    def progress(self) -> Progress:
        """The progress of this host's download."""
        status = self.torrent.status()
        return Progress(
            status.total_wanted_done,
            status.total_payload_download,
            status.is_seeding,
            status.has_metadata,
            status.state in (lt.torrent_status.states.checking_files, lt.torrent_status.states.checking_resume_data),
        )

    def flush(self) -> None:
        """Starts writing all received data to the files; a piece counts as received before that (2.0.8)."""
        self.is_flushed = False
        self.torrent.flush_cache()

    def files(self) -> dict[str, int]:
        """Bytes of every file by its name in the torrent's folder; empty before a peer has sent the torrent."""
        metadata = self.torrent.torrent_file()
        return sizes_of(metadata) if metadata else {}

    def _alerts_after(self, seconds: float) -> list[lt.alert]:
        """Alerts posted by the end of a pause.

        `wait_for_alert` is not safe in Python (2.0.8): it returns a pointer into the queue, and libtorrent's thread may
        move the queue before the binding reads the alert's type. New sessions under load, 2026-11-26: 5 of 12 processes
        died of SIGSEGV, none of 12 with `pop_alerts` alone, whose alerts stay in place until its next call.
        """
        time.sleep(seconds)
        return list(self.session.pop_alerts())

    def heed(self, seconds: float) -> list[str]:
        """Hosts banned since the last call. Waits for `seconds`. Raises `SessionBroke`.

        Each host sent a corrupt piece, or a part of a corrupt piece. libtorrent 2.0 bans a host at once when it knows
        that its block is corrupt, and also when it contributed to several corrupt pieces.
        """
        caught = set()
        for alert in self._alerts_after(seconds):
            if isinstance(alert, lt.file_error_alert):
                raise DiskBroke(alert.message())
            if isinstance(alert, FATAL):
                raise SessionBroke(alert.message())
            self.is_flushed = self.is_flushed or isinstance(alert, lt.cache_flushed_alert)
            if is_ban(alert):
                caught.add(self.names.get(alert.ip[0], alert.ip[0]))
        new = sorted(caught - self.wrong)
        self.wrong |= caught
        return new


def is_ban(alert: lt.alert) -> bool:
    """True if the alert reports a host that sent corrupt data."""
    was_left = isinstance(alert, lt.peer_disconnected_alert) and alert.error.message() == BANNED
    return was_left or isinstance(alert, lt.peer_ban_alert)


def describe(directory: Path, names: list[str]) -> tuple[str, bytes]:
    """Digest (64 hex digits) and torrent of the named files, equal on every host with them. Reads every file."""
    storage = lt.file_storage()
    for name in sorted(names):
        storage.add_file(f"{directory.name}/{name}", (directory / name).stat().st_size)
    made = lt.create_torrent(storage, piece_bytes(storage.total_size()), lt.create_torrent.v2_only)
    lt.set_piece_hashes(made, str(directory.parent))
    torrent = lt.bencode(made.generate())
    return digest_of(torrent), torrent


def digest_of(torrent: bytes) -> str:
    """The digest under which a torrent is requested. Raises RuntimeError or ValueError for an invalid torrent."""
    return str(lt.torrent_info(lt.bdecode(torrent)).info_hashes().v2)


def piece_bytes(total: int) -> int:
    """Bytes of a piece: a power of two that makes about `PIECES` pieces."""
    wanted = LEAST_PIECE
    while wanted < MOST_PIECE and wanted * PIECES < total:
        wanted *= 2
    return wanted


def sizes_of(torrent: lt.torrent_info) -> dict[str, int]:
    """Bytes of every file of a torrent, by its name in the torrent's folder, without padding."""
    files = torrent.files()
    kept = [n for n in range(files.num_files()) if not files.file_flags(n) & lt.file_flags_t.flag_pad_file]
    return {files.file_path(number).partition("/")[2]: files.file_size(number) for number in kept}


def only(addresses: set[str]) -> lt.ip_filter:
    """Allows connections from these addresses only."""
    made, allowed = everywhere(BLOCKED), 0
    for address in addresses:
        made.add_rule(address, address, allowed)
    return made


def everywhere(flags: int) -> lt.ip_filter:
    """A filter with the same flags for every IPv4 and IPv6 address."""
    made = lt.ip_filter()
    made.add_rule("0.0.0.0", "255.255.255.255", flags)
    made.add_rule("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", flags)
    return made


def split(place: str) -> tuple[str, int]:
    """Address and port of "address:port"; an IPv6 address is in brackets."""
    address, _, port = place.rpartition(":")
    return address.strip("[]"), int(port)
