// Tokenises examples the way VS Code does, with its own libraries.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";

const require = createRequire(import.meta.url);
const textmate = require("vscode-textmate");
const oniguruma = require("vscode-oniguruma");
const wasm = readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm"));
await oniguruma.loadWASM(wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.byteLength));

const folder = new URL("..", import.meta.url);
const registry = new textmate.Registry({
  onigLib: Promise.resolve({
    createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
    createOnigString: (text) => new oniguruma.OnigString(text),
  }),
  loadGrammar: async (scope) => {
    const name = `syntaxes/omnigraph-${scope.split(".").at(-1)}.tmLanguage.json`;
    return textmate.parseRawGrammar(readFileSync(new URL(name, folder), "utf8"), name);
  },
});

async function scopes(language, text) {
  const grammar = await registry.loadGrammar(`source.omnigraph.${language}`);
  let stack = textmate.INITIAL;
  const found = [];
  for (const line of text.split("\n")) {
    const result = grammar.tokenizeLine(line, stack);
    stack = result.ruleStack;
    for (const token of result.tokens) {
      const words = line.slice(token.startIndex, token.endIndex);
      found.push([words, token.scopes.at(-1).replace(/\.omnigraph$/, "")]);
    }
  }
  return found.filter(([words, scope]) => words.trim() && !scope.startsWith("source"));
}

test("a query", async () => {
  assert.deepEqual(
    await scopes("query", 'query q($a: I64) { // c\n$p: Person { order: "x\\n" } $p.match in count(*) }'),
    [
      ["query", "keyword.control"],
      ["q", "entity.name.function"],
      ["$a", "variable.other"],
      ["I64", "support.type"],
      ["// c", "comment.line.double-slash"],
      ["$p", "variable.other"],
      ["Person", "entity.name.type"],
      ["order", "variable.other.property"],
      ['"', "string.quoted.double"],
      ["x", "string.quoted.double"],
      ["\\n", "constant.character.escape"],
      ['"', "string.quoted.double"],
      ["$p", "variable.other"],
      ["match", "variable.other.property"],
      ["in", "keyword.operator.word"],
      ["count", "support.function"],
      ["*", "keyword.operator"],
    ],
  );
});

test("a schema", async () => {
  assert.deepEqual(
    await scopes("schema", "edge E: A -> B @card(0..1) { /* x\ny */ node: String? @indexed }"),
    [
      ["edge", "keyword.declaration"],
      ["E", "entity.name.type"],
      ["A", "entity.name.type"],
      ["->", "keyword.operator"],
      ["B", "entity.name.type"],
      ["@card", "storage.modifier.annotation"],
      ["0", "constant.numeric"],
      ["..", "keyword.operator"],
      ["1", "constant.numeric"],
      ["/*", "comment.block"],
      [" x", "comment.block"],
      ["y ", "comment.block"],
      ["*/", "comment.block"],
      ["node", "variable.other.property"],
      ["String", "support.type"],
      ["?", "keyword.operator"],
      ["@indexed", "storage.modifier.annotation.other"],
    ],
  );
});

test("nothing in the examples is illegal or left without a scope", async () => {
  const examples = new URL("../../examples/library/", folder);
  for (const name of readdirSync(examples).filter((item) => /\.(pg|gq)$/.test(item))) {
    const language = name.endsWith(".pg") ? "schema" : "query";
    const found = await scopes(language, readFileSync(new URL(name, examples), "utf8"));
    assert.ok(found.length > 50);
    assert.deepEqual(found.filter(([, scope]) => scope.startsWith("invalid")), []);
  }
});
