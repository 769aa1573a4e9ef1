"""Reports of runs for people: as text, and as a page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from omnigraph.values.pipelines import PipelineReport, PipelineStep, StepOutcome
from omnigraph.wording import counted

_WORDS = {
    StepOutcome.DONE: "done",
    StepOutcome.DONE_BEFORE: "done before",
    StepOutcome.NOTHING: "nothing to do",
    StepOutcome.FAILED: "FAILED",
}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
       color: #1c2430; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #d8dee6; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.failed { color: #b3261e; font-weight: 600; } .part td { color: #5a6675; }
code { font-size: .9em; }
@media (prefers-color-scheme: dark) {
  body { color: #dfe5ec; background: #14181d; } th, td { border-color: #323b46; }
  .failed { color: #ff897d; } .part td { color: #96a2b0; } }
"""


def text(report: PipelineReport) -> str:
    """Return a report as lines of text."""
    return "\n".join(_lines(report))


def _lines(report: PipelineReport) -> Iterator[str]:
    verdict = "ok" if report.ok else "FAILED"
    yield f"{report.pipeline} run {report.run_id}: {verdict} in {report.seconds:.1f} s"
    rejected = counted(report.rejected, "row")
    yield f"  {counted(report.rows_in, 'row')} in, {rejected} rejected"
    for step in report.steps:
        detail = step.error or step.detail or ""
        words = _WORDS[step.outcome]
        speed = "" if step.rows_per_s is None else f" ({step.rows_per_s:,.0f} rows/s)"
        yield f"  {step.name:<13} {words:<13} {step.seconds:>7.2f} s  {detail}{speed}".rstrip()
        for part in step.parts:
            yield f"    {part['name']:<11} {'':<13} {part['seconds']:>7.2f} s"
    for name, counts in report.rows.items():
        rows = f"{counts['before']:>10} -> {counts['after']:<10}"
        yield f"  {name:<20} {rows} {_changed(report, name)}".rstrip()
    if report.commit is not None:
        yield f"commit {report.commit}"
    if report.merge_commit is not None:
        yield f"merged into {report.merged_into}: {report.merge_commit}"
    if report.tag is not None:
        yield f"tag {report.tag}"


def _changed(report: PipelineReport, name: str) -> str:
    counts = (report.changed or {}).get(name)
    if counts is None:
        return ""
    return ", ".join(f"{count} {op}" for op, count in counts.items() if count)


def page(report: PipelineReport) -> str:
    """Return a report as an HTML page."""
    title = f"{report.pipeline}: run {report.run_id}"
    verdict = (
        "ok" if report.ok else f'<span class="failed">failed: {escape(report.error or "")}</span>'
    )
    facts = [
        ("graph", report.uri),
        ("branch", report.branch),
        ("rows in", f"{report.rows_in:,}"),
        ("rejected", f"{report.rejected:,}"),
        ("seconds", f"{report.seconds:.2f}"),
        ("commit", report.commit or "none"),
        ("merged into", f"{report.merged_into or 'nothing'}"),
        ("merge commit", report.merge_commit or "none"),
        ("tag", report.tag or "none"),
    ]
    known = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts)
    steps = "".join(_step_rows(step) for step in report.steps)
    types = "".join(
        f'<tr><td>{escape(name)}</td><td class="n">{counts["before"]:,}</td>'
        f'<td class="n">{counts["after"]:,}</td><td>{escape(_changed(report, name))}</td></tr>'
        for name, counts in report.rows.items()
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f"<h1>{escape(title)}</h1><p>{verdict}</p><table>{known}</table>"
        '<h2>Steps</h2><table><tr><th>step</th><th>outcome</th><th class="n">seconds</th>'
        f'<th class="n">rows</th><th class="n">rows/s</th><th></th></tr>{steps}</table>'
        '<h2>Types</h2><table><tr><th>type</th><th class="n">before</th><th class="n">after</th>'
        f"<th>changes</th></tr>{types}</table></body></html>\n"
    )


def _step_rows(step: PipelineStep) -> str:
    failed = ' class="failed"' if step.outcome is StepOutcome.FAILED else ""
    rows = "" if step.rows is None else f"{step.rows:,}"
    speed = "" if step.rows_per_s is None else f"{step.rows_per_s:,.0f}"
    own = (
        f"<tr><td>{escape(step.name)}</td><td{failed}>{_WORDS[step.outcome]}</td>"
        f'<td class="n">{step.seconds:.2f}</td><td class="n">{rows}</td><td class="n">{speed}</td>'
        f"<td>{escape(step.error or step.detail or '')}</td></tr>"
    )
    parts = (
        f'<tr class="part"><td>- {escape(str(part["name"]))}</td><td></td>'
        f'<td class="n">{part["seconds"]:.2f}</td><td class="n">{part["rows"]:,}</td><td></td>'
        "<td></td></tr>"
        for part in step.parts
    )
    return own + "".join(parts)
