#!/bin/sh
# Makes the virtual environment that the Makefile works in, or says in one line what is missing.
#
#   scripts/venv.sh FOLDER [PYTHON]
#
# PYTHON is the interpreter to use. Without it the first of python3, python3.14 … python3.11, python that is new
# enough is taken. An environment that works is left alone. Exit code 2: something must be installed first.
set -eu

folder=$1
wanted=${2:-}
new_enough='import sys; sys.exit(sys.version_info < (3, 11))'

say() { printf 'perdure: %s\n' "$1" >&2; }

if [ -n "$wanted" ]; then
    if ! command -v "$wanted" >/dev/null 2>&1; then
        say "PYTHON=$wanted is not a command on this machine"
        exit 2
    fi
    if ! "$wanted" -c "$new_enough"; then
        say "PYTHON=$wanted is $("$wanted" --version 2>&1); perdure needs Python 3.11 or newer"
        exit 2
    fi
    python=$wanted
else
    python=
    for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if command -v "$candidate" >/dev/null 2>&1 && "$candidate" -c "$new_enough" 2>/dev/null; then
            python=$candidate
            break
        fi
    done
    if [ -z "$python" ]; then
        found=$(python3 --version 2>&1) || found="no python3"
        say "needs Python 3.11 or newer and found $found; install one, or name it: make PYTHON=/path/to/python3.11"
        exit 2
    fi
fi

if [ -x "$folder/bin/python" ] && "$folder/bin/python" -c "import pip; $new_enough" 2>/dev/null; then
    exit 0
fi

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    say "$python cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv (or python$version-venv)"
    exit 2
fi

"$python" -m venv --clear "$folder"
