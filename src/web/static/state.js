// How Hermes is: gateway, deliveries, store, backups, log.
import { html, Component } from "./dom.js";
import { call, read } from "./wire.js";
import { bytes, when, written } from "./text.js";

export default class State extends Component {
  constructor(props) { super(props); this.state = { found: null, said: "", level: "", proven: "" }; }
  componentDidMount() { this.load(); this.timer = setInterval(() => this.load(), 10000); }
  componentWillUnmount() { clearInterval(this.timer); }
  async load() { try { this.setState({ found: await read("state.overview"), said: "" }); } catch (error) { this.setState({ said: error.message }); } }
  async prove() {
    this.setState({ proven: "One moment: the newest point is restored aside…" });
    try {
      const proof = await call("backup.verify");
      this.setState({ proven: proof.damage || "Point " + proof.number + " was restored aside: " + proof.messages + " messages, all is there." });
    } catch (error) { this.setState({ proven: error.message }); }
  }
  render(_, { found, said, level, proven }) {
    if (!found) return html`<section class="page"><div class="inner"><h1>State</h1><p class="quiet">${said || "…"}</p></div></section>`;
    const { gateway, store, backups } = found;
    const last = backups[backups.length - 1];
    const lines = found.log.filter((line) => !level || line.includes(" " + level + " "));
    return html`<section class="page"><div class="inner"><h1>State</h1>${said ? html`<p class="warn" role="alert">${said}</p>` : null}
      <div class="tiles">
        <div class="card tile"><span class="quiet">Gateway</span><b>${written(gateway.state || gateway.gateway_state || "?")}</b>${Object.entries(gateway.platforms || {}).map(([name, facts]) => html`<div key=${name}>${written(name)}: ${written(typeof facts === "string" ? facts : facts?.state || "")}</div>`)}</div>
        <div class="card tile"><span class="quiet">Waiting to begin</span><b>${found.waiting}</b></div>
        <div class="card tile"><span class="quiet">Owed to chats</span><b>${found.owed}</b>${found.may_be_missing ? html`<span class="warn">${found.may_be_missing} may be missing</span>` : null}</div>
        <div class="card tile"><span class="quiet">Store</span><b>${bytes(store.bytes)}</b>${store.conversations} conversations · ${store.messages} messages</div>
        <div class="card tile"><span class="quiet">Newest backup point</span><b>${last ? when(last.at) : "none"}</b><button type="button" onClick=${() => this.prove()}>Prove now</button>${proven ? html`<span role="status">${proven}</span>` : null}</div>
        <div class="card tile"><span class="quiet">Version</span><b>${found.version}</b></div>
      </div>
      <h2>Log</h2><div class="chips" role="group" aria-label="Level">${["", "WARNING", "ERROR"].map((name) => html`<button type="button" key=${name} aria-pressed=${level === name ? "true" : "false"} onClick=${() => this.setState({ level: name })}>${name || "All"}</button>`)}</div>
      <pre class="log" tabindex="0">${lines.length ? lines.map(written).join("\n") : "Nothing."}</pre>
    </div></section>`;
  }
}
