#!/usr/bin/env bash
# docs/tutorials/federated.md: swap the aggregator, and see who learns what.
source "$(dirname "$0")/clone.sh"
install '.[fl,notebooks]'
run_notebook federated
promise "masked   the server by itself       learns a sum of " 10 10
promise "masked   the server with one client learns a sum of " 9 9
promise "chain    the server with one client learns a sum of " 1 1
promise "noise 2.00: epsilon " 3.99 4
grep --quiet "plain  *record rebuilt: True" "$folder/printed"
grep --quiet "masked  *record rebuilt: False" "$folder/printed"
[[ -s federated-attack.png && -s federated-epsilon.png ]]
