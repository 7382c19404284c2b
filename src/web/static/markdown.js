// Markdown as elements. No HTML is ever made: tokens become vnodes, and raw HTML is shown as text.
import { html, h, Component, signal } from "./dom.js";
import { Marked } from "./vendor/marked.js";
import { written } from "./text.js";

const MATH_BLOCK = /^(?:\$\$([^$]+)\$\$|\\\[([\s\S]+?)\\\])(?:\n+|$)/;
const MATH_INLINE = /^(?:\$\$([^$\n]+?)\$\$|\$((?:[^\s$\\]|\\.)(?:[^$\n\\]|\\.)*?(?<!\s))\$(?!\d)|\\\((.+?)\\\))/;
const math = (name, level, pattern, start) => ({
  name, level, start: (source) => { const at = source.search(start); return at < 0 ? undefined : at; },
  tokenizer(source) {
    const found = pattern.exec(source);
    return found ? { type: name, raw: found[0], text: (found[1] ?? found[2] ?? found[3]).trim(), display: level === "block" || found[0].startsWith("$$") } : undefined;
  },
});
const marked = new Marked({ gfm: true });
marked.use({ extensions: [math("mathBlock", "block", MATH_BLOCK, /\$\$|\\\[/), math("mathInline", "inline", MATH_INLINE, /\$|\\\(/)] });

const DENSE = 4000, DEEP = /^(?:[ \t]*(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t]))){40}/, FENCE = /^ {0,3}(?:```|~~~)/;
/** Whether a text is made to keep its readers busy: no sentence has so many marks, nothing is so deep. */
function isHostile(text) {
  let marks = 0, code = false;
  for (const line of text.split("\n")) {
    if (FENCE.test(line)) { code = !code; marks = 0; }
    if (code) continue;
    marks = line.trim() ? marks + (line.match(/[*_~[\]<`$\\!&]/g)?.length || 0) : 0;
    if (marks > DENSE || DEEP.test(line)) return true;
  }
  return false;
}

/** The tokens of a whole text; one that cannot be parsed in good time is shown as it is. */
export function lex(text) {
  try { if (!isHostile(text)) return Array.from(marked.lexer(text)); } catch { /* too deep for the parser */ }
  return [{ type: "html", raw: text }];
}

/**
 * A parser of a text that grows: what cannot change any more is not parsed again. The last two blocks
 * may still change; a definition of a link may change any block, so with one all of it is parsed.
 */
export function growing() {
  let text = "", frozen = [], length = 0, whole = false;
  return (now) => {
    if (!now.startsWith(text)) { frozen = []; length = 0; whole = false; }
    text = now;
    if (whole) return lex(now);
    const tail = lex(length ? now.slice(length) : now);
    if (tail.some((token) => token.type === "def") || /^ {0,3}\[[^\]]+\]:/m.test(now)) { whole = true; return lex(now); }
    let keep = 0, open = 0;
    for (let at = tail.length - 1; at >= 0 && open < 2; at--) { if (tail[at].type !== "space") open++; keep = at; }
    const all = [...frozen, ...tail];
    if (open === 2 && keep > 0) {
      for (const token of tail.slice(0, keep)) length += token.raw.length;
      frozen = [...frozen, ...tail.slice(0, keep)];
    }
    return all;
  };
}

