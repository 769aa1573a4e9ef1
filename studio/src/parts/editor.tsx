/**
 * The text editor. It owns its text: the page hears of changes and never writes them back, except
 * when a whole new text is opened (`version`). It lives in a shadow root because the page's policy
 * allows no style elements in the document.
 */

import { autocompletion, completionKeymap, type CompletionContext } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import {
  HighlightStyle,
  StreamLanguage,
  bracketMatching,
  syntaxHighlighting,
} from "@codemirror/language";
import { lintGutter, setDiagnostics, type Diagnostic as Mark } from "@codemirror/lint";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";
import { toUnits } from "../logic/spans";
import { FUNCTIONS, KEYWORDS, wordsAt } from "../logic/words";
import type { Diagnostic, TypeInfo } from "../types";

const SCHEMA_WORDS = ["node", "edge", "interface", "enum", "implements"];

const language = StreamLanguage.define<{ comment: boolean }>({
  startState: () => ({ comment: false }),
  token(stream, state) {
    if (state.comment) {
      if (stream.skipTo("*/")) {
        stream.match("*/");
        state.comment = false;
      } else stream.skipToEnd();
      return "comment";
    }
    if (stream.eatSpace()) return null;
    if (stream.match("//")) {
      stream.skipToEnd();
      return "comment";
    }
    if (stream.match("/*")) {
      state.comment = true;
      return "comment";
    }
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return "string";
    if (stream.match(/^\$\w+/)) return "variableName";
    if (stream.match(/^@\w+/)) return "meta";
    if (stream.match(/^\d+(\.\d+)?/)) return "number";
    const word = stream.match(/^\w+/);
    if (Array.isArray(word)) {
      const text = word[0] ?? "";
      if (KEYWORDS.includes(text) || SCHEMA_WORDS.includes(text)) return "keyword";
      if (FUNCTIONS.includes(text)) return "function";
      return /^[A-Z]/.test(text) ? "typeName" : "propertyName";
    }
    stream.next();
    return null;
  },
  languageData: { commentTokens: { line: "//" } },
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-keyword)", fontWeight: "600" },
  { tag: tags.string, color: "var(--code-string)" },
  { tag: tags.number, color: "var(--code-number)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
  { tag: tags.variableName, color: "var(--code-variable)" },
  { tag: tags.typeName, color: "var(--code-type)" },
  { tag: tags.meta, color: "var(--code-number)" },
]);

const look = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--field)", fontSize: "14px", height: "100%" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-scroller": { fontFamily: "ui-monospace, monospace", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-activeLine": { backgroundColor: "var(--line-here)" },
  ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--muted)", border: "none" },
  ".cm-activeLineGutter": { backgroundColor: "var(--line-here)" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": {
    backgroundColor: "var(--selected) !important",
  },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--text)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": {
    backgroundColor: "var(--accent)",
    color: "var(--on-accent)",
  },
});

export interface EditorProps {
  /** The text to begin with. */
  text: string;
  /** Another number opens `text` anew. */
  version: number;
  label: string;
  onChange: (text: string) => void;
  onRun?: () => void;
  /** Returns findings about a text; a newer text cancels it. */
  lint: (text: string, signal: AbortSignal) => Promise<Diagnostic[]>;
  types: TypeInfo[];
}

const LINT_AFTER_MS = 350;

export function Editor(props: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  // The newest callbacks, without making the editor anew.
  const current = useRef(props);
  current.current = props;

  useEffect(() => {
    const element = host.current;
    if (element === null) return undefined;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    let timer = 0;
    let asked: AbortController | null = null;
    const check = (editor: EditorView): void => {
      asked?.abort();
      const mine = new AbortController();
      asked = mine;
      const text = editor.state.doc.toString();
      current.current
        .lint(text, mine.signal)
        .then((found) => {
          if (mine.signal.aborted || editor.state.doc.toString() !== text) return;
          editor.dispatch(setDiagnostics(editor.state, marks(text, found)));
        })
        .catch(() => undefined);
    };
    const later = (editor: EditorView): void => {
      window.clearTimeout(timer);
      timer = window.setTimeout(() => check(editor), LINT_AFTER_MS);
    };
    const extensions: Extension[] = [
      lineNumbers(),
      history(),
      language,
      bracketMatching(),
      highlightActiveLine(),
      syntaxHighlighting(colours),
      lintGutter(),
      look,
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": props.label }),
      autocompletion({
        override: [(context) => complete(context, current.current.types)],
        icons: false,
      }),
      keymap.of([
        {
          key: "Mod-Enter",
          run: () => {
            current.current.onRun?.();
            return true;
          },
        },
        ...completionKeymap,
        ...historyKeymap,
        ...defaultKeymap,
        indentWithTab,
      ]),
      EditorView.domEventHandlers({ beforeinput: replaceSelected }),
      EditorView.updateListener.of((update) => {
        if (!update.docChanged) return;
        current.current.onChange(update.state.doc.toString());
        later(update.view);
      }),
    ];
    const editor = new EditorView({
      root,
      parent: root as unknown as Element,
      state: EditorState.create({ doc: current.current.text, extensions }),
    });
    view.current = editor;
    check(editor);
    return () => {
      window.clearTimeout(timer);
      asked?.abort();
      editor.destroy();
      view.current = null;
    };
  }, []);

  useEffect(() => {
    const editor = view.current;
    if (editor === null || editor.state.doc.toString() === props.text) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: props.text } });
  }, [props.version]);

  return <div class="editor" ref={host} data-testid="editor" />;
}

/**
 * Types over selected text. Left to itself, the browser would keep the look of that text in a style
 * attribute, which the page's policy refuses.
 */
function replaceSelected(event: InputEvent, editor: EditorView): boolean {
  const { state } = editor;
  if (event.inputType !== "insertText" || event.data === null || editor.composing) return false;
  if (state.selection.main.empty) return false;
  event.preventDefault();
  editor.dispatch(state.update(state.replaceSelection(event.data), { userEvent: "input.type" }));
  return true;
}

function marks(text: string, found: Diagnostic[]): Mark[] {
  return found.map((item) => {
    const from = Math.min(toUnits(text, item.span[0]), text.length);
    const to = Math.min(Math.max(toUnits(text, item.span[1]), from), text.length);
    const hint = item.hint === undefined ? "" : `\n${item.hint}`;
    return { from, to, severity: item.severity, message: `${item.code}: ${item.message}${hint}` };
  });
}

function complete(context: CompletionContext, types: TypeInfo[]) {
  const word = context.matchBefore(/\$?\w*$/);
  const before = context.state.sliceDoc(Math.max(0, context.pos - 1), context.pos);
  if (!context.explicit && word?.from === word?.to && !/[.$:]/.test(before)) return null;
  const found = wordsAt(context.state.doc.toString(), context.pos, types);
  if (found.length === 0) return null;
  return {
    from: word?.from ?? context.pos,
    options: found.map((item) => ({
      label: item.label,
      type: item.type,
      ...(item.detail === undefined ? {} : { detail: item.detail }),
    })),
    validFor: /^\$?\w*$/,
  };
}
