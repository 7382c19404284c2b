// How Hermes is: gateway and platforms, deliveries, store, search, backups, the doctor, the log.
import { html, Component } from "./dom.js";
import { call, read } from "./wire.js";
import { ago, bytes, lasting, plural, when, written } from "./text.js";
import { Choice, Link, Page } from "./page.js";
import { me } from "./app.js";

const EVERY = 10000;
const GATEWAY = { __proto__: null, silent: "killed, or it hangs", stopped: "stopped" };
const LEVELS = [["", "All"], ["WARNING", "Warnings"], ["ERROR", "Errors"]];
const WORSE = { __proto__: null, "": /./, WARNING: / (WARNING|ERROR|CRITICAL) /, ERROR: / (ERROR|CRITICAL) / };
const LINE = /^(\S+ \S+ [A-Z]+ [^\s[\]:]+) \[([\w.-]+)\]: ([^]*)$/;

const Tile = ({ title, value, bad, children }) => html`<div class="card tile"><span class="quiet">${title}</span><b class=${bad ? "warn" : undefined}>${value}</b>${children}</div>`;

export default class State extends Component {
  constructor(props) { super(props); this.state = { found: null, said: "", level: "", proven: "" }; }
  componentDidMount() { this.load(); this.timer = setInterval(() => { if (!document.hidden) this.load(); }, EVERY); }
  componentWillUnmount() { clearInterval(this.timer); }
  async load() { try { this.setState({ found: await read("state.overview"), said: "" }); } catch (error) { this.setState({ said: error.message }); } }
  async prove() {
    this.setState({ proven: "One moment: the newest point is restored aside…" });
    try {
      const proof = await call("backup.verify");
      this.setState({ proven: proof.damage || "Point " + proof.number + " was restored aside: " + plural(proof.messages, "message") + ", all is there." });
      await this.load();
    } catch (error) { this.setState({ proven: error.message }); }
  }
  render(_, { found, said, level, proven }) {
    if (me.value && me.value.role !== "operator") return html`<${Page} title="State"><p>How this machine is, is for its operator. What is yours to answer is in the <${Link} to="/inbox">inbox<//>.</p><//>`;
    if (!found) return html`<${Page} title="State" said=${said} loading=${true} />`;
    const { gateway, store, search, backups, proof } = found;
    const points = [...backups].reverse(), platforms = Object.entries(gateway.platforms || {}), isRunning = gateway.state === "running";
    return html`<${Page} title="State" said=${said}>
      <div class="tiles">
        <${Tile} title="Gateway" value=${written(GATEWAY[gateway.state] || gateway.state || "?")} bad=${gateway.state === "silent"}>${isRunning ? html`for ${lasting(gateway.uptime_seconds)}, ${plural(gateway.turns_running || 0, "turn")} now` : gateway.updated_at ? "last heard " + ago(gateway.updated_at) : "hermes gateway start"}<//>
        <${Tile} title="Waiting to begin" value=${found.waiting}>${found.waiting ? html`<${Link} to="/inbox">Look<//>` : "nothing"}<//>
        <${Tile} title="Owed to chats" value=${found.owed}>${found.may_be_missing ? html`<span class="warn">${found.may_be_missing} may be missing</span> ` : null}${found.owed || found.may_be_missing ? html`<${Link} to="/inbox">Look<//>` : "nothing"}<//>
        <${Tile} title="Store" value=${bytes(store.bytes)}>${plural(store.conversations, "conversation")} · ${plural(store.messages, "message")}<br /><span class="quiet">${written(store.location)}</span><//>
        <${Tile} title="Search" value=${search.unread ? plural(search.unread, "message") + " behind" : search.bytes ? "knows all" : "not built yet"}>${search.bytes ? bytes(search.bytes) + (search.unread ? "; the next search reads them" : "") : "the first search builds it"}<//>
        <${Tile} title="Version" value=${found.version} />
      </div>
      ${platforms.length ? html`<h2>Platforms</h2><div class="wide" tabindex="0" role="region" aria-label="Platforms"><table><tbody>${platforms.map(([name, facts]) => { const state = written(typeof facts === "string" ? facts : facts?.state || ""); return html`<tr key=${name}><th scope="row">${written(name)}</th><td class=${isRunning && /^(failed|error)/.test(state) ? "warn" : undefined}>${isRunning ? state : "was " + state}</td></tr>`; })}</tbody></table></div>` : null}
      <h2>Backups</h2>
      <p>${points.length ? html`The newest point is of <b>${when(points[0].at)}</b> (${ago(points[0].at)}). ${proof ? html`Point ${proof.number} was <b>last proven</b> ${when(proof.at)}.` : "None was ever proven by restoring it."}` : html`There is no point to go back to. Make one: <code>hermes backup increment</code>, or let it go on: <code>hermes backup watch</code>.`}</p>
      ${points.length ? html`<p class="row"><button type="button" onClick=${() => this.prove()}>Prove now</button>${proven ? html`<span role="status">${proven}</span>` : html`<span class="quiet">restores the newest aside and counts what is in it</span>`}</p>
        <details><summary>The last ${plural(points.length, "point")}</summary><table><thead><tr><th scope="col">Point</th><th scope="col">Time</th><th scope="col">Size</th></tr></thead><tbody>${points.map((point) => html`<tr key=${point.number}><td>${point.number}</td><td>${when(point.at)}</td><td>${bytes(point.bytes)}</td></tr>`)}</tbody></table></details>` : null}
      <h2>Doctor</h2><${Doctor} />
      <h2>Log</h2><div class="chips"><${Choice} label="Level" options=${LEVELS} value=${level} choose=${(name) => this.setState({ level: name })} /></div>
      <${Log} lines=${found.log.filter((line) => WORSE[level].test(line))} />
    <//>`;
  }
}

