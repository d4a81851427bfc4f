# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# shellcheck shell=sh
# apt with lists and caches of its own. It needs no root, takes no lock, and does not change the system's lists. Source
# this file.

# shellcheck disable=SC2034  # for the scripts that source this
keyring=/usr/share/keyrings/debian-archive-keyring.gpg # where it is not, apt refuses what is signed by it

# configure_apt FOLDER: writes FOLDER/apt.conf, with the system's own package sources, and FOLDER/debian.conf, with the
# sources that the caller writes into FOLDER/debian.list.
configure_apt() {
  mkdir -p "$1/lists/partial" "$1/cache/archives/partial" "$1/no-parts"
  chmod -R a+rX "$1"
  cat >"$1/apt.conf" <<CONF
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Sandbox::User "$(id -un)";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "3";
Debug::NoLocking "true";
Dir::State::Lists "$1/lists";
Dir::State::status "/dev/null";
Dir::Cache "$1/cache";
CONF
  cp "$1/apt.conf" "$1/debian.conf"
  cat >>"$1/debian.conf" <<CONF
Dir::Etc::SourceList "$1/debian.list";
Dir::Etc::SourceParts "$1/no-parts";
CONF
}

# servers FOLDER: prints the package servers of this system's configuration, which may have any form that apt knows.
servers() {
  apt-get -q -c "$1/apt.conf" update --print-uris 2>/dev/null |
    sed -n "s|^'\(.*\)/dists/[^/' ]*/InRelease' .*|\1|p" | awk '!seen[$0]++'
}
