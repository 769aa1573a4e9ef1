#!/bin/sh
# Loads a generated social graph on Spark, on this machine, and asks it something; `make demo` runs
# it after demo.sh. Arguments: people and acquaintances.
set -eu
people=${1:-100000}
acquaintances=${2:-1000000}
cd "$(dirname "$0")/social"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp schema.pg queries.gq generate.py "$work"
cd "$work"

if [ -t 1 ]; then bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
else bold='' dim='' plain=''; fi
title() { printf '\n%s== %s%s\n\n' "$bold" "$1" "$plain"; }
run() { printf '%s$ %s%s\n' "$dim" "$*" "$plain"; "$@"; }

title "A social graph: $people people, $acquaintances acquaintances"
run cat schema.pg
run python generate.py "$people" "$acquaintances"
run omnigraph init social.omni --schema schema.pg

title 'Loaded on Spark as one commit: workers parse, check and write, the driver publishes'
run omnigraph load social.omni --data Person=people.parquet --data Knows=knows.parquet \
    --mode append --engine spark --quiet

title 'And asked'
run omnigraph query cities --store social.omni --query queries.gq
run omnigraph query friends_of_friends --store social.omni --query queries.gq \
    --params '{"name":"p0000042"}'
printf '\ndocs/bulk-load.md says more.\n'
