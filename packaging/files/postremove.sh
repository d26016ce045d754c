#!/bin/sh
# Runs after removal, upgrade and purge. Records, keys and settings stay: they belong to
# the people whose homes they are in.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
