#!/bin/sh
systemctl is-active --quiet side.service || systemctl restart side.service
