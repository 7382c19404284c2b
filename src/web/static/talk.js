// A conversation: its transcript, drawn in pieces of which only those in view are elements, and what is typed below.
import { html, Component, createRef, Fragment } from "./dom.js";
import { Markdown } from "./markdown.js";
import { Tools } from "./tools.js";
import { Questions } from "./questions.js";
import { Composer } from "./composer.js";
import { outbox, again, drop } from "./outbox.js";
import { rowsOf } from "./reduce.js";
import { call, read } from "./wire.js";
import { clock, dayKey, dayName, picturesOf, plural, short, textOf, when, written } from "./text.js";
import { go, me } from "./app.js";

const CHUNK = 30, MARGIN = 1600, NEAR_TOP = 900, NEAR_END = 60;

/** Rows in pieces that stay the same when rows come before or after them. */
function chunksOf(rows, breaks) {
  const chunks = [];
  let chunk = null;
  for (const row of rows) {
    const id = row.message?.id;
    if (!chunk || chunk.rows.length >= CHUNK || (id != null && breaks.has(id) && chunk.rows.length)) {
      chunk = { key: id != null ? "m" + id : "r" + row.at, rows: [] };
      chunks.push(chunk);
    }
    chunk.rows.push(row);
  }
  return chunks;
}

/** A piece of the transcript: its rows while it is in view, a gap of the same height otherwise. */
class Chunk extends Component {
  constructor(props) { super(props); this.box = createRef(); this.state = { shown: true }; this.height = 0; }
  componentDidMount() { this.props.watch(this.box.current, this); }
  componentWillUnmount() { this.props.unwatch(this.box.current); }
  see(shown, height) { if (!shown) this.height = height; if (shown !== this.state.shown) this.setState({ shown }); }
  shouldComponentUpdate(next, state) {
    if (state.shown !== this.state.shown) return true;
    if (!state.shown) return false;
    return next.live || this.props.live || next.at !== this.props.at || next.rows.length !== this.props.rows.length
      || next.rows.some((row, at) => row.message !== this.props.rows[at].message || row.calls?.length !== this.props.rows[at].calls?.length || row.calls?.some((call, n) => call.done !== this.props.rows[at].calls[n].done));
  }
  render({ rows, at, live, actions, day }, { shown }) {
    return html`<div class="chunk" ref=${this.box} style=${shown ? null : { height: this.height + "px" }}>${shown ? rows.map((row, number) =>
      html`<${Row} key=${row.message?.id ?? "r" + row.at} row=${row} day=${number ? dayOf(rows[number - 1]) : day} at=${at} live=${live} actions=${actions} />`) : null}</div>`;
  }
}
const dayOf = (row) => (row?.message?.timestamp ? dayKey(row.message.timestamp) : "");

/** One row; what cannot be drawn, however it was made, takes nothing else with it. */
class Row extends Component {
 componentDidCatch(error) { this.setState({ broken: String(error?.message || error) }); }
 render({ row, day, at, live, actions }, { broken }) {
  if (broken) return html`<p class="warn">This cannot be shown: ${broken}</p>`;
  const { message } = row, time = message.timestamp;
  const marks = message.id != null && message.id === at ? " here" : "";
  const isNewDay = time && dayKey(time) !== day;
  return html`<${Fragment}>${isNewDay ? html`<h2 class="day">${dayName(time)}</h2>` : null}${
    row.kind === "tools" ? html`<div class=${"row-tools" + marks} id=${message.id != null ? "m" + message.id : undefined}><${Tools} calls=${row.calls} live=${live} /></div>`
    : row.kind === "note" ? html`<${Record} message=${message} marks=${marks} />`
    : html`<article class=${"said " + row.kind + marks + (message.undone ? " undone" : "")} id=${message.id != null ? "m" + message.id : undefined} aria-label=${row.kind === "user" ? "You" : "Hermes"}>
        ${message.reasoning ? html`<details class="reasoning"><summary>Reasoning</summary><pre tabindex="0">${textOf(message.reasoning)}</pre></details>` : null}
        ${picturesOf(message.content).map((url) => html`<img class="picture" src=${url} alt="Attached picture" loading="lazy" />`)}
        ${row.kind === "user" ? html`<p class="own">${textOf(message.content)}</p>` : html`<${Markdown} text=${textOf(message.content)} open=${false} />`}
        <${Marks} message=${message} kind=${row.kind} actions=${actions} />
      </article>`}<//>`;
 }
}

