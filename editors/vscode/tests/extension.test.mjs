// What the extension starts, with a stand-in for the editor's own module, which exists only inside it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { test } from "node:test";

const require = createRequire(import.meta.url);
const Module = require("node:module");
const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const defaults = manifest.contributes.configuration.properties;

function load(settings, { trusted = true, fails = false } = {}) {
  const seen = { started: [], errors: [] };
  class LanguageClient {
    constructor(id, name, server, options) {
      Object.assign(this, { id, name, server, options });
    }
    async start() {
      if (fails) throw new Error("spawn omnigraph ENOENT");
      seen.started.push(this);
    }
    async stop() {
      seen.stopped = true;
    }
  }
  const stand = {
    vscode: {
      window: { showErrorMessage: (text) => seen.errors.push(text) },
      workspace: {
        isTrusted: trusted,
        workspaceFolders: [{ uri: { fsPath: "/project" } }],
        getConfiguration: () => ({
          get: (name) => settings[name] ?? defaults[`omnigraph.${name}`].default,
        }),
      },
    },
    "vscode-languageclient/node": { LanguageClient },
  };
  const original = Module._load;
  Module._load = (request, ...rest) => stand[request] ?? original(request, ...rest);
  try {
    const place = require.resolve("../extension.js");
    delete require.cache[place];
    return { extension: require(place), seen };
  } finally {
    Module._load = original;
  }
}

test("the client it needs is among its packages", () => {
  assert.ok(require.resolve("vscode-languageclient/node"));
});

test("it starts `omnigraph lsp` for both languages, and stops it", async () => {
  const { extension, seen } = load({});
  await extension.activate();
  const [client] = seen.started;
  assert.deepEqual(client.server, { command: "omnigraph", args: ["lsp"] });
  const languages = client.options.documentSelector.map((item) => item.language);
  assert.deepEqual(languages, manifest.contributes.languages.map((item) => item.id));
  assert.deepEqual(client.options.initializationOptions, { schema: "" });
  await extension.deactivate();
  assert.ok(seen.stopped);
});

test("a relative program is looked up in the workspace", async () => {
  const { extension, seen } = load({ command: [".venv/bin/omnigraph", "lsp"], schema: "s.pg" });
  await extension.activate();
  assert.equal(seen.started[0].server.command, resolve("/project", ".venv/bin/omnigraph"));
  assert.deepEqual(seen.started[0].options.initializationOptions, { schema: "s.pg" });
});

test("a server that does not start is told with what to install", async () => {
  const { extension, seen } = load({}, { fails: true });
  await extension.activate();
  assert.match(seen.errors[0], /pip install 'omnigraph\[lsp\]'/);
  assert.equal(extension.deactivate(), undefined);
});

test("nothing is started in a workspace that is not trusted", async () => {
  const { extension, seen } = load({}, { trusted: false });
  await extension.activate();
  assert.deepEqual(seen.started, []);
});