/** What is wrong, and a button where there is a cure. */
class Doctor extends Component {
  async ask(method, params, busy) {
    this.setState({ busy, said: "" });
    try {
      const { parts } = await call(method, params), before = method === "doctor.mend" ? this.state.parts : [];
      const found = before.length ? before.map((part) => parts.find((one) => one.name === part.name) || part) : parts;
      this.setState({ parts: found, busy: "", at: Date.now() / 1000 });
    } catch (error) { this.setState({ busy: "", said: error.message }); }
  }
  render(_, { parts, busy, said, at }) {
    const wrong = (parts || []).reduce((sum, part) => sum + part.ailments.filter((one) => !one.hint).length, 0);
    return html`<p class="row"><button type="button" disabled=${Boolean(busy)} onClick=${() => this.ask("doctor.check", {}, "all")}>Look for problems</button>
        <span role="status" class=${wrong ? "warn" : "quiet"}>${busy ? "One moment…" : said ? "" : parts ? (wrong ? plural(wrong, "problem") : "There are no problems") + ", as of " + when(at) : "looks through files, configuration, store, search, memory, plugins and gateway; changes nothing"}</span></p>
      ${said ? html`<p class="warn" role="alert">${said}</p>` : null}
      ${parts ? html`<ul class="plainlist">${parts.map((part) => html`<li key=${part.name} class="card"><div class="row"><b class="grow"><span aria-hidden="true">${part.ailments.some((one) => !one.hint) ? "✗" : part.ailments.length ? "!" : "✓"}</span> ${written(part.name)}</b>
        ${part.ailments.some((one) => one.fixable) ? html`<button type="button" disabled=${Boolean(busy)} onClick=${() => this.ask("doctor.mend", { part: part.name }, part.name)}>${busy === part.name ? "Fixing…" : "Fix it"}</button>` : null}</div>
        ${part.fixed.map((problem) => html`<p class="state-good">fixed: ${written(problem)}</p>`)}
        ${part.ailments.map((one) => html`<p class=${one.hint ? undefined : "warn"}>${written(one.problem)}${one.advice ? html`<br /><span class="quiet">→ ${written(one.advice)}</span>` : null}</p>`)}</li>`)}</ul>` : null}`;
  }
}

/** The last lines; what was logged in a conversation leads to it. */
function Log({ lines }) {
  return html`<pre class="log" tabindex="0" aria-label="Log" role="region">${lines.length ? lines.map((line) => {
    const [, head, id, text] = LINE.exec(line) || [];
    return id ? html`${written(head)} [<${Link} to=${"/c/" + encodeURIComponent(id)}>${id}<//>]: ${written(text)}${"\n"}` : written(line) + "\n";
  }) : "Nothing."}</pre>`;
}
