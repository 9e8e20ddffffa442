# A stranger's start, for the other scripts of this folder: a fresh clone in an empty folder, and the
# environment that a page says to install. PEA_PYTHON names a Python that has it already.
set -euo pipefail
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$folder"' EXIT
export XDG_STATE_HOME=$folder/state
git clone --quiet "$tree" "$folder/pea"
cd "$folder/pea"

# Types a page's line of pip.
install() {
    if [[ -n ${PEA_PYTHON:-} ]]; then
        # The packages are the clone's, also in kernels and in what they start.
        export PATH=${PEA_PYTHON%/*}:$PATH PYTHONPATH=$PWD
    else
        python3 -m venv .venv
        source .venv/bin/activate
        pip install --quiet "$1"
    fi
}

# Makes a page a notebook, runs it, and shows what it printed, which must be what the page shows.
run_notebook() {
    jupytext --quiet --to ipynb --output "$1.ipynb" "docs/tutorials/$1.md"
    jupyter execute --inplace "$1.ipynb" 2>&1
    python -m tests.helpers.notebooks check "$1.ipynb" "docs/tutorials/$1.md" | tee "$folder/printed"
}

# Ends with status 1 unless the number behind some printed words is in a range.
promise() {
    awk -v words="$1" -v low="$2" -v high="$3" '
        at = index($0, words) { value = substr($0, at + length(words)) + 0; found = 1 }
        END { exit !(found && low <= value && value <= high) }
    ' "$folder/printed" || { echo "$1 is not in $2 .. $3" >&2; exit 1; }
}
