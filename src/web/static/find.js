// One box over everything that was ever said, also what was compressed away.
import { html, Component, createRef } from "./dom.js";
import { read } from "./wire.js";
import { when, written } from "./text.js";
import { go, place } from "./app.js";
import { follow } from "./page.js";

const SORTS = [["best", "Best"], ["newest", "Newest"], ["oldest", "Oldest"]];

/** A snippet with the words that were found marked; the server marks them with >>> and <<<. */
function Snippet({ text }) {
  const parts = String(text).split(/>>>|<<</);
  return parts.map((part, at) => (at % 2 ? html`<mark>${written(part)}</mark>` : written(part)));
}

export default class Find extends Component {
  constructor(props) {
    super(props);
    this.box = createRef();
    this.state = { text: place.value.query.get("q") || "", sort: "best", hits: null, said: "", took: 0, more: false };
  }
  componentDidMount() { this.box.current.focus(); if (this.state.text) this.search(); }
  typed(text) {
    this.setState({ text });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.search(), 120);
  }
  async search(sort = this.state.sort, offset = 0) {
    const { text } = this.state;
    go("/find" + (text ? "?q=" + encodeURIComponent(text) : ""), true);
    if (!text.trim()) { this.setState({ hits: null }); return; }
    const began = performance.now();
    try {
      const found = await read("session.search", { query: text, limit: 40, offset, sort });
      if (this.state.text !== text) return;
      const hits = offset ? [...this.state.hits, ...found.results] : found.results;
      this.setState({ hits, said: "", took: Math.round(performance.now() - began), more: found.results.length === 40 });
    } catch (error) { this.setState({ said: error.message, hits: null }); }
  }
  key(event) {
    const links = [...document.querySelectorAll(".hits a")];
    const at = links.indexOf(document.activeElement);
    const down = event.key === "ArrowDown" || (event.key === "j" && at >= 0), up = event.key === "ArrowUp" || (event.key === "k" && at >= 0);
    if (!down && !up) { if (event.key === "Enter" && at < 0 && links[0]) { event.preventDefault(); links[0].click(); } return; }
    event.preventDefault();
    (links[at + (down ? 1 : -1)] || this.box.current).focus();
  }
  render(_, { text, sort, hits, said, took, more }) {
    const groups = new Map();
    for (const hit of hits || []) { if (!groups.has(hit.session_id)) groups.set(hit.session_id, []); groups.get(hit.session_id).push(hit); }
    return html`<section class="page" onKeyDown=${(event) => this.key(event)}><div class="inner"><h1>Find</h1>
      <input type="search" aria-label="Find in everything that was said" placeholder="Words, &quot;phrases&quot;, begin*, this OR that, -without" class="grow wide-field" value=${text} ref=${this.box} onInput=${(event) => this.typed(event.target.value)} />
      <div class="chips" role="group" aria-label="Order">${SORTS.map(([name, label]) => html`<button type="button" key=${name} aria-pressed=${sort === name ? "true" : "false"} onClick=${() => { this.setState({ sort: name }); this.search(name); }}>${label}</button>`)}</div>
      ${said ? html`<p class="warn" role="alert">${said}</p>` : null}
      <p class="quiet" role="status">${hits ? hits.length + (more ? "+" : "") + " hits in " + groups.size + " conversations, " + took + " ms" : ""}</p>
      ${[...groups].map(([id, found]) => html`<section key=${id}><h2>${written(found[0].title || "Untitled")} <span class="quiet">${found[0].source}</span></h2><ul class="hits">${found.map((hit) => {
        const address = "/c/" + encodeURIComponent(hit.session_id) + (hit.message_id != null ? "?at=" + hit.message_id : "");
        return html`<li key=${hit.message_id}><a href=${address} onClick=${(event) => follow(event, address)}><span class="quiet">${hit.role === "user" ? "You" : hit.role === "tool" ? "Tool" : "Hermes"} · ${when(hit.timestamp)}</span><br /><${Snippet} text=${hit.snippet} /></a></li>`;
      })}</ul></section>`)}
      ${more ? html`<button type="button" onClick=${() => this.search(sort, hits.length)}>More</button>` : null}
    </div></section>`;
  }
}
