#!/bin/sh
# Runs after the package usftpd is installed or upgraded, by dpkg and by rpm.
set -e

if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers usftpd.conf
elif ! getent passwd usftp >/dev/null; then
	groupadd --system usftp
	useradd --system --gid usftp --home-dir /var/lib/usftp --no-create-home \
		--shell /usr/sbin/nologin usftp
fi

install -d -m 0750 -o usftp -g usftp /srv/usftp /var/lib/usftp

# An administrator starts the service once somebody may log in: systemctl enable --now usftpd
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	# Running sessions go on in the old process. systemd before 252 says --kill-who.
	if systemctl is-active --quiet usftpd.service; then
		systemctl kill --kill-who=main --signal=USR2 usftpd.service ||
			systemctl try-restart usftpd.service || true
	fi
fi
