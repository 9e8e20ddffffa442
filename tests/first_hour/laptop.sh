#!/usr/bin/env bash
# docs/tutorials/laptop.md: three hospitals on one laptop.
source "$(dirname "$0")/clone.sh"
install '.[notebooks]'
run_notebook laptop
promise "right on held-out patients: " 0.82 1
promise "epsilon spent: " 1.99 2
[[ -s tumours.npz && -s laptop-epsilon.png && -s laptop-curve.png ]]
