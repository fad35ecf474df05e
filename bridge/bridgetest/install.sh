#!/bin/sh
# Installs Debian packages unless they are there: install.sh package...
# The services that they bring are not started. Runs as root; a second run beside it waits.
set -eu

exec 9>/run/tidings-install.lock
flock 9

missing=
for package in "$@"; do
	dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed$' ||
		missing="$missing $package"
done
[ -n "$missing" ] || exit 0

# Debian starts a service when it is installed, unless this file says no.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	trap 'exit 1' HUP INT TERM
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
apt="apt-get -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0"
$apt update </dev/null
# shellcheck disable=SC2086 # one word per package
$apt install -y --no-install-recommends $missing </dev/null
