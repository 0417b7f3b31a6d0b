export SIDE_SETTINGS=/etc/side/settings.json
