"""Paths, units and names of the host's HTTPS endpoint, which this role owns."""

from roles._shipping.places import RUNTIME, SETTINGS, program, unit

FOLDER = f"{SETTINGS}/https"
CONFIG = f"{FOLDER}/haproxy.cfg"
ORDERED_CERTIFICATE = f"{FOLDER}/acme.pem"
"""Chain and private key of the authority's certificate together; readable by root only."""
ORDER, ISSUER = f"{FOLDER}/certbot.ini", f"{FOLDER}/issuer.pem"
"""The order, as certbot's configuration; and the issuer of the directory's own certificate, if the OS lacks it."""
ORDERED = f"{FOLDER}/ordered"
"""Checksum of the two files of the last successful order."""
ACCOUNT = f"{FOLDER}/acme"
"""Directory of certbot: the account, and each certificate with its private key."""
STARTED = f"{RUNTIME}/https/started"
"""Sums of the files that the running HAProxy has read."""
UNIT_NAME = "enginehouse-https.service"
ORDER_UNIT = "enginehouse-certificate.service"
TIMER = "enginehouse-certificate.timer"
PROGRAM = program("certificate.sh")
UNIT = unit(UNIT_NAME)
OF_THE_ORDER = (unit(TIMER), unit(ORDER_UNIT), PROGRAM, ORDER, ISSUER, ORDERED, ORDERED_CERTIFICATE)
DISTRIBUTION_TIMER = "certbot.timer"
