#!/bin/bash
# The certificate that certbot.ini orders: asked for at first, renewed when it is due, and handed to HAProxy. Safe to run
# again: a certificate that lasts stays, and HAProxy is reloaded for a new one only.
set -euo pipefail
umask 077
cd "${ENGINEHOUSE_HTTPS:-/etc/enginehouse/https}"
rm -f acme.pem.new

# The issuer of the directory's own certificate, where the operating system does not trust it.
if grep -q BEGIN issuer.pem; then export REQUESTS_CA_BUNDLE=$PWD/issuer.pem; fi
order=$(cat certbot.ini issuer.pem | sha256sum | cut -d' ' -f1)
certbot certonly --config certbot.ini

live=acme/live/$(sed -n 's/^cert-name = //p' certbot.ini)
cat "$live/fullchain.pem" "$live/privkey.pem" >acme.pem.new
if cmp -s acme.pem.new acme.pem; then
  rm acme.pem.new
else
  sync acme.pem.new
  mv -T acme.pem.new acme.pem
  systemctl try-reload-or-restart enginehouse-https.service
fi
# Last: an order that was cut off is made again by the next run.
echo "$order" >ordered
