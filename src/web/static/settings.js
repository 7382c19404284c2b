// This browser, other browsers, what the next conversation begins with, and the configuration to read.
import { html, Component } from "./dom.js";
import { call, forgetKey, read } from "./wire.js";
import { nextChoices } from "./conversations.js";
import { plural, when, written } from "./text.js";
import { Choice, Link, Page } from "./page.js";
import { linksFor } from "./sidebar.js";
import { me, theme } from "./app.js";

const MODES = [["", "do as configured"], ["plan", "only look and plan"], ["guarded", "work within its folder"], ["full", "do everything"]];
const EFFORTS = ["", "low", "medium", "high"];

export default class Settings extends Component {
  constructor(props) { super(props); this.state = { devices: [], models: [], toolsets: [], said: "", code: null, naming: "", enter: localStorage.getItem("hermes.enter") || "enter", next: nextChoices() }; }
  componentDidMount() {
    this.load();
    read("model.options", { include_unconfigured: false }).then((found) => this.setState({ models: found.providers.flatMap((provider) => provider.models.map((model) => ({ provider: provider.slug, name: model.name }))), now: found.model }), () => {});
    read("toolsets.list").then(({ toolsets }) => this.setState({ toolsets }), () => {});
  }
  async load() { try { this.setState({ devices: (await read("device.list")).devices, said: "" }); } catch (error) { this.setState({ said: error.message }); } }
  async act(method, params) { try { const result = await call(method, params); await this.load(); return result; } catch (error) { this.setState({ said: error.message }); return null; } }
  choose(change) {
    const next = { ...this.state.next, ...change };
    for (const name of Object.keys(next)) if (!next[name]) delete next[name];
    localStorage.setItem("hermes.next", JSON.stringify(next));
    this.setState({ next });
  }
  async switchTools(name, wanted) {
    try {
      await call("tools.configure", { action: wanted ? "enable" : "disable", names: [name] });
      this.setState({ toolsets: (await read("toolsets.list")).toolsets, said: "" });
    } catch (error) { this.setState({ said: error.message }); }
  }

