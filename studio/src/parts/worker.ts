/** Starts the one worker of the page: the policy of the page lets in no other address. */

import address from "./layout.worker.ts?worker&url";

interface Policy {
  createScriptURL(url: string): string;
}

declare global {
  interface Window {
    trustedTypes?: {
      createPolicy(name: string, rules: { createScriptURL(url: string): string }): Policy;
    };
  }
}

let policy: Policy | null = null;

export function startLayout(): Worker {
  const only = (url: string): string => {
    if (url !== address) throw new TypeError("not a worker of this page");
    return url;
  };
  policy ??= window.trustedTypes?.createPolicy("omnigraph", { createScriptURL: only }) ?? {
    createScriptURL: only,
  };
  return new Worker(policy.createScriptURL(address), { type: "module" });
}
