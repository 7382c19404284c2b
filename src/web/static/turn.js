// What happened in a turn, as a waterfall and as a table, for old turns too.
import { html, Component } from "./dom.js";
import { read } from "./wire.js";
import { Card } from "./tools.js";
import { dollars, lasting, plural, short, when, written } from "./text.js";
import { go } from "./app.js";

const KINDS = { __proto__: null, model: [0, "model"], tool: [1, "tool"], compression: [2, "compression"], waiting: [5, "waiting"], delivery: [4, "delivery"] };
const OTHER = [3, "side task"];
const kindOf = (step) => KINDS[step.kind] || OTHER;
const WIDTH = 380, LINE = 22, ROOM = 120;

export default class Turn extends Component {
  constructor(props) { super(props); this.state = { turns: null, said: "", open: null }; }
  componentDidMount() { this.load(); }
  componentDidUpdate(previous) {
    const state = this.props.conversation.state.value;
    if (previous.conversation !== this.props.conversation || (state && state.settle !== this.seen)) { this.seen = state?.settle; this.load(); }
  }
  async load(before) {
    try {
      const { turns } = await read("conversation.turns", { id: this.props.conversation.key.value, limit: 50, ...(before ? { before } : {}) });
      this.setState((state) => ({ turns: before ? [...state.turns, ...turns] : turns, said: "", last: turns.length < 50 }));
    } catch (error) { this.setState({ said: error.message }); }
  }
  choose(id) { this.setState({ open: null }); go("/c/" + encodeURIComponent(this.props.conversation.key.value) + "/turn/" + id, true); }
  async show(step) {
    const { open } = this.state;
    if (open?.step === step) { this.setState({ open: null }); return; }
    this.setState({ open: { step } });
    if (step.message_id == null) return;
    try {
      const { messages } = await read("conversation.messages", { id: this.props.conversation.key.value, around: step.message_id, limit: 40 });
      const result = messages.find((message) => message.id === step.message_id);
      const made = messages.flatMap((message) => message.tool_calls || []).find((one) => one.id === result?.tool_call_id);
      if (result) this.setState({ open: { step, call: { id: result.tool_call_id, name: step.name, arguments: made?.function?.arguments ?? "", result: result.content, done: true, seconds: step.seconds, unknown: step.outcome === "unknown" } } });
    } catch (error) { this.setState({ said: error.message }); }
  }

  render({ conversation, rest }, { turns, said, open, last }) {
    void conversation.state.value?.settle;
    if (!turns) return html`<h2>Turns</h2><p class="quiet">${said || "…"}</p>`;
    const at = Math.max(0, turns.findIndex((one) => String(one.message_id) === rest?.[0])), turn = turns[at];
    if (!turn) return html`<h2>Turns</h2><p class="quiet">No turn yet.</p>`;
    const whole = Math.max(0.001, turn.ended_at - turn.began_at);
    const cost = turn.steps.reduce((sum, step) => sum + (step.cost_usd || 0), 0), tokens = turn.steps.reduce((sum, step) => sum + step.input_tokens + step.output_tokens, 0);
    const again = turn.steps.filter((step) => step.kind === "model" && step.outcome === "error").length;
    const kinds = [...new Map(turn.steps.map((step) => [kindOf(step)[1], kindOf(step)])).values()];
    return html`<h2>Turns</h2>${said ? html`<p class="warn" role="alert">${said}</p>` : null}
      <div class="row"><button type="button" aria-label="Earlier turn" disabled=${at + 1 >= turns.length} onClick=${() => this.choose(turns[at + 1].message_id)}>‹</button>
        <select class="grow" aria-label="Turn" value=${turn.message_id} onChange=${(event) => this.choose(event.target.value)}>${turns.map((one) => html`<option key=${one.message_id} value=${one.message_id}>${when(one.began_at)} ${written(one.text).slice(0, 40)}</option>`)}</select>
        <button type="button" aria-label="Later turn" disabled=${!at} onClick=${() => this.choose(turns[at - 1].message_id)}>›</button></div>
      ${last === false && at + 1 >= turns.length ? html`<button type="button" onClick=${() => this.load(turn.message_id)}>Earlier turns</button>` : null}
      <p class="facts-of"><b>${lasting(whole)}</b> · ${plural(turn.steps.length, "step")} · ${short(tokens)} tokens · ${dollars(cost)}${again ? " · " + plural(again, "failed call") : ""}
        ${turn.process ? html`<br /><span class="quiet">run by process ${written(turn.process.split("|").slice(-2)[0])}${turn.attempts > 1 ? ", taken over " + plural(turn.attempts - 1, "time") + " from one that was gone" : ""}</span>` : null}</p>
      <${Waterfall} turn=${turn} whole=${whole} chosen=${open?.step} show=${(step) => this.show(step)} />
      <p class="quiet legend">${kinds.map(([colour, name]) => html`<span key=${name}><span class=${"key b" + colour}></span>${name} </span>`)}${turn.steps.some((step) => step.first_token_seconds) ? html`<span><span class="key first"></span>until the first word</span>` : null}</p>
      ${open ? html`<${Opened} step=${open.step} call=${open.call} turn=${turn} />` : null}
      <div class="wide" tabindex="0" role="region" aria-label="Steps"><table class="tight"><thead><tr><th scope="col">Step</th><th scope="col">After</th><th scope="col">Took</th><th scope="col">Tokens</th><th scope="col">Cost</th></tr></thead><tbody>${turn.steps.map((step, number) =>
        html`<tr key=${number}><td><button type="button" class="plain" aria-expanded=${open?.step === step ? "true" : "false"} onClick=${() => this.show(step)}>${written(step.name)}</button><span class="quiet">${kindOf(step)[1]}${step.outcome === "complete" ? "" : html` · <b class="warn">${step.outcome}</b>`}</span></td>
          <td>${lasting(Math.max(0, step.began_at - turn.began_at))}</td><td>${lasting(step.seconds)}</td><td>${step.input_tokens ? short(step.input_tokens) + " → " + short(step.output_tokens) : ""}</td><td>${step.cost_usd == null ? "" : dollars(step.cost_usd)}</td></tr>`)}</tbody></table></div>`;
  }
}