/** What can be done with a message; seen when it is pointed at or has the focus. */
function Marks({ message, kind, actions }) {
  return html`<div class="marks"><span class="quiet">${message.timestamp ? clock(message.timestamp) : ""}${message.steered ? " · added to the running answer" : ""}${message.undone ? " · taken back" : ""}</span>
    <button type="button" onClick=${() => navigator.clipboard?.writeText(textOf(message.content))}>Copy</button>
    ${message.id != null && actions ? html`<button type="button" onClick=${() => actions.branch(message)}>Branch from here</button>
      ${kind === "user" && !message.undone ? html`<button type="button" onClick=${() => actions.edit(message)}>Edit</button>` : null}
      <a href=${actions.address(message)} onClick=${(event) => { event.preventDefault(); go(actions.address(message)); }}>Link</a>` : null}</div>`;
}

/** Where a conversation was compressed: the record that stands for what came before. */
class Record extends Component {
  render({ message, marks }, { open }) {
    const text = textOf(message.content);
    const name = { __proto__: null, compression: "Here the conversation was compressed", background: "Something that ran beside it has ended" }[message.note] || "A note";
    return html`<section class=${"record" + marks} id=${message.id != null ? "m" + message.id : undefined}><button type="button" aria-expanded=${open ? "true" : "false"} onClick=${() => this.setState({ open: !open })}>
      ${name} · ${message.note === "compression" ? "a record of " + plural(text.length, "character") : plural(text.length, "character")}</button>${open ? html`<${Markdown} text=${text} open=${false} />` : null}</section>`;
  }
}

export class Talk extends Component {
  constructor(props) {
    super(props);
    this.scroller = createRef();
    this.end = createRef();
    this.chunks = new Map();
    this.stuck = true;
    this.state = { unseen: 0, title: null, said: "", panel: null };
    this.actions = {
      branch: (message) => this.branch(message),
      edit: (message) => this.edit(message),
      address: (message) => "/c/" + encodeURIComponent(this.props.conversation.key.value) + "?at=" + message.id,
    };
    this.watch = (box, chunk) => { this.chunks.set(box, chunk); this.observer?.observe(box); };
    this.unwatch = (box) => { this.chunks.delete(box); this.observer?.unobserve(box); };
  }
  componentDidMount() {
    this.observer = new IntersectionObserver((entries) => {
      for (const entry of entries) this.chunks.get(entry.target)?.see(entry.isIntersecting, entry.boundingClientRect.height);
    }, { root: this.scroller.current, rootMargin: MARGIN + "px 0px" });
    for (const box of this.chunks.keys()) this.observer.observe(box);
    this.open();
    this.toEnd();
  }
  componentWillUnmount() { this.observer.disconnect(); }
  /** Where the first message is, if others have just been put before it. */
  getSnapshotBeforeUpdate() {
    const { past, state } = this.props.conversation, box = this.scroller.current;
    const first = (past.value || state.value)?.messages[0]?.id;
    const isEarlier = this.first != null && first < this.first;
    this.first = first;
    return isEarlier && box ? { below: box.scrollHeight - box.scrollTop, top: box.scrollTop } : null;
  }
  componentDidUpdate(previous, _, before) {
    if (before) {
      // A browser holds what is in view where it is, but not at the very top, and not every browser.
      const box = this.scroller.current;
      if (before.top < 1 || !CSS.supports("overflow-anchor", "auto")) box.scrollTop = box.scrollHeight - before.below;
      if (box.scrollTop < NEAR_TOP) setTimeout(() => this.scrolled());
    }
    if (previous.conversation !== this.props.conversation || previous.at !== this.props.at) { this.setState({ said: "", title: null, unseen: 0 }); this.stuck = true; this.open(); }
    const past = this.props.conversation.past.value;
    if (past) { if (this.goal !== past.at) { this.goal = past.at; this.scrollTo(past.at); } }
    else { this.goal = null; if (this.stuck) this.toEnd(); }
  }
  async open() {
    const { conversation, at } = this.props;
    if (!conversation.isNew) conversation.attach().catch(() => {});
    if (at) conversation.goTo(Number(at)).catch((error) => this.setState({ said: error.message }));
    else if (conversation.past.value && !conversation.past.value.frame) conversation.now();
  }
  toEnd() { const box = this.scroller.current; if (box) box.scrollTop = box.scrollHeight; }
  scrollTo(id) { requestAnimationFrame(() => document.getElementById("m" + id)?.scrollIntoView({ block: "center" })); }
  scrolled() {
    const box = this.scroller.current;
    if (!box) return;
    const left = box.scrollHeight - box.scrollTop - box.clientHeight;
    this.stuck = left < NEAR_END;
    if (this.stuck && this.state.unseen) this.setState({ unseen: 0 });
    if (box.scrollTop < NEAR_TOP) this.props.conversation.older();
    if (left < NEAR_TOP) this.props.conversation.newer();
  }

