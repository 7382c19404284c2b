// What needs a person, from every surface; what waits, what is owed, what was decided.
import { html, Component } from "./dom.js";
import { call, on, read } from "./wire.js";
import { needs } from "./conversations.js";
import { Approval, Questions } from "./questions.js";
import { ago, when, written } from "./text.js";
import { Link, Page } from "./page.js";
import { me, place } from "./app.js";

const EVERY = 2000;
const HOW = { __proto__: null, person: "answered", timeout: "nobody answered in time", cancelled: "the turn was stopped", granted: "allowed before", smart: "judged by a model", off: "approvals are off", allow_list: "the configuration allows it", deny_list: "the configuration forbids it", forbidden: "nobody may allow it", nobody: "nobody could be asked" };
const CHOSEN = { __proto__: null, once: "allowed once", session: "allowed in its conversation", always: "always allowed", deny: "denied" };
const ASKED = /^(approval|clarify|sudo|request)\./;

const talk = (id) => "/c/" + encodeURIComponent(id);
const Where = ({ id, title, more }) => html`<p class="quiet"><${Link} to=${talk(id)}>${written(title || "A conversation")}<//>${more ? " · " + more : ""}</p>`;
const Nothing = ({ text = "Nothing." }) => html`<p class="quiet">${text}</p>`;

export default class Inbox extends Component {
  constructor(props) { super(props); this.state = { inbox: null, said: "" }; }
  componentDidMount() {
    this.load();
    this.timer = setInterval(() => { if (!document.hidden) this.load(); }, EVERY);
    this.off = on("event", (event) => { if (ASKED.test(event.type)) this.load(); });
  }
  componentDidUpdate() {
    const wanted = place.value.query.get("id");
    if (!wanted || this.shown === wanted || !this.state.inbox) return;
    this.shown = wanted;
    document.getElementById(wanted)?.scrollIntoView({ block: "center" });
  }
  componentWillUnmount() { clearInterval(this.timer); this.off(); }
  async load() {
    try { const inbox = await read("approval.inbox"); needs.value = inbox.needs; this.setState({ inbox, said: "" }); } catch (error) { this.setState({ said: error.message }); }
  }
  async decide(id, choice) {
    const { decided } = await call("approval.decide", { request_id: id, choice });
    this.load();
    if (!decided) throw new Error("It was decided elsewhere, or is over.");
  }
  async revoke(grant) {
    try { await call("grant.revoke", { pattern_key: grant.pattern_key, granted_by: grant.granted_by }); await this.load(); } catch (error) { this.setState({ said: error.message }); }
  }

  render(_, { inbox, said }) {
    const wanted = place.value.query.get("id");
    return html`<${Page} title="Inbox" said=${said} loading=${!inbox}>${inbox ? html`
      <h2>Needs you</h2>
      ${inbox.needs ? null : html`<${Nothing} text="Nothing needs you." />`}
      ${inbox.approvals.map((one) => html`<div key=${one.request_id} id=${one.request_id} class=${wanted === one.request_id ? "here" : undefined}><${Approval} question=${one}
        where=${html`<${Where} id=${one.session_id} title=${one.title} more=${one.source} />`} answer=${(choice) => this.decide(one.request_id, choice)} /></div>`)}
      ${inbox.questions.map((one) => html`<div key=${one.payload.request_id}><${Where} id=${one.stored_session_id} title=${one.title} more="asks" />
        <${Questions} questions=${{ [one.payload.request_id]: { kind: one.type, ...one.payload } }} sid=${() => one.session_id} /></div>`)}
      <h2>Waiting to begin</h2>
      ${inbox.waiting.length ? html`<ul class="plainlist">${inbox.waiting.map((one, at) => html`<li key=${at} class="card"><${Where} id=${one.session_id} title=${one.title} more=${one.source + ", since " + ago(one.received_at)} />${written(one.text)}</li>`)}</ul>` : html`<${Nothing} />`}
      ${me.value?.role === "operator" ? html`<h2>Owed to chats</h2>
        ${inbox.owed.length ? html`<ul class="plainlist">${inbox.owed.map((one) => html`<${Owed} key=${one.id} owed=${one} />`)}</ul>` : html`<${Nothing} />`}` : null}
      <h2>Decided</h2>
      ${inbox.decided.length ? html`<div class="wide" tabindex="0" role="region" aria-label="Decisions"><table><thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">Where</th><th scope="col">Decision</th></tr></thead><tbody>${inbox.decided.map((one) =>
        html`<tr key=${one.request_id} id=${one.request_id} class=${wanted === one.request_id ? "here" : undefined}><td>${when(one.decided_at || one.created_at)}</td><td><code>${written(one.command.slice(0, 200))}</code></td>
          <td><${Link} to=${talk(one.session_id)}>${written(one.title || "A conversation")}<//></td>
          <td>${CHOSEN[one.choice] || one.state}<br /><span class="quiet">${HOW[one.how] || one.how}${one.decided_by ? " by " + written(one.decided_by) : ""}</span></td></tr>`)}</tbody></table></div>` : html`<${Nothing} text="Nothing yet." />`}
      <h2>Always allowed</h2>
      ${inbox.grants.length ? html`<ul class="plainlist">${inbox.grants.map((grant) => html`<li key=${grant.pattern_key + grant.granted_by} class="card row"><span class="grow">${written(grant.description)} <span class="quiet">${written(grant.granted_by)} · ${when(grant.granted_at)}</span></span><button type="button" onClick=${() => this.revoke(grant)}>Ask again</button></li>`)}</ul>` : html`<${Nothing} />`}` : null}<//>`;
  }
}

function Owed({ owed }) {
  const what = owed.may_be_missing ? "it may have arrived or not" : { __proto__: null, failed: "given up", sending: "being sent" }[owed.state] || "waits";
  return html`<li class="card"><p class="quiet">${owed.platform} · since ${when(owed.created_at)}${owed.attempts ? ", tried " + owed.attempts + " times" : ""} · <b class=${owed.may_be_missing || owed.state === "failed" ? "warn" : undefined}>${what}</b></p>
    ${written(owed.text)}${owed.error ? html`<p class="quiet">${written(owed.error)}</p>` : null}</li>`;
}
