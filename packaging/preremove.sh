#!/bin/sh
# Runs before the package is removed. dpkg says "remove" and "upgrade", rpm 0 and 1.
set -e

case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now usftp.service || true
	fi
	;;
esac