  async branch(message) {
    try {
      const sid = await this.props.conversation.attach();
      const made = await call("session.branch", { session_id: sid, until_message_id: message.id });
      go("/c/" + encodeURIComponent(made.stored_session_id));
    } catch (error) { this.setState({ said: error.message }); }
  }
  async edit(message) {
    const { conversation } = this.props;
    const said = conversation.state.value.messages.filter((one) => one.role === "user" && !one.note && one.id >= message.id).length;
    try {
      const undone = await call("session.undo", { session_id: await conversation.attach(), count: said });
      await conversation.refresh();
      this.composer?.put(textOf(undone.text));
    } catch (error) { this.setState({ said: error.message }); }
  }
  async rename(title) {
    this.setState({ title: null });
    const { conversation } = this.props;
    if (!title.trim() || title === conversation.state.value?.info.title) return;
    try { await call("session.title", { session_id: await conversation.attach(), title }); const state = conversation.state.value; conversation.state.value = { ...state, info: { ...state.info, title } }; } catch (error) { this.setState({ said: error.message }); }
  }

  render({ conversation, panel }, { said, title }) {
    const state = conversation.state.value, past = conversation.past.value, shown = past || state;
    const key = conversation.key.value, mine = outbox.value.filter((entry) => entry.key === key);
    // What was sent and not answered for may be among the stored messages already.
    const unsent = mine.filter((entry) => !entry.doubt || entry.failed).filter((entry) => !state?.waiting.some((one) => one.message_id === entry.id));
    const rows = shown ? rowsOf(shown.messages, shown.runs || {}) : [];
    const chunks = chunksOf(rows, conversation.breaks);
    const info = state?.info, stream = !past && state?.stream;
    const isEmpty = !rows.length && !unsent.length && !stream && !state?.waiting.length;
    const isGone = !state && !conversation.isNew && Boolean(conversation.error.value);
    const name = isGone ? "Not here" : info?.title || (isEmpty ? "New conversation" : "Conversation");
    const base = "/c/" + encodeURIComponent(key), then = past && this.props.at ? "?at=" + past.at : "";
    return html`<section class="talk" aria-label="Conversation">
      <header class="bar">
        ${title === null ? html`<h1><button type="button" class="plain" title="Rename" onClick=${() => this.setState({ title: info?.title || "" })}>${written(name)}</button></h1>`
          : html`<form class="grow" onSubmit=${(event) => { event.preventDefault(); this.rename(title); }}><input aria-label="Title" value=${title} ref=${(field) => field?.focus()} onBlur=${() => this.setState({ title: null })}
            onInput=${(event) => this.setState({ title: event.target.value })} /></form>`}
        ${info ? html`<span class="quiet facts">${info.model}${info.usage?.context_percent ? html` · ${Math.round(info.usage.context_percent)} %` : null}</span>` : null}
        ${conversation.isNew || isGone ? null : html`<nav aria-label="This conversation">${[["history", "History"], ["turn", "Turns"], ["files", "Files"]].map(([page, label]) =>
          html`<a href=${base + "/" + page} aria-current=${panel === page ? "page" : undefined} onClick=${(event) => { event.preventDefault(); go((panel === page ? base : base + "/" + page) + then); }}>${label}</a>`)}</nav>`}
      </header>
      ${past ? html`<div class="then" role="status"><span>${past.frame || "This is how it was" + (whenOf(past) ? " on " + whenOf(past) : "")}.</span>
        ${["said", "sent"].map((view) => html`<button type="button" key=${view} aria-pressed=${past.view === view ? "true" : "false"} onClick=${() => conversation.goTo(past.at, view, past.frame).catch((error) => this.setState({ said: error.message }))}>${view === "said" ? "As said" : "As sent to the model"}</button>`)}
        <button type="button" onClick=${() => this.branch({ id: past.at })}>Branch from here</button>
        <button type="button" onClick=${() => go(base + "/files" + then)}>Files of then</button>
        <button type="button" onClick=${() => { conversation.now(); go(base); }}>Back to now</button></div>` : null}
      <div class="scroll" ref=${this.scroller} onScroll=${() => this.scrolled()} tabindex="0" role="log" aria-label="Transcript" aria-live="off">
        <div class="column">
          ${conversation.error.value ? html`<p class="warn" role="alert">${conversation.error.value}</p>` : null}
          ${shown?.older ? html`<p class="quiet middle">Earlier messages…</p>` : null}
          ${isEmpty && !conversation.error.value ? html`<${Welcome} conversation=${conversation} put=${(text) => this.composer?.put(text)} />` : null}
          ${chunks.map((chunk, at) => html`<${Chunk} key=${chunk.key} rows=${chunk.rows} at=${past?.at} watch=${this.watch} unwatch=${this.unwatch} actions=${this.actions}
            day=${at ? dayOf(chunks[at - 1].rows[chunks[at - 1].rows.length - 1]) : ""} live=${at === chunks.length - 1 && !past && state.running} />`)}
          ${stream && (stream.text || stream.reasoning) ? html`<article class="said assistant" aria-label="Hermes">
            ${stream.reasoning ? html`<details class="reasoning"><summary>Reasoning</summary><pre tabindex="0">${stream.reasoning}</pre></details>` : null}
            <${Markdown} text=${stream.text} open=${true} /></article>` : null}
          ${!past && state?.running ? html`<p class="quiet working"><span class="dot" aria-hidden="true"></span>${state.status || (state.recovered ? "The last answer was cut off; going on with it." : state.elsewhere ? "Another process is answering." : "Working…")}</p>` : null}
          ${past ? null : html`
            ${(state?.waiting || []).map((one) => html`<article key=${one.message_id} class="said user waiting" aria-label="You, waiting"><p class="own">${textOf(one.text)}</p><div class="marks shown"><span class="quiet">waits</span></div></article>`)}
            ${unsent.map((entry) => html`<article key=${entry.id} class="said user waiting" aria-label="You, not sent yet"><p class="own">${entry.text}</p><div class="marks shown">
              ${entry.failed ? html`<span class="warn">${entry.failed}</span><button type="button" onClick=${() => again(entry.id)}>Send again</button><button type="button" onClick=${() => drop(entry.id)}>Throw away</button>` : html`<span class="quiet">not sent yet</span>`}</div></article>`)}
            ${state?.problem ? html`<p class="warn" role="alert">${written(state.problem)}</p>` : null}
            ${state?.notice ? html`<p class="notice" role="status">${written(state.notice)}</p>` : null}
            <${Questions} questions=${state?.questions || {}} sid=${() => conversation.sid} />`}
        </div>
      </div>
      <${Announcer} state=${state} />
      ${said ? html`<p class="warn middle" role="alert">${said}</p>` : null}
      ${past || isGone ? null : html`<${Composer} conversation=${conversation} ref=${(composer) => { this.composer = composer; }} readOnly=${me.value?.scope === "read"} onSend=${() => { this.stuck = true; }} />`}
    </section>`;
  }
}
const whenOf = (past) => when(past.messages.find((message) => message.id === past.at)?.timestamp);

/** Says an answer once, when it is whole, to those who listen. */
class Announcer extends Component {
  render({ state }) {
    const last = state?.messages[state.messages.length - 1];
    const text = state && !state.running && last?.role === "assistant" ? textOf(last.content) : "";
    return html`<p class="sr" role="status" aria-live="polite">${text ? "Hermes: " + text.slice(0, 2000) : ""}</p>`;
  }
}

const EXAMPLES = ["What can you do here?", "Summarise what we talked about yesterday", "Look at the files of this folder and tell me what they are for", "Remind me what I decided about the move"];
class Welcome extends Component {
  componentDidMount() { read("setup.status").then((status) => this.setState({ status }), () => {}); }
  render({ put }, { status }) {
    return html`<div class="welcome"><h2>What shall we do?</h2>
      ${status && !status.provider_configured ? html`<p class="quiet">The model inside the process answers, which is tiny. Connect another with <code>hermes setup</code>.</p>` : null}
      <ul>${EXAMPLES.map((text) => html`<li key=${text}><button type="button" onClick=${() => put(text)}>${text}</button></li>`)}</ul></div>`;
  }
}
export { short };
