// The lineage of a conversation as lanes, and any point of it as it was then.
import { html, Component } from "./dom.js";
import { read } from "./wire.js";
import { dollars, plural, short, textOf, when, written } from "./text.js";
import { go } from "./app.js";

const WORDS = { __proto__: null, root: "Beginning", continuation: "Compressed, and went on", branch: "Branch", delegate: "Delegate", child: "Child" };
const GLYPH = { __proto__: null, branched: " · left for its branch", session_reset: " · ended" };
const STEP = 18, FAR = 999; // lines go to the end of their row, however high it is
const MOST = 500;

/** Each member with its lane: continuations stay in their parent's, everything else gets its own. */
function lanesOf(members) {
  const lanes = new Map();
  let next = 0;
  for (const member of members) lanes.set(member.id, member.relation === "continuation" && lanes.has(member.parent) ? lanes.get(member.parent) : next++);
  return lanes;
}

export default class History extends Component {
  constructor(props) { super(props); this.state = { family: null, said: "", chosen: null, points: [], at: 0 }; }
  componentDidMount() { this.load(); }
  componentDidUpdate(previous) { if (previous.conversation !== this.props.conversation) this.load(); }
  async load() {
    try { const family = await read("conversation.family", { id: this.props.conversation.key.value }); this.setState({ family, said: "" }); await this.choose(family.members.find((member) => member.id === family.id)); } catch (error) { this.setState({ said: error.message }); }
  }
  async choose(member) {
    if (!member) return;
    const page = await read("conversation.messages", { id: member.id, limit: MOST, undone: true });
    const points = page.messages.filter((message) => message.role !== "tool" && message.id != null);
    this.setState({ chosen: member, points, at: points.length - 1, older: page.older });
  }
  show(at) {
    const { points, chosen } = this.state, { conversation } = this.props;
    this.setState({ at });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const message = points[at];
      const isHere = chosen.conversation_id === this.state.family.members.find((member) => member.id === this.state.family.id)?.conversation_id;
      if (!isHere) go("/c/" + encodeURIComponent(chosen.id) + "?at=" + message.id);
      else conversation.goTo(message.id, "said", "This is how it was on " + when(message.timestamp)).catch((error) => this.setState({ said: error.message }));
    }, 150);
  }
  render(_, { family, said, chosen, points, at }) {
    if (!family) return html`<h2>History</h2><p class="quiet">${said || "…"}</p>`;
    const lanes = lanesOf(family.members), rows = [...family.members].reverse(), width = (Math.max(...lanes.values()) + 1) * STEP + 6;
    const rowOf = new Map(rows.map((member, number) => [member.id, number]));
    const point = points[at];
    return html`<h2>History</h2>${said ? html`<p class="warn" role="alert">${said}</p>` : null}
      <ol class="lanes" aria-label="Lineage, newest first">${rows.map((member, number) => {
        const x = lanes.get(member.id) * STEP + 9;
        const through = family.members.filter((one) => one.parent && rowOf.get(one.id) < number && rowOf.get(one.parent) > number);
        const children = family.members.filter((one) => one.parent === member.id);
        return html`<li key=${member.id}><span class="lane" style=${{ width: width + "px" }}><svg width=${width} height="100%" aria-hidden="true">
          ${through.map((one) => html`<path class=${one.relation === "delegate" ? "dotted" : undefined} d=${"M" + (lanes.get(one.id) * STEP + 9) + " 0V" + FAR} />`)}
          ${children.map((one) => html`<path class=${one.relation === "delegate" ? "dotted" : undefined} d=${"M" + x + " 18C" + x + " 6," + (lanes.get(one.id) * STEP + 9) + " 12," + (lanes.get(one.id) * STEP + 9) + " 0"} />`)}
          ${member.parent && rowOf.has(member.parent) ? html`<path class=${member.relation === "delegate" ? "dotted" : undefined} d=${"M" + x + " 18V" + FAR} />` : null}
          <circle cx=${x} cy="18" r="5" class=${member.ended_at ? "hollow" : undefined} /></svg></span>
          <button type="button" aria-current=${chosen?.id === member.id ? "true" : undefined} onClick=${() => this.choose(member)}><b>${WORDS[member.relation] || member.relation}</b> ${written(member.title || "")}<br />
          <span class="quiet">${when(member.started_at)} · ${plural(member.message_count, "message")}${member.tokens ? " · " + short(member.tokens) + " tokens" : ""}${member.cost_usd ? " · " + dollars(member.cost_usd) : ""}${GLYPH[member.end_reason] || ""}</span></button></li>`;
      })}</ol>
      ${points.length ? html`<h2>Any point of it</h2><label>Message ${at + 1} of ${points.length}<input type="range" min="0" max=${points.length - 1} value=${at} onInput=${(event) => this.show(Number(event.target.value))} aria-valuetext=${point ? when(point.timestamp) : ""} /></label>
        ${points.length > 1 ? html`<ol class="points" aria-hidden="true">${points.map((one, number) => html`<li key=${one.id} class=${(one.role === "user" ? "you" : "it") + (one.undone ? " hollow" : "") + (number === at ? " now" : "")} />`)}</ol>` : null}
        ${point ? html`<p class=${point.undone ? "quiet undone" : "quiet"}>${when(point.timestamp)} · ${point.role === "user" ? "you" : "Hermes"}${point.undone ? ", taken back" : ""}: ${written(textOf(point.content)).slice(0, 160)}</p>` : null}
        <p class="quiet">Looking changes nothing. <b>Branch from here</b>, above the transcript, begins a conversation that has gone as far as that.</p>` : null}`;
  }
}
