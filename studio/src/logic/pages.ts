/** Pages of an answer: the `limit` and `offset` at the end of a query. */

export interface Page {
  limit: number;
  offset: number;
}

const END = /\blimit\s+(\d+)(?:\s+offset\s+(\d+))?(\s*\}\s*)$/;

/** The page that a text asks for; null if its last query has no limit. */
export function pageOf(text: string): Page | null {
  const [, limit, offset] = END.exec(text) ?? [];
  return limit === undefined ? null : { limit: Number(limit), offset: Number(offset ?? 0) };
}

/** The same text for a page before or after the one it asks for. */
export function turned(text: string, pages: number): string {
  const page = pageOf(text);
  if (page === null) return text;
  const offset = Math.max(0, page.offset + pages * page.limit);
  return text.replace(END, (_all, limit: string, _offset: unknown, end: string) =>
    offset === 0 ? `limit ${limit}${end}` : `limit ${limit} offset ${offset}${end}`,
  );
}
