/** Rules of the sources that a type checker does not know. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "..", "src");
const files = readdirSync(ROOT, { recursive: true, encoding: "utf-8" })
  .filter((name) => /\.tsx?$/.test(name))
  .map((name) => ({ name, text: readFileSync(join(ROOT, name), "utf-8") }));

const FORBIDDEN: [RegExp, string][] = [
  [/innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write/, "text is never markup"],
  [/localStorage|sessionStorage|document\.cookie|indexedDB/, "tokens and texts stay in memory"],
  [/\beval\(|new Function\(/, "no code from text"],
  [/https?:\/\/(?!www\.w3\.org)/, "no other server"],
  [/\bany\b\s*[;,)>\]=]|: any\b|as any\b/, "types are known"],
  [/console\./, "nothing is left in the console"],
];

test.each(FORBIDDEN)("%s: %s", (pattern) => {
  const found = files.filter(({ text }) => pattern.test(text)).map(({ name }) => name);
  expect(found).toEqual([]);
});

test("files are short", () => {
  const long = files.filter(({ text }) => text.split("\n").length > 600).map(({ name }) => name);
  expect(long).toEqual([]);
});
