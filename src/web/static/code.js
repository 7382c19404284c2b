// Colours for code: the highlighter's tree of tokens as elements.
import { html } from "./dom.js";
import hljs from "./vendor/highlight.js";

const NAMES = { __proto__: null, js: "javascript", ts: "javascript", tsx: "javascript", jsx: "javascript", typescript: "javascript", c: "cpp", shell: "bash", py: "python", sh: "bash", zsh: "bash", console: "bash", html: "xml", svg: "xml", yml: "yaml", toml: "ini", "c++": "cpp", h: "cpp", rs: "rust", golang: "go", md: "markdown", patch: "diff" };
const known = new Map();

const drawn = (node) => (typeof node === "string" ? node
  : node.scope ? html`<span class=${"c-" + node.scope.split(".")[0]}>${node.children.map(drawn)}</span>` : node.children.map(drawn));

export function colour(text, lang) {
  const name = NAMES[lang.toLowerCase()] || lang.toLowerCase();
  if (!hljs.getLanguage(name)) return text;
  const key = name + "\0" + text;
  if (!known.has(key)) {
    if (known.size > 200) known.clear();
    try { known.set(key, drawn(hljs.highlight(text, { language: name, ignoreIllegals: true })._emitter.root)); } catch { known.set(key, text); }
  }
  return known.get(key);
}
