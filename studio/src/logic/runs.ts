/** Runs of declared pipelines, as far as commits tell of them. */

import type { Commit } from "../types";

export interface Run {
  pipeline: string;
  run: string;
  /** Each step that made a commit, oldest first. */
  steps: { step: string; commit: Commit }[];
}

const OPERATION = /^pipeline:([^:]+):(.+):([a-z_]+)$/;

/** Groups commits, newest first, by the run whose operation id they carry; newest run first. */
export function runsOf(commits: Commit[]): Run[] {
  const found = new Map<string, Run>();
  for (const commit of commits) {
    const [, pipeline, run, step] = OPERATION.exec(commit.operation_id ?? "") ?? [];
    if (pipeline === undefined || run === undefined || step === undefined) continue;
    const key = `${pipeline}:${run}`;
    const known = found.get(key) ?? { pipeline, run, steps: [] };
    known.steps.unshift({ step, commit });
    found.set(key, known);
  }
  return [...found.values()];
}

export interface RunReport {
  pipeline: string;
  run_id: string;
  branch: string;
  ok: boolean;
  rows_in: number;
  rejected: number;
  seconds: number;
  error?: string;
  steps: { name: string; outcome: string; seconds: number; rows?: number; detail?: string; error?: string }[];
  rows: Record<string, { before: number; after: number }>;
}

/** A report as `omnigraph pipeline run --json` prints it; throws what is wrong with it. */
export function readReport(text: string): RunReport {
  let found: Partial<RunReport> | null;
  try {
    found = JSON.parse(text) as Partial<RunReport> | null;
  } catch {
    throw new Error("The file is not JSON: save the output of `omnigraph pipeline run --json`.");
  }
  const steps = found?.steps;
  if (typeof found?.pipeline !== "string" || typeof found.run_id !== "string" || !Array.isArray(steps)) {
    throw new Error("The file is no report of a pipeline.");
  }
  return {
    branch: "",
    ok: false,
    rows_in: 0,
    rejected: 0,
    seconds: 0,
    ...found,
    pipeline: found.pipeline,
    run_id: found.run_id,
    steps,
    rows: found.rows ?? {},
  };
}
