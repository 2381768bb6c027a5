#!/bin/sh
# Make .venv hold the named requirement files and this checkout, installed editable.
#
#   PYTHON=python3 UV=/path/to/uv scripts/environment.sh FILE...
#
# Every package is pinned and checked against its hash. With UV empty, venv and pip do the same work.
# The package itself is built by the hatchling just installed, so nothing unpinned is downloaded.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
UV=${UV:-}

is_new_enough='import sys; sys.exit(sys.version_info < (3, 11))'

fail() {
    printf 'placet: %s\n' "$*" >&2
    exit 1
}

check_python() {
    command -v "$PYTHON" >/dev/null 2>&1 ||
        fail "no $PYTHON on PATH. Install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.11"
    "$PYTHON" -c "$is_new_enough" ||
        fail "Python 3.11 or newer is needed, $PYTHON is $("$PYTHON" --version 2>&1). Name another: make PYTHON=/path/to/python3.11"
}

make_venv() {
    check_python
    # The interpreter itself, not a shim that answers differently elsewhere.
    interpreter=$("$PYTHON" -c 'import sys; print(sys.executable)')
    if [ -n "$UV" ]; then
        "$UV" venv --quiet --clear --python "$interpreter" .venv
    elif ! "$interpreter" -m venv --clear .venv; then
        rm -rf .venv
        fail "$PYTHON cannot make a virtual environment. Install its venv module (on Debian: apt-get install python3-venv), or uv"
    fi
}

install() {
    if [ -n "$UV" ]; then
        VIRTUAL_ENV=$PWD/.venv "$UV" pip install --quiet --compile-bytecode "$@"
    else
        .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
        .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"
    fi
}

if [ -n "$UV" ] && ! "$UV" --version >/dev/null 2>&1; then
    UV=
fi
if ! .venv/bin/python -c "$is_new_enough" 2>/dev/null; then
    make_venv
fi

echo "placet: installing $* into .venv" >&2
requirements=
for file in "$@"; do
    requirements="$requirements -r $file"
done
# shellcheck disable=SC2086  # a list of words on purpose
install --require-hashes $requirements
install --no-deps --no-build-isolation -e .
