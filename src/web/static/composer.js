// Where one types: a draft that is kept, files, commands, and what a message does to a running turn.
import { html, Component, createRef } from "./dom.js";
import { call, read, link } from "./wire.js";
import { draft, keepDraft, send } from "./outbox.js";
import { bytes } from "./text.js";

const DOES = { __proto__: null, interrupt: "stops the answer and is answered instead", steer: "is read by the answer that is being made", queue: "is answered next" };
const base64 = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(String(reader.result));
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});

export class Composer extends Component {
  constructor(props) {
    super(props);
    this.box = createRef();
    this.files = createRef();
    this.state = { text: draft(props.conversation.key.value), busy: "", items: null, at: 0, attached: [], said: "" };
  }
  componentDidMount() { this.grow(); if (matchMedia("(pointer: fine)").matches) this.box.current.focus({ preventScroll: true }); }
  componentDidUpdate(previous) {
    if (previous.conversation !== this.props.conversation) this.setState({ text: draft(this.props.conversation.key.value), attached: [], items: null }, () => this.grow());
  }
  grow() {
    const box = this.box.current;
    if (!box || CSS.supports("field-sizing", "content")) return;
    box.style.height = "auto";
    box.style.height = Math.min(box.scrollHeight, innerHeight * 0.4) + "px";
  }
  typed(text) {
    this.setState({ text });
    keepDraft(this.props.conversation.key.value, text);
    this.grow();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.complete(text), 60);
  }
  put(text) { this.typed(text); this.box.current.focus(); }

  async complete(text) {
    const box = this.box.current;
    if (!box || link.value !== "online") return;
    const before = text.slice(0, box.selectionStart);
    const word = /(?:^|\s)(@\S*)$/.exec(before);
    let items = null, from = 0;
    const sid = this.props.conversation.sid || undefined;
    try {
      if (/^\/\S*$/.test(text)) { const found = await read("complete.slash", { text, session_id: sid }); items = found.items; from = found.replace_from; }
      else if (word && word[1].length > 1) { const found = await read("complete.path", { word: word[1], session_id: sid }); items = found.items; from = before.length - word[1].length; }
    } catch { items = null; }
    if (this.state.text === text) this.setState({ items: items?.length ? items.slice(0, 8) : null, from, at: 0 });
  }
  take(item) {
    const { text, from } = this.state, end = this.box.current.selectionStart;
    this.setState({ items: null });
    this.put(text.slice(0, from) + item.text + text.slice(end));
  }

  key(event) {
    const { items, at } = this.state;
    if (items) {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); this.setState({ at: (at + (event.key === "ArrowDown" ? 1 : items.length - 1)) % items.length }); return; }
      if (event.key === "Tab" || (event.key === "Enter" && this.state.text !== items[at].text)) { event.preventDefault(); this.take(items[at]); return; }
      if (event.key === "Escape") { this.setState({ items: null }); event.stopPropagation(); return; }
    }
    const wants = localStorage.getItem("hermes.enter") === "ctrl" ? event.ctrlKey || event.metaKey : !event.shiftKey;
    const isPhone = matchMedia("(pointer: coarse)").matches && !event.ctrlKey;
    if (event.key === "Enter" && wants && !isPhone && !event.isComposing) { event.preventDefault(); this.send(); }
  }

  async send() {
    const { conversation } = this.props;
    const { text, busy, attached } = this.state;
    if (!text.trim() && !attached.length) return;
    this.setState({ text: "", items: null, attached: [], said: "" }, () => this.grow());
    keepDraft(conversation.key.value, "");
    if (/^\/[a-z]/i.test(text) && link.value === "online") { await this.command(text); return; }
    this.props.onSend?.();
    send(conversation.key.value, text || " ", conversation.state.value?.running ? busy : "");
  }

  async command(line) {
    const { conversation } = this.props;
    try {
      const sid = await conversation.attach();
      const result = await call("slash.exec", { session_id: sid, command: line });
      if (result.type === "send" || result.type === "skill") send(conversation.key.value, typeof result.message === "string" ? result.message : line);
      else if (result.type === "prefill") this.put(String(result.message || ""));
      this.setState({ said: result.output || result.notice || "" });
    } catch (error) { this.setState({ said: error.message }); if (!error.cut) this.put(line); }
  }

  async attach(files) {
    if (link.value === "connecting") await read("hello"); // which is asked once there is a connection
    for (const file of files) {
      try {
        const sid = await this.props.conversation.attach();
        const data = await base64(file);
        if (/^image\/(png|jpeg|gif|webp)$/.test(file.type)) {
          const kept = await call("image.attach_bytes", { session_id: sid, data, filename: file.name });
          this.setState(({ attached }) => ({ attached: [...attached, { name: file.name || "picture", path: kept.path, size: file.size, picture: data }] }));
        } else {
          const kept = await call(file.type === "application/pdf" ? "pdf.attach" : "file.attach", { session_id: sid, ...(file.type === "application/pdf" ? { data, filename: file.name } : { data_url: data, name: file.name }) });
          this.put((this.state.text ? this.state.text + "\n" : "") + (kept.ref_text || kept.text));
        }
        this.setState({ said: "" });
      } catch (error) { this.setState({ said: (file.name || "The file") + ": " + error.message }); }
    }
  }
  async detach(kept) {
    this.setState(({ attached }) => ({ attached: attached.filter((one) => one !== kept) }));
    try { await call("image.detach", { session_id: await this.props.conversation.attach(), path: kept.path }); } catch (error) { this.setState({ said: error.message }); }
  }
  pasted(event) {
    const files = [...(event.clipboardData?.files || [])];
    if (files.length) { event.preventDefault(); this.attach(files); }
  }

  render({ conversation, readOnly }, { text, items, at, busy, attached, said }) {
    const state = conversation.state.value, running = Boolean(state?.running);
    const stop = async () => { try { await call("session.interrupt", { session_id: conversation.sid }); } catch (error) { this.setState({ said: error.message }); } };
    return html`<form class="composer" aria-label="Message" onSubmit=${(event) => { event.preventDefault(); this.send(); }}
        onDragOver=${(event) => event.preventDefault()} onDrop=${(event) => { event.preventDefault(); this.attach([...event.dataTransfer.files]); }}>
      ${said ? html`<pre class="said" role="status" tabindex="0">${said}<button type="button" class="plain" aria-label="Close" onClick=${() => this.setState({ said: "" })}>✕</button></pre>` : null}
      ${items ? html`<ul class="items" role="listbox" id="items" aria-label="Completions">${items.map((item, number) => html`<li role="option" key=${item.text} id=${"item-" + number}
        aria-selected=${number === at ? "true" : "false"} onMouseDown=${(event) => { event.preventDefault(); this.take(item); }}><b>${item.display || item.text}</b> <span class="quiet">${item.meta}</span></li>`)}</ul>` : null}
      ${attached.length ? html`<ul class="attached" aria-label="Attached">${attached.map((kept) => html`<li key=${kept.path}>${kept.picture ? html`<img src=${kept.picture} alt="" />` : null}<span>${kept.name} · ${bytes(kept.size)}</span>
        <button type="button" class="plain" aria-label=${"Leave out " + kept.name} onClick=${() => this.detach(kept)}>✕</button></li>`)}</ul>` : null}
      <textarea ref=${this.box} rows="1" aria-label="Your message" placeholder=${readOnly ? "This device may only look" : "Message"} disabled=${readOnly} value=${text}
        aria-autocomplete="list" aria-controls=${items ? "items" : undefined} aria-activedescendant=${items ? "item-" + at : undefined}
        onInput=${(event) => this.typed(event.target.value)} onKeyDown=${(event) => this.key(event)} onPaste=${(event) => this.pasted(event)} data-composer></textarea>
      <div class="row">
        <input type="file" multiple hidden ref=${this.files} onChange=${(event) => { this.attach([...event.target.files]); event.target.value = ""; }} />
        <button type="button" class="plain" aria-label="Attach files" disabled=${readOnly} onClick=${() => this.files.current.click()}>+</button>
        ${running && text.trim() ? html`<fieldset class="busy"><legend class="sr">What this message does</legend>${Object.entries(DOES).map(([mode, what]) => html`<label key=${mode} title=${what}><input type="radio" name="busy"
          checked=${(busy || "") === mode} onChange=${() => this.setState({ busy: mode })} />${mode === "interrupt" ? "Interrupt" : mode === "steer" ? "Steer" : "Wait"}</label>`)}</fieldset>` : html`<span class="grow"></span>`}
        ${running ? html`<button type="button" class="stop" onClick=${stop}>Stop</button>` : null}
        <button type="submit" class="main" disabled=${readOnly || (!text.trim() && !attached.length)}>Send</button>
      </div>
    </form>`;
  }
}
