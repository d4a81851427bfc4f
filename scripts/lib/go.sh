# shellcheck shell=sh
# What scripts/go-program needs to build Go programs with HashiCorp's client for Consul: source it.

# shellcheck disable=SC2034  # for whoever sources this
go_packages="golang-go golang-github-hashicorp-go-cleanhttp-dev golang-github-hashicorp-go-hclog-dev
  golang-github-hashicorp-go-rootcerts-dev golang-github-hashicorp-serf-dev golang-github-mitchellh-mapstructure-dev"

# They come together: one stands for all.
has_go_packages() { command -v go >/dev/null && [ -d /usr/share/gocode/src/github.com/hashicorp/serf ]; }
