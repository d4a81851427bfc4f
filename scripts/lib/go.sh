# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# shellcheck shell=sh
# The packages that scripts/go-program needs to build Go programs with HashiCorp's client for Consul. Source this file.

# shellcheck disable=SC2034  # for the scripts that source this
go_packages="golang-go golang-github-hashicorp-go-cleanhttp-dev golang-github-hashicorp-go-hclog-dev
  golang-github-hashicorp-go-rootcerts-dev golang-github-hashicorp-serf-dev golang-github-mitchellh-mapstructure-dev"

# The packages are installed together, so the test looks for one of them only.
has_go_packages() { command -v go >/dev/null && [ -d /usr/share/gocode/src/github.com/hashicorp/serf ]; }