  render(_, { devices, models, toolsets, said, code, naming, enter, next, now }) {
    const isOperator = me.value?.role === "operator", isReader = me.value?.scope === "read";
    return html`<${Page} title="Settings" said=${said}>
      <p class="quiet">${me.value ? "You are " + me.value.person + (isOperator ? ", the operator." : ".") : ""}${me.value ? " Hermes " + me.value.version + "." : ""}</p>
      <nav class="tabs only-phone" aria-label="More pages">${linksFor(me.value).map(([address, name, glyph]) => html`<${Link} key=${address} to=${address}><span aria-hidden="true">${glyph}</span> ${name}<//>`)}</nav>
      <h2>This browser</h2>
      <div class="chips"><${Choice} label="Theme" options=${["system", "light", "dark"].map((name) => [name, name])} value=${theme.value} choose=${(name) => { theme.value = name; }} />
        <${Choice} label="Which key sends" options=${[["enter", "Enter sends"], ["ctrl", "Ctrl-Enter sends"]]} value=${enter} choose=${(name) => { localStorage.setItem("hermes.enter", name); this.setState({ enter: name }); }} /></div>
      ${isReader ? null : html`<h2>The next conversation</h2><p class="quiet">Chosen for what is begun in this browser; a conversation that has begun keeps what it has.</p>
      <div class="fields"><label>Model <select value=${next.model || ""} onChange=${(event) => { const chosen = models.find((one) => one.name === event.target.value); this.choose({ model: chosen?.name || "", provider: chosen?.provider || "" }); }}><option value="">${now ? "as configured: " + now : "as configured"}</option>${models.map((one) => html`<option key=${one.provider + one.name} value=${one.name}>${one.name}</option>`)}</select></label>
        <label>It thinks <select value=${next.reasoning_effort || ""} onChange=${(event) => this.choose({ reasoning_effort: event.target.value })}>${EFFORTS.map((name) => html`<option key=${name} value=${name}>${name || "as configured"}</option>`)}</select></label>
        <label>It may <select value=${next.mode || ""} onChange=${(event) => this.choose({ mode: event.target.value })}>${MODES.map(([name, words]) => html`<option key=${name} value=${name}>${words}</option>`)}</select></label></div>`}
      <details class="tools-choice"><summary>Its tools: ${toolsets.filter((group) => group.enabled).length} of ${plural(toolsets.length, "group")}</summary>
        <p class="quiet">${isOperator ? "This is for everybody's conversations that begin from now on." : "The operator chooses them."}</p>
        <ul class="plainlist columns">${toolsets.map((group) => html`<li key=${group.name}><label title=${group.tools.map((tool) => tool.name).join(", ")}><input type="checkbox" checked=${group.enabled} disabled=${!isOperator}
          onChange=${(event) => this.switchTools(group.name, event.target.checked)} /> ${written(group.name)} <span class="quiet">${plural(group.tool_count, "tool")}</span></label></li>`)}</ul></details>
      <h2>Browsers that may come in</h2>
      <ul class="plainlist">${devices.map((device) => html`<li key=${device.id} class="card row">${naming === device.id
        ? html`<form class="row grow" onSubmit=${(event) => { event.preventDefault(); const name = event.target.elements[0].value; this.setState({ naming: "" }); this.act("device.rename", { device_id: device.id, name }); }}><input class="grow" aria-label="Name of the browser" defaultValue=${device.name} /><button type="submit">Keep</button></form>`
        : html`<span class="grow"><b>${written(device.name)}</b>${device.current ? " (this one)" : ""}<br /><span class="quiet">${isOperator ? written(device.person) + " · " : ""}${device.scope === "read" ? "may only look · " : ""}${device.used_at ? "last here " + when(device.used_at) : "never here"}</span></span>
          ${isReader ? null : html`<button type="button" onClick=${() => this.setState({ naming: device.id })}>Rename</button>
          <button type="button" class="deny" onClick=${async () => { const done = await this.act("device.revoke", { device_id: device.id }); if (done && device.current) { forgetKey(); location.replace("/enter"); } }}>Revoke</button>`}`}</li>`)}</ul>
      ${isReader ? null : html`<div class="row">${[["full", "A code for another device"], ["read", "A code for one that may only look"]].map(([scope, words]) => html`<button type="button" key=${scope} onClick=${async () => { const offered = await this.act("device.code", { scope }); if (offered) this.setState({ code: offered.code }); }}>${words}</button>`)}</div>
      ${code ? html`<p role="status">Open <b>${location.host}/enter</b> there and type <b class="code">${code}</b> within ten minutes.</p>` : null}`}
      ${isOperator ? html`<${Configuration} />` : null}<//>`;
  }
}

/** Every key with its value; config.yaml stays the place where it is changed. */
class Configuration extends Component {
  async load(event) {
    if (!event.target.open || this.state.sections) return;
    try { this.setState(await read("config.show")); } catch (error) { this.setState({ said: error.message }); }
  }
  render(_, { sections, said, words = "" }) {
    const wanted = words.toLowerCase();
    const rows = (sections || []).flatMap((section) => section.rows).filter((row) => !wanted || (row.key + " " + row.help).toLowerCase().includes(wanted));
    const value = (row) => (row.secret ? "hidden" : typeof row.value === "string" ? row.value : JSON.stringify(row.value));
    return html`<h2>Configuration</h2><details onToggle=${(event) => this.load(event)}><summary>Every key, its value and what it is for</summary>
      ${said ? html`<p class="warn">${said}</p>` : null}<p class="quiet">Changed in <code>config.yaml</code>, or with <code>hermes config set</code>.</p>
      <input type="search" aria-label="Find a key" placeholder="Find a key" value=${words} onInput=${(event) => this.setState({ words: event.target.value })} />
      ${sections ? html`<div class="wide" tabindex="0" role="region" aria-label="Configuration"><table><thead><tr><th scope="col">Key</th><th scope="col">Value</th><th scope="col">What it is for</th></tr></thead>
        <tbody>${rows.map((row) => html`<tr key=${row.key}><td><code>${row.key}</code></td><td class=${row.changed ? undefined : "quiet"}>${written(value(row) ?? "")}</td><td>${row.help}</td></tr>`)}</tbody></table></div>` : html`<p class="quiet">…</p>`}</details>`;
  }
}