function Waterfall({ turn, whole, chosen, show }) {
  const x = (time) => Math.max(0, ((time - turn.began_at) / whole) * WIDTH), height = turn.steps.length * LINE;
  return html`<svg class="chart" viewBox=${"0 0 " + WIDTH + " " + (height + 20)} role="img" aria-label="Waterfall of the turn; the table below has the same">
    ${[0.25, 0.5, 0.75].map((part) => html`<line key=${part} class="grid" x1=${part * WIDTH} x2=${part * WIDTH} y1="0" y2=${height} />`)}
    ${turn.steps.map((step, number) => {
      const left = Math.min(x(step.began_at), WIDTH - 2), long = Math.max(2, Math.min((step.seconds / whole) * WIDTH, WIDTH - left)), first = step.first_token_seconds ? Math.min(long, (step.first_token_seconds / whole) * WIDTH) : 0;
      const isRight = left + long + ROOM <= WIDTH, isLeft = !isRight && left > 100, y = number * LINE;
      return html`<g key=${number} class=${"step" + (chosen === step ? " chosen" : "")} onClick=${() => show(step)}><rect class="whole" x="0" y=${y} width=${WIDTH} height=${LINE} /><rect class=${"k" + kindOf(step)[0]} x=${left} y=${y + 3} width=${long} height=${LINE - 8} rx="2"><title>${step.name}: ${lasting(step.seconds)}</title></rect>
        ${first ? html`<rect class="first" x=${left} y=${y + 3} width=${first} height=${LINE - 8} rx="2"><title>first word after ${lasting(step.first_token_seconds)}</title></rect>` : null}
        <text x=${isRight ? left + long + 4 : isLeft ? left - 4 : left + 5} class=${!isRight && !isLeft ? "inside" : undefined} text-anchor=${isLeft ? "end" : "start"} y=${y + 14}>${written(step.name).slice(0, 28)}</text></g>`;
    })}<text x="0" y=${height + 16}>0</text><text x=${WIDTH} y=${height + 16} text-anchor="end">${lasting(whole)}</text></svg>`;
}

/** All that is known of a step. */
function Opened({ step, call, turn }) {
  if (call) return html`<${Card} call=${call} live=${false} />`;
  const facts = [["began", when(step.began_at) + ", " + lasting(Math.max(0, step.began_at - turn.began_at)) + " after the turn"], ["took", lasting(step.seconds)], ["first word", step.first_token_seconds ? "after " + lasting(step.first_token_seconds) : ""],
    ["tokens", step.input_tokens ? step.input_tokens + " read, " + step.output_tokens + " written" : ""], ["cost", step.cost_usd == null ? "" : dollars(step.cost_usd)], ["outcome", step.outcome]].filter(([, text]) => text);
  return html`<article class="card" aria-label="The step"><h4>${written(step.name)} <span class="quiet">${kindOf(step)[1]}</span></h4><dl>${facts.map(([name, text]) => html`<dt key=${name}>${name}</dt><dd>${text}</dd>`)}</dl></article>`;
}
