#!/usr/bin/env bash
# docs/tutorials/first_table.md: a messy CSV file becomes a released model.
source "$(dirname "$0")/clone.sh"
install '.[crypten,explain]'
mkdir "$folder/table"
cd "$folder/table"
export PYTHONPATH=$folder/pea
python -m tests.helpers.pages "$folder/pea/docs/tutorials/first_table.md" | tee "$folder/printed"
promise "accuracy  " 0.7 0.82
promise "left      " 1.58 1.59
[[ $(wc -l < predictions.csv) -eq 3001 && -s model/model.npz && -s model.onnx ]]
