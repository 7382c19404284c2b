// What turns did to files: with diffs, put back, and undone.
import { html, Component } from "./dom.js";
import { call, read } from "./wire.js";
import { Diff } from "./tools.js";
import { when, written } from "./text.js";

export default class Files extends Component {
  constructor(props) { super(props); this.state = { found: null, said: "", open: "", diff: "", undo: "" }; }
  componentDidMount() { this.load(); }
  async load() { try { this.setState({ found: await read("rollback.list", { session_id: await this.props.conversation.attach() }) }); } catch (error) { this.setState({ said: error.message }); } }
  async show(hash) {
    if (this.state.open === hash) { this.setState({ open: "" }); return; }
    try { const { diff } = await read("rollback.diff", { session_id: await this.props.conversation.attach(), hash }); this.setState({ open: hash, diff }); } catch (error) { this.setState({ said: error.message }); }
  }
  async back(hash, file) {
    try {
      const done = await call("rollback.restore", { session_id: await this.props.conversation.attach(), hash, ...(file ? { file_path: file } : {}) });
      this.setState({ said: done.restored.length + " put back." + (done.not_kept.length ? " Too large to be kept: " + done.not_kept.join(", ") : ""), undo: done.undo || "" });
      await this.load();
    } catch (error) { this.setState({ said: error.message }); }
  }
  render(_, { found, said, open, diff, undo }) {
    return html`<h2>Files</h2>${said ? html`<p role="status">${written(said)} ${undo ? html`<button type="button" onClick=${() => { this.setState({ undo: "" }); this.back(undo); }}>Undo</button>` : null}</p>` : null}
      ${!found ? html`<p class="quiet">…</p>` : !found.enabled ? html`<p class="quiet">Checkpoints are switched off.</p>` : !found.checkpoints.length ? html`<p class="quiet">No turn has changed a file.</p>`
        : found.checkpoints.map((one) => html`<article class="card" key=${one.hash}><p><b>${when(one.at)}</b> <span class="quiet">${one.tools.join(", ")}</span></p>
          <ul class="plainlist">${one.files.map((file) => html`<li key=${file.path} class="row"><code class="grow">${written(file.path)}</code><span class="quiet">${file.change}</span><button type="button" onClick=${() => this.back(one.hash, file.path)}>Put back</button></li>`)}</ul>
          <div class="row"><button type="button" aria-expanded=${open === one.hash ? "true" : "false"} onClick=${() => this.show(one.hash)}>What differs now</button><button type="button" onClick=${() => this.back(one.hash)}>Put all back</button></div>
          ${open === one.hash ? html`<${Diff} lines=${diff.split("\n")} />` : null}</article>`)}`;
  }
}
