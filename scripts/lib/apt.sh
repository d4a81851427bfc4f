# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# shellcheck shell=sh
# For scripts that install packages: source it.

as_root=
if [ "$(id -u)" -ne 0 ]; then as_root="sudo -n"; fi

# True if this user may install packages without a password prompt.
may_install() { command -v apt-get >/dev/null && { [ -z "$as_root" ] || $as_root true 2>/dev/null; }; }
update_packages() { $as_root apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 update; }
install_packages() {
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 \
    install --no-install-recommends "$@"
}