const ENTITIES = { __proto__: null, amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", mdash: "—", ndash: "–", hellip: "…", rarr: "→", larr: "←", times: "×" };
const decoded = (text) => text.replace(/&(#x[0-9a-f]{1,6}|#\d{1,7}|[a-z]+);/gi, (whole, name) => {
  if (name[0] !== "#") return ENTITIES[name] ?? whole;
  const code = name[1].toLowerCase() === "x" ? parseInt(name.slice(2), 16) : parseInt(name.slice(1), 10);
  return code > 31 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : whole;
});

/** One block of a text; drawn again only if its source has changed. */
export class Block extends Component {
  shouldComponentUpdate(next) { return next.token.raw !== this.props.token.raw || next.open !== this.props.open; }
  render({ token, open }) { return block(token, open); }
}

/** A whole text; with `open` more of it may come. */
export class Markdown extends Component {
  constructor(props) { super(props); this.parse = growing(); }
  shouldComponentUpdate(next) { return next.text !== this.props.text || next.open !== this.props.open; }
  render({ text, open }) {
    const tokens = open ? this.parse(text) : lex(text);
    const last = tokens.length - 1;
    return html`<div class="md">${tokens.map((token, at) => token.type === "space" || token.type === "def" ? null
      : html`<${Block} key=${at} token=${token} open=${open && at === last} />`)}</div>`;
  }
}

const inline = (tokens) => (tokens || []).map(span);
const blocks = (tokens) => (tokens || []).map((token) => block(token, false));

function block(token, open) {
  switch (token.type) {
    case "heading": return h("h" + Math.min(6, token.depth + 2), null, inline(token.tokens));
    case "paragraph": return html`<p>${inline(token.tokens)}</p>`;
    case "text": return token.tokens ? inline(token.tokens) : decoded(token.text);
    case "code": return html`<${Code} text=${token.text} lang=${(token.lang || "").split(/\s/)[0]} open=${open} />`;
    case "blockquote": return html`<blockquote>${blocks(token.tokens)}</blockquote>`;
    case "list": return h(token.ordered ? "ol" : "ul", token.ordered && token.start !== 1 ? { start: Number(token.start) || 1 } : null,
      token.items.map((item) => html`<li class=${item.task ? "task" : undefined}>${item.task
        ? html`<span role="img" aria-label=${item.checked ? "done" : "to do"}>${item.checked ? "☑ " : "☐ "}</span>` : null}${
        item.tokens.map((part) => part.type === "checkbox" ? null : !item.loose && part.type === "paragraph" ? inline(part.tokens) : block(part, false))}</li>`));
    case "table": return html`<div class="wide" tabindex="0" role="region" aria-label="Table"><table><thead><tr>${token.header.map((cell, at) =>
      html`<th class=${align(token.align[at])} scope="col">${inline(cell.tokens)}</th>`)}</tr></thead><tbody>${token.rows.map((row) =>
      html`<tr>${row.map((cell, at) => html`<td class=${align(token.align[at])}>${inline(cell.tokens)}</td>`)}</tr>`)}</tbody></table></div>`;
    case "hr": return html`<hr />`;
    case "html": return html`<p class="raw">${token.raw.trim()}</p>`;
    case "mathBlock": return html`<${Formula} text=${token.text} display=${true} />`;
    case "space": case "def": return null;
    default: return token.raw ? html`<p>${token.raw}</p>` : null;
  }
}
const align = (side) => (side === "right" ? "to-right" : side === "center" ? "to-middle" : undefined);

function span(token) {
  switch (token.type) {
    case "text": case "escape": return token.tokens ? inline(token.tokens) : decoded(token.text);
    case "strong": return html`<strong>${inline(token.tokens)}</strong>`;
    case "em": return html`<em>${inline(token.tokens)}</em>`;
    case "del": return html`<del>${inline(token.tokens)}</del>`;
    case "codespan": return html`<code>${token.text}</code>`;
    case "br": return html`<br />`;
    case "link": return html`<${Link} href=${token.href} words=${token.text}>${inline(token.tokens)}<//>`;
    case "image": return html`<${Link} href=${token.href} words=${token.text} picture=${true}>${token.text || "picture"}<//>`;
    case "mathInline": return html`<${Formula} text=${token.text} display=${token.display} />`;
    case "html": return token.raw;
    default: return token.raw || "";
  }
}

const LONG = 60;
/** Whether what a link says is where it leads: its host as a name of its own, and no other in sight. */
const names = (words, url, host) => [host, url.href, url.href.replace(/\/$/, ""), url.href.replace(/^mailto:/, "")].includes(String(words || "").trim());
/** A link: only to the web or to a mail address, saying where it goes, and asking if it carries much. */
class Link extends Component {
  render({ href, words, picture, children }, { asked }) {
    let url = null;
    try { url = new URL(href); } catch { /* not a whole address: shown as text */ }
    if (!url || !["http:", "https:", "mailto:"].includes(url.protocol)) return html`<span class="no-link" title="This is not a link that is opened">${children}</span>`;
    const host = url.protocol === "mailto:" ? decodeURIComponent(url.pathname.replace(/%(?![0-9a-f]{2})/gi, "%25")) : url.host;
    const carried = url.search.length + url.hash.length + url.username.length + url.password.length;
    const named = names(words, url, host);
    const ask = (event) => { if (carried > LONG && !asked) { event.preventDefault(); this.setState({ asked: true }); } };
    return html`<a href=${url.href} target="_blank" rel="noopener noreferrer nofollow" onClick=${ask}>${picture ? "🖼 " : ""}${children}</a>${
      named ? null : html`<span class="host"> (${written(host)})</span>`}${
      asked ? html`<span class="host warn" role="status"> It carries ${carried} characters to ${written(host)}. Click again to open it.</span>` : null}`;
  }
}

export const colourer = signal(null), typesetter = signal(null);
let colouring = false, typesetting = false;
/** Code with a button that copies it; coloured once it is whole and the colours are there. */
class Code extends Component {
  render({ text, lang, open }, { copied }) {
    let lines = text;
    if (!open && lang && text.length <= 40_000) {
      if (colourer.value) lines = colourer.value(text, lang);
      else if (!colouring) { colouring = true; import("./code.js").then((module) => { colourer.value = module.colour; }, () => { colouring = false; }); }
    }
    const copy = () => { navigator.clipboard?.writeText(text); this.setState({ copied: true }); setTimeout(() => this.setState({ copied: false }), 1500); };
    return html`<figure class="code"><figcaption><span>${lang || "text"}</span><button type="button" onClick=${copy}>${copied ? "Copied" : "Copy"}</button></figcaption>
      <pre tabindex="0"><code>${lines}</code></pre></figure>`;
  }
}

class Formula extends Component {
  render({ text, display }) {
    if (text.length <= 4000) {
      if (typesetter.value) return typesetter.value(text, display);
      if (!typesetting) { typesetting = true; import("./math.js").then((module) => { typesetter.value = module.typeset; }, () => { typesetting = false; }); }
    }
    return html`<code>${text}</code>`;
  }
}
