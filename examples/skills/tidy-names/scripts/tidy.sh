#!/usr/bin/env bash
# Rename files to lower case, with hyphens instead of spaces.
set -euo pipefail

apply=no
if [ "${1:-}" = --apply ]; then
    apply=yes
    shift
fi
if [ $# -ne 1 ] || [ ! -d "$1" ]; then
    echo "usage: tidy.sh [--apply] DIRECTORY" >&2
    exit 2
fi

for path in "$1"/*; do
    [ -f "$path" ] || continue
    name=$(basename -- "$path")
    tidy=$(printf %s "$name" | tr '[:upper:] ' '[:lower:]-' | tr -s -)
    [ "$name" = "$tidy" ] && continue
    if [ -e "$1/$tidy" ]; then
        echo "$name: $tidy is taken" >&2
        continue
    fi
    echo "$name -> $tidy"
    if [ "$apply" = yes ]; then
        mv -n -- "$path" "$1/$tidy"
    fi
done
