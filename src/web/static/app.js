// The frame: which page an address stands for, the list beside it, and the keyboard.
import { html, render, signal, Component, effect } from "./dom.js";
import { connect, digest, forgetKey, hasKey, link, on, read } from "./wire.js";
import { conversation, onRenamed, startNew } from "./conversations.js";
import { Sidebar, BottomBar } from "./sidebar.js";
import { follow } from "./page.js";
import { Talk } from "./talk.js";

export const me = signal(null);
export const place = signal(parse());
const PAGES = { __proto__: null, find: "./find.js", inbox: "./inbox.js", jobs: "./jobs.js", usage: "./usage.js", state: "./state.js", settings: "./settings.js" };
const PANELS = { __proto__: null, history: "./history.js", turn: "./turn.js", files: "./files.js" };

function parse() {
  const parts = location.pathname.split("/").filter(Boolean);
  const query = new URLSearchParams(location.search);
  return { path: location.pathname, page: parts[0] || "", id: parts[0] === "c" ? decodeURIComponent(parts[1] || "") : "", panel: parts[0] === "c" ? parts[2] || "" : "", rest: parts.slice(3), at: query.get("at"), query };
}
export function go(address, replace = false) {
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  place.value = parse();
}
addEventListener("popstate", () => { place.value = parse(); });
onRenamed((old, key) => {
  const here = place.value, isHere = here.id === old;
  if (!isHere && !(here.path === "/" && fresh?.key.value === key)) return;
  // The panel that is open and the message that was asked for stay.
  const rest = isHere ? [here.panel, ...here.rest].filter(Boolean).map((part) => "/" + part).join("") + location.search : "";
  go("/c/" + encodeURIComponent(key) + rest, true);
});

let fresh = null;
const freshOne = () => { if (!fresh || !fresh.isNew) fresh = startNew(); return fresh; };

const modules = signal({});
class Later extends Component {
  render({ from, ...props }) {
    const module = modules.value[from];
    if (!module) { import(from).then((found) => { modules.value = { ...modules.value, [from]: found }; }, () => this.setState({ failed: true })); return html`<p class="quiet middle">${this.state.failed ? "This part is not here without a connection." : "…"}</p>`; }
    return html`<${module.default} ...${props} />`;
  }
}

class App extends Component {
  constructor(props) { super(props); this.state = { list: false }; }
  componentDidCatch(error) { this.setState({ broken: String(error?.message || error) }); throw error; }
  render(_, { list, broken }) {
    const here = place.value;
    if (broken) return html`<main class="enter"><h1>Something broke here</h1><p>${broken}</p><button type="button" class="main" onClick=${() => location.reload()}>Load the page again</button></main>`;
    if (link.value === "refused") return html`<main class="enter"><h1>Not let in any more</h1><p>This browser's key was revoked.</p><button type="button" class="main" onClick=${() => { forgetKey(); location.replace("/enter"); }}>Enter a new code</button></main>`;
    const back = "/c/" + encodeURIComponent(here.id) + (here.at ? "?at=" + here.at : "");
    const close = () => this.setState({ list: false });
    const talk = here.page === "c" ? conversation(here.id) : here.page === "" ? freshOne() : null;
    return html`<div class=${"shell" + (list ? " with-list" : "") + (here.panel ? " with-panel" : "")} onClick=${(event) => { if (list && event.target.closest(".side a, .side .main, .veil")) close(); }}>
      <a class="skip" href="#main">To the conversation</a>
      <${Sidebar} />${list ? html`<div class="veil"></div>` : null}
      <main id="main" tabindex="-1">
        ${link.value === "offline" ? html`<p class="offline" role="status">Not connected. What you type is kept and sent once there is a connection.</p>` : null}
        ${digest.value && digest.value !== own ? html`<p class="offline" role="status">There is a newer version of this page. <button type="button" onClick=${() => location.reload()}>Load it</button></p>` : null}
        ${talk ? html`<${Talk} conversation=${talk} at=${here.at} panel=${here.panel} />` : html`<${Later} from=${PAGES[here.page] || PAGES.find} />`}
      </main>
      ${talk && PANELS[here.panel] ? html`<aside class="panel" aria-label=${here.panel}><a class="back" href=${back} onClick=${(event) => follow(event, back)}>‹ Back to the conversation</a><${Later} from=${PANELS[here.panel]} conversation=${talk} rest=${here.rest} /></aside>` : null}
      <${BottomBar} onList=${() => this.setState({ list: !list })} />
    </div>`;
  }
}
/** @returns {HTMLTextAreaElement | null} */
const composer = () => document.querySelector("[data-composer]");
const own = new URL(import.meta.url).pathname.split("/")[2];

addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(/** @type {Element} */ (event.target).tagName);
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); go("/find"); return; }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const here = place.value;
  if (event.key === "/") { event.preventDefault(); composer()?.focus(); }
  else if (event.key === "." && here.id) { const base = "/c/" + encodeURIComponent(here.id); go(here.panel ? base : base + "/turn"); }
  else if (event.key === "Escape" && here.panel) go("/c/" + encodeURIComponent(here.id));
});

const THEME = "hermes.theme";
export const theme = signal(localStorage.getItem(THEME) || "system");
effect(() => { document.documentElement.dataset.theme = theme.value; localStorage.setItem(THEME, theme.value); });

// A page that is old reloads by itself where nothing is typed and nothing runs.
effect(() => {
  if (digest.value && digest.value !== own && !composer()?.value && document.hidden) location.reload();
});
effect(() => {
  const here = place.value;
  const open = here.id ? conversation(here.id).state.value?.info?.title : "";
  document.title = (open || { __proto__: null, find: "Find", inbox: "Inbox", jobs: "Jobs", usage: "Usage", state: "State", settings: "Settings" }[here.page] || "Hermes") + (open ? " · Hermes" : "");
});

if (hasKey()) {
  on("online", () => { read("hello").then((facts) => { me.value = facts; }, () => {}); });
  connect();
  const root = document.getElementById("app");
  root.replaceChildren();
  render(html`<${App} />`, root);
} else {
  sessionStorage.setItem("hermes.wanted", location.pathname + location.search);
  location.replace("/enter" + location.hash);
}
