#!/bin/sh
# A guided walk through the command line; `make demo` runs it with the project on PATH.
# It works on a copy of examples/library and removes it afterwards.
set -eu
cd "$(dirname "$0")/library"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp schema.pg schema-v2.pg queries.gq "$work"
cd "$work"

if [ -t 1 ]; then bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
else bold='' dim='' plain=''; fi

title() { printf '\n%s== %s%s\n\n' "$bold" "$1" "$plain"; }
say() { printf '%s\n' "$1"; }
prompt() { printf '%s$ %s%s\n' "$dim" "$1" "$plain"; }
show() { prompt "cat $1"; cat "$1"; say ''; }
# Some commands are meant to fail: show the exit code and go on.
run() { prompt "$*"; "$@" || say "(exit code $?)"; }

title 'OmniGraph'
run omnigraph version

title '1. A schema is a file of typed declarations'
show schema.pg

title '2. Every query is checked against it'
run omnigraph lint --query queries.gq --schema schema.pg

title '3. A query that compiles has a plan'
sed -n '/^query on_the_shelf/,/^}/p' queries.gq > shelf.gq
show shelf.gq
run omnigraph lint --query shelf.gq --schema schema.pg --explain

title '4. Mistakes are shown where they are, all at once'
cat > late.gq <<'END'
query late($today: String) {
    match {
        $m $loan:borrow $copy
        $copy copyOf $b
        $b.published < $today
    }
    return { $b.titles, sum($b.language) as n }
}
END
show late.gq
run omnigraph lint --query late.gq --schema schema.pg

title '5. One layout for every schema'
cat > shelf.pg <<'END'
node Shelf @description("a row of books"){ code:String@key, floor:I32?
    @range(floor,-2 .. 9) }   // basement included
edge StandsOn:Copy->Shelf @description("today") @card(0..1) {}
END
run omnigraph schema fmt --diff shelf.pg

title '6. A changed schema is planned, step by step'
run omnigraph schema plan schema.pg --schema schema-v2.pg
say ''
say 'A change that stored rows might contradict is refused, with a reason:'
say ''
prompt "sed 's/pages: I32?/pages: I64/' schema.pg > new.pg"
sed 's/pages: I32?/pages: I64/' schema.pg > new.pg
run omnigraph schema plan schema.pg --schema new.pg --check

title 'Next'
say 'docs/quickstart.md        the same steps with files of your own'
say 'docs/schema-language.md   everything a schema can say'
say 'docs/query-language.md    everything a query can say'
