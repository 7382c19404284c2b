// The list of conversations, from every surface.
import { html } from "./dom.js";
import { list, needs, startNew } from "./conversations.js";
import { link } from "./wire.js";
import { ago, dayName, written } from "./text.js";
import { go, place, me } from "./app.js";
import { follow } from "./page.js";

const GLYPHS = { __proto__: null, tui: "▣", cli: "▣", telegram: "✈", matrix: "◫", api_server: "⇄", webhook: "↯", cron: "◷" };
export const NAMES = { __proto__: null, tui: "terminal or web", cli: "terminal" };

export const LINKS = [["/find", "Find", "⌕"], ["/inbox", "Inbox", "✉"], ["/jobs", "Jobs", "◷"], ["/usage", "Usage", "◔"], ["/state", "State", "♥"], ["/settings", "Settings", "⚙"]];

export const linksFor = (person) => LINKS.filter(([address]) => address !== "/state" || !person || person.role === "operator");

export function Sidebar() {
  const rows = list.value, here = place.value;
  let day = "";
  return html`<nav class="side" aria-label="Conversations">
    <div class="row top"><strong class="grow">Hermes</strong><button type="button" class="main" onClick=${() => { startNew(); go("/"); }}>New</button></div>
    <ul class="pages">${linksFor(me.value).map(([address, name, glyph]) => html`<li key=${address}><a href=${address} aria-current=${here.path === address ? "page" : undefined} onClick=${(event) => follow(event, address)}>
      <span aria-hidden="true">${glyph}</span> ${name}${address === "/inbox" && needs.value ? html` <span class="badge" aria-label=${needs.value + " need you"}>${needs.value}</span>` : null}</a></li>`)}</ul>
    <div class="list" tabindex="0" role="region" aria-label="All conversations">${rows === null ? html`<p class="quiet">${link.value === "online" ? "…" : ""}</p>` : rows.length ? html`<ul>${rows.map((row) => {
      const at = row.last_active || row.started_at, name = dayName(at), first = name !== day;
      day = name;
      const address = "/c/" + encodeURIComponent(row.id);
      return html`${first ? html`<li class="day" key=${"d" + name}>${name}</li>` : null}<li key=${row.id}><a href=${address} aria-current=${here.id === row.id ? "page" : undefined} onClick=${(event) => follow(event, address)}>
        <span class="glyph" title=${NAMES[row.source] || row.source} aria-hidden="true">${GLYPHS[row.source] || "•"}</span>
        <span class="name">${written(row.title || row.preview || "Untitled")}</span>
        ${row.running ? html`<span class="dot" role="img" aria-label="running"></span>` : null}${row.waiting ? html`<span class="quiet">waits</span>` : null}
        <span class="quiet time">${ago(at)}</span></a></li>`;
    })}</ul>` : html`<p class="quiet">No conversations yet.</p>`}</div>
    <p class="quiet foot">${me.value ? me.value.person : ""}${link.value === "online" ? "" : link.value === "refused" ? " · not let in" : " · not connected"}</p>
  </nav>`;
}

export function BottomBar({ onList }) {
  const here = place.value.path;
  const tab = (address, name, glyph, extra) => html`<a href=${address} aria-current=${here === address ? "page" : undefined} onClick=${(event) => follow(event, address)}><span aria-hidden="true">${glyph}</span>${name}${extra}</a>`;
  return html`<nav class="bottom" aria-label="Pages"><button type="button" onClick=${onList}><span aria-hidden="true">☰</span>Talks</button>${tab("/find", "Find", "⌕")}
    ${tab("/inbox", "Inbox", "✉", needs.value ? html`<span class="badge">${needs.value}</span>` : null)}${tab("/settings", "More", "⋯")}</nav>`;
}
