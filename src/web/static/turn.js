// What happened in a turn, as a waterfall and as a table, for old turns too.
import { html, Component } from "./dom.js";
import { read } from "./wire.js";
import { dollars, lasting, plural, short, when, written } from "./text.js";

const KINDS = ["model", "tool", "compression"];

export default class Turn extends Component {
  constructor(props) { super(props); this.state = { turns: null, said: "", at: 0 }; }
  componentDidMount() { this.load(); }
  componentDidUpdate(previous) {
    const state = this.props.conversation.state.value;
    if (previous.conversation !== this.props.conversation || (state && state.settle !== this.seen)) { this.seen = state?.settle; this.load(); }
  }
  async load() {
    try { const { turns } = await read("conversation.turns", { id: this.props.conversation.key.value, limit: 50 }); this.setState({ turns, said: "" }); } catch (error) { this.setState({ said: error.message }); }
  }
  render(_, { turns, said, at }) {
    void this.props.conversation.state.value?.settle;
    if (!turns) return html`<h2>Turns</h2><p class="quiet">${said || "…"}</p>`;
    const turn = turns[Math.min(at, turns.length - 1)];
    if (!turn) return html`<h2>Turns</h2><p class="quiet">No turn yet.</p>`;
    const whole = Math.max(0.001, turn.ended_at - turn.began_at), width = 380, line = 22;
    const x = (time) => Math.max(0, ((time - turn.began_at) / whole) * width);
    const cost = turn.steps.reduce((sum, step) => sum + (step.cost_usd || 0), 0);
    return html`<h2>Turns</h2><label>Turn <select value=${at} onChange=${(event) => this.setState({ at: Number(event.target.value) })}>${turns.map((one, number) => html`<option key=${one.message_id} value=${number}>${when(one.began_at)} ${written(one.text).slice(0, 40)}</option>`)}</select></label>
      <p class="quiet">${lasting(whole)} · ${plural(turn.steps.length, "step")} · ${dollars(cost)}${turn.process ? " · run by process " + written(turn.process.split("|").slice(-2)[0]) : ""}${turn.attempts > 1 ? " · taken over " + (turn.attempts - 1) + " times" : ""}</p>
      <svg class="chart" viewBox=${"0 0 " + width + " " + (turn.steps.length * line + 20)} role="img" aria-label="Waterfall of the turn; the table below has the same">${turn.steps.map((step, number) => {
        const left = x(step.began_at), long = Math.max(2, (step.seconds / whole) * width), first = step.first_token_seconds ? Math.min(long, (step.first_token_seconds / whole) * width) : 0;
        return html`<g key=${number}><rect class=${"k" + Math.max(0, KINDS.indexOf(step.kind))} x=${left} y=${number * line + 2} width=${long} height=${line - 8} rx="2"><title>${step.name}: ${lasting(step.seconds)}</title></rect>
          ${first ? html`<rect x=${left} y=${number * line + 2} width=${first} height=${line - 8} fill="currentColor" opacity=".3"><title>first word after ${lasting(step.first_token_seconds)}</title></rect>` : null}
          <text x=${left + long + 120 <= width ? left + long + 4 : left > 100 ? left - 4 : width} text-anchor=${left + long + 120 <= width ? "start" : "end"} y=${number * line + 13}>${written(step.name)}</text></g>`;
      })}<text x="0" y=${turn.steps.length * line + 16}>0</text><text x=${width} y=${turn.steps.length * line + 16} text-anchor="end">${lasting(whole)}</text></svg>
      <p class="quiet"><span class="key b0"></span>model <span class="key b1"></span>tool <span class="key b2"></span>compression</p>
      <div class="wide" tabindex="0" role="region" aria-label="Steps"><table><thead><tr><th scope="col">Step</th><th scope="col">After</th><th scope="col">Took</th><th scope="col">First word</th><th scope="col">Tokens</th><th scope="col">Cost</th></tr></thead><tbody>${turn.steps.map((step, number) =>
        html`<tr key=${number}><td>${written(step.name)} <span class="quiet">${step.kind}${step.outcome === "complete" ? "" : " · " + step.outcome}</span></td><td>${lasting(Math.max(0, step.began_at - turn.began_at))}</td><td>${lasting(step.seconds)}</td><td>${lasting(step.first_token_seconds)}</td><td>${step.input_tokens ? short(step.input_tokens) + " → " + short(step.output_tokens) : ""}</td><td>${step.cost_usd == null ? "" : dollars(step.cost_usd)}</td></tr>`)}</tbody></table></div>`;
  }
}
