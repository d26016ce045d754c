#!/bin/sh
# Runs after installation and upgrade. It starts nothing and may run again at any time.
set -e

# Older versions of AppArmor would refuse the profile.
if [ -e /etc/apparmor.d/abi/4.0 ]; then
	cp /usr/share/remit/apparmor /etc/apparmor.d/remit
	if command -v aa-enabled >/dev/null && aa-enabled --quiet; then
		apparmor_parser -r -T -W /etc/apparmor.d/remit ||
			echo "remit: the AppArmor profile could not be loaded; remit doctor tells whether commands can be confined" >&2
	fi
fi

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
