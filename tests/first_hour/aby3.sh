#!/usr/bin/env bash
# docs/tutorials/aby3.md: a session of three servers.
source "$(dirname "$0")/clone.sh"
install '.[tfe,notebooks]'
run_notebook aby3
promise "opened model: " 0.85 1
promise "epsilon of the training records: " 2.99 3
[[ -s aby3-steps.png ]]
