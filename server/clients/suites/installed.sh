# Sourced by the suites: what they install, and the server that they talk to.

# cached NAME runs the function install in a new directory, unless that has been done, and sets
# $installed to that directory. NAME has the versions in it.
cached() {
	installed=$CACHE/$1
	exec {lock}>"$CACHE/$1.lock"
	flock "$lock"
	if [ ! -e "$installed/complete" ]; then
		rm -rf "$installed"
		mkdir "$installed"
		(set -e; cd "$installed"; install)
		touch "$installed/complete"
	fi
	exec {lock}>&-
}

# python_venv SDIST PACKAGES... makes an environment that has packages, and the source
# distribution SDIST unpacked in src. Everything is pinned by the caller.
python_venv() {
	sdist=$1 packages=("$@")
	install() {
		/usr/bin/python3 -m venv "$PWD/venv"
		venv/bin/pip -q install "${packages[@]}"
		venv/bin/pip -q download --no-deps --no-binary :all: -d sdist "$sdist"
		mkdir src
		tar xzf sdist/*.tar.gz -C src --strip-components 1
	}
	cached "$sdist-$(echo "$@" | sha256sum | cut -c1-16)"
}

# start_serve has usftp serve the directory "served" to the key in "key", until the script ends, and
# sets $port.
start_serve() {
	mkdir -p served
	ssh-keygen -q -t "${1:-ed25519}" ${2:+-m "$2"} -N '' -f key
	exec {greeting}< <(exec env HOME="$PWD/home" XDG_CONFIG_HOME= "$USFTP" serve --listen 127.0.0.1:0 \
		--log-level error --user u --authorized-keys key.pub served)
	serve=$!
	trap 'kill "$serve" 2>/dev/null || true' EXIT
	local line
	while read -r -u "$greeting" line; do
		if [[ $line =~ 127\.0\.0\.1:([0-9]+) ]]; then
			port=${BASH_REMATCH[1]}
			return
		fi
	done
	echo "usftp serve did not start"
	return 1
}
