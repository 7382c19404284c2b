// Questions of a turn: approvals, what to do next, passwords. Shown in the conversation and in the inbox.
import { html, Component, createRef } from "./dom.js";
import { call } from "./wire.js";
import { written } from "./text.js";

const ARMED = 350; // a button that has just come under a finger is not meant
let movedAt = 0; // when an approval last came or went, and others moved
const CHOICES = {
  __proto__: null, once: "Allow once", session: "Allow in this conversation", always: "Always allow", deny: "Deny",
};

/** One approval. `answer(choice)` decides it. */
export class Approval extends Component {
  constructor(props) { super(props); this.deny = createRef(); this.state = { said: "", now: Date.now() / 1000 }; }
  componentDidMount() {
    movedAt = performance.now();
    this.timer = setInterval(() => this.setState({ now: Date.now() / 1000 }), 1000);
    const active = /** @type {HTMLInputElement} */ (document.activeElement);
    const isTyping = active && (active.tagName === "TEXTAREA" || active.tagName === "INPUT") && active.value;
    if (this.props.focus && !isTyping) this.deny.current?.focus({ preventScroll: false });
  }
  componentWillUnmount() { clearInterval(this.timer); movedAt = performance.now(); }
  async choose(event, choice) {
    if (!event.isTrusted || performance.now() - movedAt < ARMED || this.state.busy) return;
    this.setState({ busy: true, said: "" });
    try { await this.props.answer(choice); } catch (error) { this.setState({ busy: false, said: error.message }); }
  }
  render({ question, where }, { said, now, busy }) {
    const left = question.expires_at ? Math.max(0, Math.round(question.expires_at - now)) : null;
    const keys = (question.pattern_keys || []).filter(Boolean);
    const choices = question.choices?.length ? question.choices : ["once", "session", "always", "deny"];
    return html`<section class="card ask" role="group" aria-label="Approval">
      <h3>May it do this?</h3>
      ${where}
      <p>${written(question.description || "")}</p>
      <pre class="command" tabindex="0" dir="ltr"><bdi>${written(question.command)}</bdi></pre>
      ${keys.length && choices.includes("always") ? html`<p class="quiet">“Always” holds for ${keys.map((key, at) => html`${at ? ", " : ""}<code>${written(key)}</code>`)}.</p>` : null}
      <div class="row">
        ${choices.filter((choice) => CHOICES[choice]).map((choice) => html`<button type="button" key=${choice} class=${choice} disabled=${busy}
          ref=${choice === "deny" ? this.deny : undefined} onClick=${(event) => this.choose(event, choice)}>${CHOICES[choice]}</button>`)}
        ${left == null ? null : html`<span class="quiet" role="timer">${left > 90 ? Math.ceil(left / 60) + " min left" : left + " s left"}</span>`}
      </div>
      ${said ? html`<p class="warn" role="alert">${said}</p>` : null}
    </section>`;
  }
}

class Clarify extends Component {
  constructor(props) { super(props); this.state = { text: "", said: "" }; }
  async give(answer) {
    try {
      const { status } = await call("clarify.respond", { request_id: this.props.question.request_id, answer });
      if (status === "expired") this.setState({ said: "Nobody waits for this answer any more." });
    } catch (error) { this.setState({ said: error.message }); }
  }
  render({ question }, { text, said }) {
    return html`<section class="card ask" role="group" aria-label="Question">
      <h3>A question</h3><p>${written(question.question)}</p>
      <div class="row">${(question.choices || []).map((choice) => html`<button type="button" key=${choice} onClick=${() => this.give(choice)}>${written(choice)}</button>`)}</div>
      <form class="row" onSubmit=${(event) => { event.preventDefault(); if (text.trim()) this.give(text); }}>
        <input aria-label="Your answer" value=${text} onInput=${(event) => this.setState({ text: event.target.value })} /><button type="submit">Answer</button></form>
      ${said ? html`<p class="warn" role="alert">${said}</p>` : null}
    </section>`;
  }
}

class Password extends Component {
  constructor(props) { super(props); this.field = createRef(); this.state = { said: "" }; }
  async give(event, refuse) {
    event.preventDefault();
    const password = refuse ? "" : this.field.current.value;
    this.field.current.value = "";
    try { await call("sudo.respond", { request_id: this.props.question.request_id, password }); } catch (error) { this.setState({ said: error.message }); }
  }
  render(_, { said }) {
    return html`<section class="card ask" role="group" aria-label="Password"><h3>sudo wants a password</h3><p class="quiet">It is not kept.</p>
      <form class="row" onSubmit=${(event) => this.give(event)}><input type="password" autocomplete="off" aria-label="Password" ref=${this.field} />
      <button type="submit">Give it</button><button type="button" onClick=${(event) => this.give(event, true)}>Refuse</button></form>
      ${said ? html`<p class="warn" role="alert">${said}</p>` : null}</section>`;
  }
}

export function Questions({ questions, sid }) {
  return Object.values(questions).map((question) =>
    question.kind === "approval.request"
      ? html`<${Approval} key=${question.request_id} question=${question} focus=${true}
          answer=${(choice) => call("approval.respond", { session_id: sid(), choice, request_id: question.request_id })} />`
      : question.kind === "clarify.request" ? html`<${Clarify} key=${question.request_id} question=${question} />`
      : html`<${Password} key=${question.request_id} question=${question} />`);
}
