// What needs a person, from every surface; what waits, what is owed, what was decided.
import { html, Component } from "./dom.js";
import { call, on, read } from "./wire.js";
import { needs } from "./conversations.js";
import { Approval } from "./questions.js";
import { ago, when, written } from "./text.js";
import { follow } from "./sidebar.js";

const HOW = { __proto__: null, person: "answered", timeout: "nobody answered in time", cancelled: "the turn was stopped", granted: "allowed before", smart: "judged by a model", off: "approvals are off", allow_list: "the configuration allows it", deny_list: "the configuration forbids it", forbidden: "nobody may allow it", nobody: "nobody could be asked" };
const Where = ({ id, title, source }) => { const address = "/c/" + encodeURIComponent(id); return html`<p class="quiet"><a href=${address} onClick=${(event) => follow(event, address)}>${written(title || "A conversation")}</a> · ${source}</p>`; };

export default class Inbox extends Component {
  constructor(props) { super(props); this.state = { inbox: null, said: "" }; }
  componentDidMount() {
    this.load();
    this.timer = setInterval(() => this.load(), 2000);
    this.off = on("event", (event) => { if (/^(approval|clarify|sudo|request)\./.test(event.type)) this.load(); });
  }
  componentWillUnmount() { clearInterval(this.timer); this.off(); }
  async load() {
    try { const inbox = await read("approval.inbox"); needs.value = inbox.needs; this.setState({ inbox, said: "" }); } catch (error) { this.setState({ said: error.message }); }
  }
  async decide(id, choice) {
    const { decided } = await call("approval.decide", { request_id: id, choice });
    if (!decided) throw new Error("It was decided elsewhere, or is over.");
    this.load();
  }
  async revoke(grant) {
    try { await call("grant.revoke", { pattern_key: grant.pattern_key, granted_by: grant.granted_by }); this.load(); } catch (error) { this.setState({ said: error.message }); }
  }
  render(_, { inbox, said }) {
    if (!inbox) return html`<section class="page"><div class="inner"><h1>Inbox</h1><p class="quiet">${said || "…"}</p></div></section>`;
    return html`<section class="page"><div class="inner"><h1>Inbox</h1>
      ${said ? html`<p class="warn" role="alert">${said}</p>` : null}
      <h2>Needs you</h2>
      ${inbox.needs ? null : html`<p class="quiet">Nothing.</p>`}
      ${inbox.approvals.map((one) => html`<${Approval} key=${one.request_id} question=${one} where=${html`<${Where} id=${one.session_id} title=${one.title} source=${one.source} />`} answer=${(choice) => this.decide(one.request_id, choice)} />`)}
      ${inbox.questions.map((one) => html`<section class="card ask" key=${one.payload.request_id}><h3>A question waits in a conversation</h3><p>${written(one.payload.question || "A command's sudo wants a password.")}</p><p class="quiet">Open the conversation to answer it.</p></section>`)}
      <h2>Waiting to begin</h2>
      ${inbox.waiting.length ? html`<ul class="plainlist">${inbox.waiting.map((one, at) => html`<li key=${at} class="card"><${Where} id=${one.session_id} title="" source=${one.source + ", since " + ago(one.received_at)} />${written(one.text)}</li>`)}</ul>` : html`<p class="quiet">Nothing.</p>`}
      <h2>Owed to chats</h2>
      ${inbox.owed.length ? html`<ul class="plainlist">${inbox.owed.map((one) => html`<li key=${one.id} class="card"><p class="quiet">${one.session_key}, since ${when(one.created_at)}${one.may_be_missing ? html` · <b class="warn">it may be missing</b>` : null}</p>${written(one.text)}</li>`)}</ul>` : html`<p class="quiet">Nothing.</p>`}
      <h2>Decided</h2>
      ${inbox.decided.length ? html`<div class="wide" tabindex="0" role="region" aria-label="Decisions"><table><thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">Choice</th><th scope="col">How</th></tr></thead><tbody>${inbox.decided.map((one) =>
        html`<tr key=${one.request_id}><td>${when(one.decided_at || one.created_at)}</td><td><code>${written(one.command).slice(0, 200)}</code></td><td>${one.choice || one.state}</td><td>${HOW[one.how] || one.how}${one.decided_by ? " · " + written(one.decided_by) : ""}</td></tr>`)}</tbody></table></div>` : html`<p class="quiet">Nothing yet.</p>`}
      <h2>Always allowed</h2>
      ${inbox.grants.length ? html`<ul class="plainlist">${inbox.grants.map((grant) => html`<li key=${grant.pattern_key + grant.granted_by} class="card row"><span class="grow">${written(grant.description)} <span class="quiet">${written(grant.granted_by)} · ${when(grant.granted_at)}</span></span><button type="button" onClick=${() => this.revoke(grant)}>Ask again</button></li>`)}</ul>` : html`<p class="quiet">Nothing.</p>`}
    </div></section>`;
  }
}
