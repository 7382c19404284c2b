// What turns did to files: with diffs, put back, and undone; of now, or of the moment that is looked at.
import { html, Component } from "./dom.js";
import { call, read } from "./wire.js";
import { Diff } from "./tools.js";
import { plural, when, written } from "./text.js";

const named = (paths) => paths.map((path) => path.split("/").pop()).join(", ");

export default class Files extends Component {
  constructor(props) { super(props); this.state = { found: null, said: "", open: "", diff: "", undo: [] }; }
  componentDidMount() { this.load(); }
  componentDidUpdate(previous) { if (previous.conversation !== this.props.conversation) this.load(); }
  async ask(method, params) { return read(method, { session_id: await this.props.conversation.attach(), ...params }); }
  async load() { try { this.setState({ found: await this.ask("rollback.list", {}) }); } catch (error) { this.setState({ said: error.message }); } }
  async show(hash) {
    if (this.state.open === hash) { this.setState({ open: "" }); return; }
    try { const { diff } = await this.ask("rollback.diff", { hash }); this.setState({ open: hash, diff }); } catch (error) { this.setState({ said: error.message }); }
  }
  restore = async (hash, file) => call("rollback.restore", { session_id: await this.props.conversation.attach(), hash, ...(file ? { file_path: file } : {}) });

  /** Put back what these turns changed, one after the other; what was done can be undone, also if one is refused. */
  async back(hashes, file) {
    const restored = [], lost = [], undo = [];
    let refused = "";
    for (const hash of hashes) {
      try {
        const done = await this.restore(hash, file);
        restored.push(...done.restored);
        lost.push(...done.not_kept);
        if (done.undo) undo.unshift(done.undo);
      } catch (error) { refused = error.message; break; }
    }
    const said = [restored.length ? plural(new Set(restored).size, "file") + " put back: " + named([...new Set(restored)]) + "." : "", lost.length ? "Too large to be kept: " + named(lost) + "." : "", refused].filter(Boolean).join(" ");
    this.setState({ said: said || "Nothing differed.", undo, open: "" });
    await this.load();
  }

  render({ conversation }, { found, said, open, diff, undo }) {
    const past = conversation.past.value, moment = past?.messages.find((message) => message.id === past.at)?.timestamp;
    const after = moment && found ? found.checkpoints.filter((one) => one.at > moment) : [];
    return html`<h2>Files</h2>${said ? html`<p role="status">${written(said)} ${undo.length ? html`<button type="button" onClick=${() => this.back(undo)}>Undo</button>` : null}</p>` : null}
      ${moment && found ? html`<div class="then"><span class="grow">As of ${when(moment)}: ${after.length ? plural(after.length, "change") + " came after it." : "nothing was changed after it."}</span>
        ${after.length ? html`<button type="button" onClick=${() => this.back(after.map((one) => one.hash))}>Put files back to then</button>` : null}</div>` : null}
      ${!found ? html`<p class="quiet">…</p>` : !found.enabled ? html`<p class="quiet">Checkpoints are switched off.</p>` : !found.checkpoints.length ? html`<p class="quiet">No turn has changed a file.</p>`
        : found.checkpoints.map((one) => html`<article class=${"card" + (moment && one.at <= moment ? " before" : "")} key=${one.hash}><p><b>${when(one.at)}</b> <span class="quiet">${one.tools.join(", ")}</span></p>
          <ul class="plainlist">${one.files.map((file) => html`<li key=${file.path} class="row"><code class="grow" title=${file.path}>${written(file.path.split("/").slice(-2).join("/"))}</code><span class="quiet">${file.change}</span><button type="button" aria-label=${"Put back " + file.path} onClick=${() => this.back([one.hash], file.path)}>Put back</button></li>`)}</ul>
          <div class="row"><button type="button" aria-expanded=${open === one.hash ? "true" : "false"} onClick=${() => this.show(one.hash)}>What differs now</button>${one.files.length > 1 ? html`<button type="button" onClick=${() => this.back([one.hash])}>Put all back</button>` : null}</div>
          ${open === one.hash ? (diff.trim() ? html`<${Diff} lines=${diff.split("\n")} />` : html`<p class="quiet">Nothing differs.</p>`) : null}</article>`)}`;
  }
}
