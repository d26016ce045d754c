#!/bin/sh
# Runs before removal and upgrade. dpkg passes "remove" or "upgrade", rpm how many
# versions will be left.
set -e

case "${1:-}" in
remove | 0) ;;
*) exit 0 ;;
esac

if [ -d /run/systemd/system ]; then
	systemctl --no-reload disable --now remit.service || true
fi

if [ -e /etc/apparmor.d/remit ]; then
	if command -v aa-enabled >/dev/null && aa-enabled --quiet; then
		apparmor_parser -R /etc/apparmor.d/remit || true
	fi
	rm -f /etc/apparmor.d/remit
fi
