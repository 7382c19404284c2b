// One box over everything that was ever said, also what was compressed away; and over conversations and commands.
import { html, Component, createRef } from "./dom.js";
import { read } from "./wire.js";
import { list } from "./conversations.js";
import { when, written } from "./text.js";
import { Choice, follow, Link } from "./page.js";
import { linksFor, NAMES } from "./sidebar.js";
import { go, me, place } from "./app.js";

const PAGE = 40, NAMED = 6, SOON = 120;
const SORTS = [["best", "Best"], ["newest", "Newest"], ["oldest", "Oldest"]];
const ROLES = [["", "Everybody"], ["user", "You"], ["assistant", "Hermes"], ["tool", "Tools"]];
const TIMES = [["", "Any time"], ["7", "7 days"], ["30", "30 days"], ["365", "A year"]];
const SAID_BY = { __proto__: null, user: "You", tool: "Tool", assistant: "Hermes" };

/** A snippet with the words that were found marked; the server marks them with >>> and <<<. */
function Snippet({ text }) {
  const parts = String(text).split(/>>>|<<</);
  return parts.map((part, at) => (at % 2 ? html`<mark>${written(part)}</mark>` : written(part)));
}
const Near = ({ near }) => (near ? html`<span class="near">${SAID_BY[near.role] || near.role}: ${written(near.text.replace(/[*`#]+/g, ""))}</span>` : null);

export default class Find extends Component {
  constructor(props) {
    super(props);
    this.box = createRef();
    const { query } = place.value;
    this.state = { text: query.get("q") || "", sort: "best", role: "", source: "", days: "", within: query.get("in") || "", hits: null, said: "", took: 0, more: false };
  }
  componentDidMount() { this.box.current.focus(); if (this.state.text) this.search(); }
  componentWillUnmount() { clearTimeout(this.timer); }
  typed(text) {
    this.setState({ text });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.search(), SOON);
  }
  choose(change) { this.setState(change, () => this.search()); }
  async search(offset = 0) {
    const { text, sort, role, source, days, within } = this.state;
    const query = new URLSearchParams();
    if (text) query.set("q", text);
    if (within) query.set("in", within);
    go("/find" + (text || within ? "?" + query : ""), true);
    if (!text.trim() || text.startsWith(">")) { this.setState({ hits: null, said: "" }); return; }
    const began = performance.now(), asked = { query: text, limit: PAGE, offset, sort, context: true };
    if (role) asked.role = role;
    if (source) asked.source = source;
    if (days) asked.days = Number(days);
    if (within) asked.conversation = within;
    this.asked = asked;
    try {
      const found = await read("session.search", asked);
      if (this.asked !== asked) return;
      const hits = offset ? [...this.state.hits, ...found.results] : found.results;
      this.setState({ hits, said: "", took: Math.round(performance.now() - began), more: found.results.length === PAGE });
    } catch (error) { if (this.asked === asked) this.setState({ said: error.message, hits: null }); }
  }
  key(event) {
    if (event.target.closest("[aria-pressed], select")) return;
    const links = [...document.querySelectorAll(".hits a")];
    const at = links.indexOf(document.activeElement);
    const down = event.key === "ArrowDown" || (event.key === "j" && at >= 0), up = event.key === "ArrowUp" || (event.key === "k" && at >= 0);
    if (!down && !up) { if (event.key === "Enter" && at < 0 && links[0]) { event.preventDefault(); /** @type {HTMLElement} */ (links[0]).click(); } return; }
    event.preventDefault();
    (links[at + (down ? 1 : -1)] || this.box.current).focus();
  }

  /** Pages and conversations whose names have these words. */
  named(text) {
    const wanted = text.replace(/^>\s*/, "").trim().toLowerCase();
    if (!wanted && !text.startsWith(">")) return [];
    const pages = linksFor(me.value).map(([to, name]) => ({ to, name, what: "page" }));
    const talks = text.startsWith(">") ? [] : (list.value || []).map((row) => ({ to: "/c/" + encodeURIComponent(row.id), name: row.title || "", what: NAMES[row.source] || row.source }));
    return [...pages, { to: "/", name: "New conversation", what: "page" }, ...talks].filter((one) => one.name.toLowerCase().includes(wanted)).slice(0, NAMED);
  }

  render(_, { text, sort, role, source, days, within, hits, said, took, more }) {
    const groups = new Map();
    for (const hit of hits || []) { if (!groups.has(hit.session_id)) groups.set(hit.session_id, []); groups.get(hit.session_id).push(hit); }
    const named = within ? [] : this.named(text);
    const sources = [...new Set((list.value || []).map((row) => row.source))].sort();
    const inTitle = within && (list.value || []).find((row) => row.id === within)?.title;
    return html`<section class="page" onKeyDown=${(event) => this.key(event)}><div class="inner"><h1>Find</h1>
      <input type="search" aria-label="Find in everything that was said" placeholder="A question, words, &quot;phrases&quot;, begin*, -without; > for pages" class="wide-field" value=${text} ref=${this.box} onInput=${(event) => this.typed(event.target.value)} />
      <div class="chips"><${Choice} label="Order" options=${SORTS} value=${sort} choose=${(one) => this.choose({ sort: one })} />
        <select aria-label="Said by" value=${role} onChange=${(event) => this.choose({ role: event.target.value })}>${ROLES.map(([name, label]) => html`<option key=${name} value=${name}>${label}</option>`)}</select>
        <select aria-label="Source" value=${source} onChange=${(event) => this.choose({ source: event.target.value })}><option value="">Everywhere</option>${sources.map((name) => html`<option key=${name} value=${name}>${NAMES[name] || name}</option>`)}</select>
        <select aria-label="Time" value=${days} onChange=${(event) => this.choose({ days: event.target.value })}>${TIMES.map(([name, label]) => html`<option key=${name} value=${name}>${label}</option>`)}</select>
        ${within ? html`<button type="button" aria-pressed="true" onClick=${() => this.choose({ within: "" })}>in ${written(inTitle || "one conversation")} ✕</button>` : null}</div>
      ${said ? html`<p class="warn" role="alert">${said}</p>` : null}
      ${named.length ? html`<ul class="hits named" aria-label="Go to">${named.map((one) => html`<li key=${one.to}><${Link} to=${one.to}><b>${written(one.name)}</b> <span class="quiet">${one.what}</span><//></li>`)}</ul>` : null}
      <p class="quiet" role="status">${hits ? (hits.length ? hits.length + (more ? "+" : "") + " hits in " + groups.size + (groups.size === 1 ? " conversation, " : " conversations, ") + took + " ms" : "Nothing was said like that.") : ""}</p>
      ${[...groups].map(([id, found]) => html`<section key=${id}><h2>${written(found[0].title || "Untitled")} <span class="quiet">${NAMES[found[0].source] || found[0].source}</span></h2><ul class="hits">${found.map((hit) => {
        const address = "/c/" + encodeURIComponent(hit.session_id) + (hit.message_id != null ? "?at=" + hit.message_id : "");
        return html`<li key=${hit.message_id}><a href=${address} onClick=${(event) => follow(event, address)}><${Near} near=${hit.before} /><span class="hit"><span class="quiet">${SAID_BY[hit.role] || "Title"} · ${when(hit.timestamp)}</span> <${Snippet} text=${hit.snippet} /></span><${Near} near=${hit.after} /></a></li>`;
      })}</ul></section>`)}
      ${more ? html`<button type="button" onClick=${() => this.search(hits.length)}>More</button>` : null}
    </div></section>`;
  }
}
