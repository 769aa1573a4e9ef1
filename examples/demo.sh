#!/bin/sh
# A guided walk through the command line; `make demo` runs it with the project on PATH.
# It works on a copy of examples/library and leaves the graph it made in build/demo.
set -eu
cd "$(dirname "$0")/library"
keep=$(cd ../.. && pwd)/build/demo
donations=$(cd ../donations && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp schema.pg schema-v2.pg queries.gq data.jsonl "$work"
cd "$work"

if [ -t 1 ]; then bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
else bold='' dim='' plain=''; fi

title() { printf '\n%s== %s%s\n\n' "$bold" "$1" "$plain"; }
say() { printf '%s\n' "$1"; }
prompt() { printf '%s$ %s%s\n' "$dim" "$1" "$plain"; }
show() { prompt "cat $1"; cat "$1"; say ''; }
# Some commands are meant to fail: show the exit code and go on.
run() { prompt "$*"; "$@" 2>&1 || say "(exit code $?)"; }
mutate() {
    prompt "omnigraph mutate $1 --store library.omni --query queries.gq --as $3 --params '$2'"
    omnigraph mutate "$1" --store library.omni --query queries.gq --as "$3" --params "$2" --quiet
}

title 'OmniGraph'
run omnigraph version

title '1. A graph is made from a schema, loaded in one commit, and asked'
prompt 'head -24 schema.pg'
head -24 schema.pg
say '...'
run omnigraph init library.omni --schema schema.pg
run omnigraph load library.omni --data data.jsonl --mode merge --as importer --quiet
say ''
prompt 'grep -A 12 "query on_the_shelf" queries.gq'
grep -A 12 'query on_the_shelf' queries.gq
run omnigraph query on_the_shelf --store library.omni --query queries.gq \
    --params '{"isbn":"9780156027601"}'

title '2. Queries are checked before they touch data; mistakes are shown where they are'
run omnigraph lint --query queries.gq --schema schema.pg
say ''
cat > late.gq <<'END'
query late($today: String) {
    match { $m $loan:borrow $copy  $copy copyOf $b  $b.published < $today }
    return { $b.titles, sum($b.language) as n }
}
END
run omnigraph lint --query late.gq --schema schema.pg

title '3. A load with any mistake in it changes nothing'
cat > bad.jsonl <<'END'
{"type":"Book","data":{"isbn":"9780000000001","title":"A","pages":"many"}}
{"type":"Bok","data":{"isbn":"9780000000002","title":"B"}}
{"type":"Book","data":{"isbn":"9780000000003","titles":"C"}}
{"type":"Book","data":{"isbn":"9780000000004"}}
END
run omnigraph load library.omni --data bad.jsonl --mode append --quiet
cat > rules.jsonl <<'END'
{"type":"Book","data":{"isbn":"123","title":"No such number","pages":0}}
{"edge":"Wrote","from":"nobody","to":"9780156027601"}
{"edge":"StandsIn","from":"c-0001","to":"harbor"}
END
run omnigraph load library.omni --data rules.jsonl --mode merge --quiet

title '4. Mutations are queries too: one query, one atomic commit'
mutate register '{"card":"m-3","name":"Linus","mail":null,"today":"2026-03-01"}' desk
mutate lend '{"card":"m-3","barcode":"c-0001","due":"2026-04-01"}' desk
mutate take_back '{"barcode":"c-0002","condition":"worn"}' desk
mutate retire '{"barcodes":["c-0002"]}' curator
say ''
say 'Nothing half-done: the retired copy took its loans and its place with it.'
run omnigraph snapshot library.omni

title '5. Every commit is kept, and any of them can be looked at'
run omnigraph commit list library.omni
say ''
run omnigraph commit list library.omni --filter actor=curator
say ''
say 'The copies before one of them was retired:'
run omnigraph export library.omni --type Copy --version 5

title '6. Branches isolate work; a merge is reviewed first and is one commit'
run omnigraph branch create stocktaking library.omni
prompt 'omnigraph mutate ... --branch stocktaking   (two commits by an agent)'
omnigraph mutate register --store library.omni --query queries.gq --branch stocktaking --quiet \
    --as agent --params '{"card":"m-4","name":"Grace","mail":null,"today":"2026-03-02"}' >/dev/null
omnigraph mutate take_back --store library.omni --query queries.gq --branch stocktaking --quiet \
    --as agent --params '{"barcode":"c-0001","condition":"good"}' >/dev/null
run omnigraph diff main stocktaking library.omni
say ''
run omnigraph branch merge stocktaking library.omni --preview
run omnigraph branch merge stocktaking library.omni --delete-branch --as lena
say ''
run omnigraph commit list library.omni --draw --limit 6
say ''
say 'What the last commit changed:'
head=$(omnigraph commit list library.omni --limit 1 | cut -c1-26)
run omnigraph commit changes "$head" library.omni

title '7. A changed schema is planned, then applied'
run omnigraph schema plan library.omni --schema schema-v2.pg

say ''
say 'One commit changes the schema and the tables; the past keeps its own:'
run omnigraph schema apply library.omni --schema schema-v2.pg --yes
say ''
run omnigraph export library.omni --type Member --version 5

say ''
say 'A change that stored rows contradict is refused, and the rows are named:'
say ''
prompt "sed 's/mail: String?/mail: String/' schema-v2.pg > new.pg"
sed 's/mail: String?/mail: String/' schema-v2.pg > new.pg
run omnigraph schema plan library.omni --schema new.pg --check

title '8. A pipeline reads messy files on a branch, checks them, and merges'
prompt 'head -5 donations/donations.csv; tail -16 donations/pipeline.toml'
head -5 "$donations/donations.csv"
tail -16 "$donations/pipeline.toml"
run omnigraph pipeline run "$donations/pipeline.toml" --store library.omni --as desk
say ''
say 'Started again, it finds that everything is done:'
run omnigraph pipeline run "$donations/pipeline.toml" --store library.omni --as desk

title '9. The same in a browser: history, differences, and merges reviewed by property'
run omnigraph branch create returns library.omni
cat > returns.gq <<'END'
query returned() { update Copy set { condition: "worn" } where barcode = "c-0001" }
END
prompt 'omnigraph mutate ... --branch returns   (a commit by an agent, to be reviewed)'
omnigraph mutate returned --store library.omni --query returns.gq --branch returns --quiet \
    --as agent >/dev/null
rm -rf "$keep"
mkdir -p "$keep"
cp -R library.omni "$keep"
say "The graph is kept in build/demo; \`make demo\` ends with how to open it."

title 'Next'
say 'docs/quickstart.md        the same steps with files of your own'
say 'docs/schema-language.md   everything a schema can say'
say 'docs/query-language.md    everything a query can say'
say 'docs/pipelines.md         pipelines that one file declares'
say 'docs/studio.md            the same in a browser'
say 'docs/python-api.md        the same from Python: import omnigraph as og'
