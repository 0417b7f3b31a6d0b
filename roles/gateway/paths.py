"""Names on the host that the gateway role owns."""

from roles._shipping.places import PROGRAMS, SETTINGS, UNITS

USER = "enginehouse-gateway"
UNIT = "enginehouse-gateway@.service"
UNIT_PATH = f"{UNITS}/{UNIT}"
DROP_IN = f"{UNITS}/{UNIT}.d/50-enginehouse-version.conf"
FOLDER = f"{SETTINGS}/gateway"
WANTED = f"{FOLDER}/settings.json"
KEYS = f"{FOLDER}/keys.json"
SALT = f"{FOLDER}/salt"
"""The secret that keeps tenants' cached prefixes apart. Every host makes its own, so nothing travels and nothing is
kept elsewhere. Tenants of two gateways that send to one server find less cached; a host's cache is its own anyway."""
CERTIFICATE, AUTHORITY = f"{FOLDER}/mutual.pem", f"{FOLDER}/authority.pem"
"""Private key and certificate of the gateway, and the fleet's authority, where it sends to servers of other hosts."""
SHARED = "/run/enginehouse-gateway"
"""What processes share of keys' limits: RuntimeDirectory of the unit."""
USAGE = "/var/lib/enginehouse-gateway"
"""Counters of usage: StateDirectory of the unit."""
HOME = f"{PROGRAMS}/gateway"
ENVIRONMENTS = f"{HOME}/environments"
VERSIONS = f"{HOME}/versions"
