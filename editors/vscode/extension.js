// Starts the language server and connects the editor with it.
"use strict";

const path = require("node:path");
const { window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const LANGUAGES = ["omnigraph-schema", "omnigraph-query"];

let client;

/** The program and its arguments; a relative path is looked up in the workspace. */
function command(settings, folder) {
  const [program, ...args] = settings.get("command");
  const isPath = program.includes("/") || program.includes("\\");
  const found = isPath && folder ? path.resolve(folder, program) : program;
  return { command: found, args };
}

async function activate() {
  const settings = workspace.getConfiguration("omnigraph");
  if (!workspace.isTrusted) {
    return;
  }
  const folder = workspace.workspaceFolders?.[0]?.uri.fsPath;
  client = new LanguageClient("omnigraph", "OmniGraph", command(settings, folder), {
    documentSelector: LANGUAGES.map((language) => ({ language })),
    initializationOptions: { schema: settings.get("schema") },
    synchronize: { configurationSection: "omnigraph" },
  });
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    window.showErrorMessage(
      `OmniGraph: the language server did not start (${error.message}). ` +
        "Install it with pip install 'omnigraph[lsp]', or set omnigraph.command.",
    );
  }
}

function deactivate() {
  return client?.stop();
}

module.exports = { activate, deactivate, command };
