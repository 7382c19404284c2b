// This browser, other browsers, and what the next conversation begins with.
import { html, Component } from "./dom.js";
import { call, forgetKey, read } from "./wire.js";
import { nextChoices } from "./conversations.js";
import { when, written } from "./text.js";
import { me, theme, go } from "./app.js";

export default class Settings extends Component {
  constructor(props) { super(props); this.state = { devices: [], models: [], said: "", code: "", enter: localStorage.getItem("hermes.enter") || "enter", next: nextChoices() }; }
  componentDidMount() { this.load(); read("model.options", { include_unconfigured: false }).then((found) => this.setState({ models: found.providers.flatMap((provider) => provider.models.map((model) => ({ provider: provider.slug, name: model.name }))), now: found.model }), () => {}); }
  async load() { try { this.setState({ devices: (await read("device.list")).devices, said: "" }); } catch (error) { this.setState({ said: error.message }); } }
  async act(method, params) { try { const result = await call(method, params); await this.load(); return result; } catch (error) { this.setState({ said: error.message }); return null; } }
  choose(change) { const next = { ...this.state.next, ...change }; for (const name of Object.keys(next)) if (!next[name]) delete next[name]; localStorage.setItem("hermes.next", JSON.stringify(next)); this.setState({ next }); }
  render(_, { devices, models, said, code, enter, next, now }) {
    return html`<section class="page"><div class="inner"><h1>Settings</h1>${said ? html`<p class="warn" role="alert">${said}</p>` : null}
      <p class="quiet">${me.value ? "You are " + me.value.person + (me.value.role === "operator" ? ", the operator" : "") + ". Memory and skills are shared by everybody who uses this Hermes." : ""}</p>
      <nav class="row" aria-label="More pages">${[["/usage", "Usage"], ["/state", "State"], ["/find", "Find"], ["/inbox", "Inbox"]].map(([address, name]) => html`<a key=${address} href=${address} onClick=${(event) => { event.preventDefault(); go(address); }}>${name}</a>`)}</nav>
      <h2>Look</h2><div class="chips" role="group" aria-label="Theme">${["system", "light", "dark"].map((name) => html`<button type="button" key=${name} aria-pressed=${theme.value === name ? "true" : "false"} onClick=${() => { theme.value = name; }}>${name}</button>`)}</div>
      <h2>Sending</h2><div class="chips" role="group" aria-label="Which key sends">${[["enter", "Enter sends"], ["ctrl", "Ctrl-Enter sends"]].map(([name, label]) => html`<button type="button" key=${name} aria-pressed=${enter === name ? "true" : "false"} onClick=${() => { localStorage.setItem("hermes.enter", name); this.setState({ enter: name }); }}>${label}</button>`)}</div>
      <h2>The next conversation</h2><div class="row"><label>Model <select value=${next.model || ""} onChange=${(event) => { const chosen = models.find((one) => one.name === event.target.value); this.choose({ model: chosen?.name || "", provider: chosen?.provider || "" }); }}><option value="">${now ? "as configured: " + now : "as configured"}</option>${models.map((one) => html`<option key=${one.provider + one.name} value=${one.name}>${one.name}</option>`)}</select></label>
        <label>It may <select value=${next.mode || ""} onChange=${(event) => this.choose({ mode: event.target.value })}><option value="">do as configured</option><option value="plan">only look and plan</option><option value="guarded">work within its folder</option><option value="full">do everything</option></select></label></div>
      <h2>Browsers</h2><ul class="plainlist">${devices.map((device) => html`<li key=${device.id} class="card row"><span class="grow"><b>${written(device.name)}</b>${device.current ? " (this one)" : ""} <span class="quiet">${written(device.person)} · ${device.scope === "read" ? "may only look" : ""} ${device.used_at ? "last here " + when(device.used_at) : ""}</span></span>
        <button type="button" class="deny" onClick=${async () => { const done = await this.act("device.revoke", { device_id: device.id }); if (done && device.current) { forgetKey(); location.replace("/enter"); } }}>Revoke</button></li>`)}</ul>
      <div class="row"><button type="button" onClick=${async () => { const offered = await this.act("device.code", {}); if (offered) this.setState({ code: offered.code }); }}>A code for another device</button>${code ? html`<output role="status">Open ${location.host} there and type <b>${code}</b> within ten minutes.</output>` : null}</div>
    </div></section>`;
  }
}
