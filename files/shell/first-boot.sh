#!/bin/sh
# Brings this host to its plan at first boot: the repository's archive, verified, then a deploy of this host by itself.
#
# enginehouse-first-boot.service runs it until it has succeeded once, also after a reboot that the deploy asked for.
# Each step is written to STATE before it begins. Exit code: that of the step that failed.
set -u
umask 022
SETTINGS=/etc/enginehouse-first-boot
STATE=/var/lib/enginehouse-first-boot/state.json
HOME=${HOME:-/root}
export HOME LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
. "$SETTINGS/settings"
CODE=/opt/enginehouse-first-boot/$SHA256
TIMERS="apt-daily.timer apt-daily-upgrade.timer"
FETCHED=/run/enginehouse-first-boot.env

state() { # STATE STEP EXIT: one line of JSON, replaced as a whole
    mkdir -p "${STATE%/*}"
    printf '{"state": "%s", "step": "%s", "exit": %s, "host": "%s", "plan": "%s", "since": "%s"}\n' \
        "$1" "$2" "$3" "$NAME" "$PLAN" "$(date -u +%FT%TZ)" >"$STATE.new"
    mv "$STATE.new" "$STATE"
    echo "first boot: $1: $2" >&2
}
failed() { # EXIT TEXT
    echo "first boot: $2" >&2
    echo "first boot: once that is mended, type: systemctl start enginehouse-first-boot" >&2
    state failed "$step" "$1"
    exit "$1"
}
begin() { step=$1; state running "$step" null; }
is_shutdown() { [ "$(systemctl is-system-running)" = stopping ]; }
leave() { # however it ends: no secret stays in /run, and upgrades come back; at a shutdown both go by themselves
    rm -f "$FETCHED"
    is_shutdown && return
    systemctl unmask --runtime $TIMERS unattended-upgrades.service || true
    systemctl start $TIMERS || true
}
stopped() { # a reboot that the deploy asked for is no failure: the next boot begins again
    is_shutdown || failed 143 "it was stopped"
    state running reboot null
    exit 0
}
trap leave EXIT
trap stopped TERM INT HUP
patient() { apt-get -q -y -o DPkg::Lock::Timeout=600 -o Acquire::Retries=5 "$@"; }

begin "hold unattended upgrades"
systemctl mask --runtime --now $TIMERS unattended-upgrades.service || true # not every image has them

if [ -n "${PROXY:-}" ]; then # for every program below; a metadata service is on the host's own link
    export http_proxy="$PROXY" https_proxy="$PROXY" no_proxy="$DIRECT,169.254.169.254,metadata.google.internal"
fi

begin "install Python"
patient update || failed $? "apt-get update failed; see the lines above for the source that did not answer"
patient install --no-install-recommends ca-certificates curl python3-venv rsync sudo tar ||
    failed $? "the packages above could not be installed"

begin "fetch the archive"
mkdir -p "$CODE" || failed $? "$CODE could not be made"
archive=$CODE/archive.tar.gz
is_verified() { echo "$SHA256  $archive" | sha256sum --check --status 2>/dev/null; }
is_verified || case $FROM in
    /*) cp -- "$FROM" "$archive" || failed $? "the archive $FROM is not on this image" ;;
    *) curl --fail --silent --show-error --location --retry 6 --retry-all-errors --connect-timeout 20 --max-time 1800 \
        --output "$archive" -- "$FROM" || failed $? "the archive could not be fetched from $FROM" ;;
esac

begin "verify the archive"
is_verified || {
    seen=$(sha256sum <"$archive" | cut -d ' ' -f 1)
    rm -f "$archive"
    failed 65 "the archive of $FROM has SHA-256 $seen, not $SHA256; it was removed and nothing of it was run"
}

begin "unpack the archive"
rm -rf "$CODE/new" && mkdir "$CODE/new" && tar -xzf "$archive" -C "$CODE/new" --no-same-owner ||
    failed 65 "the archive could not be unpacked"
# git archive packs with or without a folder around everything
set -- "$CODE"/new/deploy.py "$CODE"/new/*/deploy.py
[ -f "$1" ] || shift
[ $# -gt 0 ] && [ -f "$1" ] || failed 65 "the archive holds no deploy.py"
rm -rf "$CODE/code" && mv "${1%/deploy.py}" "$CODE/code" || failed $? "the archive could not be moved to $CODE/code"
cd "$CODE/code" || failed $? "there is no $CODE/code"
[ -f "$INVENTORY" ] || failed 65 "the archive holds no $INVENTORY; commit it before git archive"

begin "make the environment"
if [ ! -e "$CODE/venv/whole" ]; then # it is after a reboot
    python3 -m venv "$CODE/venv" || failed $? "python3 -m venv failed"
    "$CODE/venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r locks/requirements.lock ||
        failed $? "a package of locks/requirements.lock could not be had with the hash that the lock names"
    touch "$CODE/venv/whole"
fi

begin "read the secrets"
secrets=$SETTINGS/secrets.env
if [ -s "$SETTINGS/fetch-secrets" ]; then
    secrets=$FETCHED
    (umask 077 && sh "$SETTINGS/fetch-secrets" >"$secrets") || failed $? "the command that fetches secrets failed"
fi
if [ -e "$secrets" ]; then
    while IFS='=' read -r name value || [ -n "$name" ]; do
        case $name in
            '' | '#'*) ;;
            *[!A-Za-z0-9_]* | [0-9]*) failed 78 "a line of the secrets is not NAME=VALUE" ;;
            *) export "$name=$value" ;;
        esac
    done <"$secrets"
fi
rm -f "$FETCHED"
for name in $SECRETS; do
    eval "[ -n \"\${$name:-}\" ]" || failed 78 "the secret $name is missing; put $name=VALUE into $SETTINGS/secrets.env, mode 600"
done

begin "deploy"
PYTHONPATH=$CODE/code ENGINEHOUSE_HERE=$NAME "$CODE/venv/bin/pyinfra" "$INVENTORY" deploy.py -y --limit "$NAME" \
    --data "expect=$PLAN" </dev/null || failed $? "the deploy failed; its reason is above"
trap - TERM INT HUP
state serving deploy 0
touch "${STATE%/*}/served"
