#!/bin/sh
# Runs before the package usftpd is removed. dpkg says "remove" and "upgrade", rpm 0 and 1.
set -e

case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now usftpd.service || true
	fi
	;;
esac
