// What was used: cost, tokens and messages per day, by model, person, source or tool; hours; what is behind a bar.
import { html, Component } from "./dom.js";
import { read } from "./wire.js";
import { Bars, Hours, Table } from "./charts.js";
import { dollars, lasting, plural, short, dayKey, written } from "./text.js";
import { Choice, Link, Page } from "./page.js";
import { me } from "./app.js";

const MEASURES = { __proto__: null, cost_usd: ["Cost", dollars], tokens: ["Tokens", short], messages: ["Messages", short] };
const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const DAYS = [7, 30, 90, 365];

export default class Usage extends Component {
  constructor(props) { super(props); this.state = { days: 30, by: "model", measure: "cost_usd", found: null, said: "", day: null }; }
  componentDidMount() { this.load(); }
  async load(change = {}) {
    this.setState({ ...change, day: null });
    const { days, by } = { ...this.state, ...change };
    try { this.setState({ found: await read("insights.activity", { days, by }), said: "" }); } catch (error) { this.setState({ said: error.message }); }
  }
  render(_, { days, measure, found, said, day }) {
    if (!found) return html`<${Page} title="Usage" said=${said} loading=${true} />`;
    const by = found.by, isCount = by === "tool" || measure === "messages";
    const now = Date.now() / 1000, all = Array.from({ length: found.days_back }, (_, at) => dayKey(now - (found.days_back - 1 - at) * 86400));
    const [word, format] = by === "tool" ? ["Uses of tools", short] : MEASURES[measure];
    const parts = isCount ? found.counted : found.spent;
    const groups = isCount && !found.counted.length ? [""] : mostFirst(parts, isCount ? "count" : measure);
    const values = new Map(parts.map((part) => [part.day + "\0" + part.group, part]));
    const value = (one, group) => (isCount && !found.counted.length ? found.messages[one] || 0 : values.get(one + "\0" + group)?.[isCount ? "count" : measure] || 0);
    const name = (group) => (Object.hasOwn(found.names, group) && found.names[group]) || written(group) || (isCount && by === "model" ? "all" : "operator");
    const since = (back) => { const from = dayKey(now - (back - 1) * 86400); return { cost: sum(found.spent, from, "cost_usd"), tokens: sum(found.spent, from, "tokens"), messages: Object.entries(found.messages).filter(([one]) => one >= from).reduce((total, [, count]) => total + count, 0) }; };
    const tiles = [["Today", 1], ["7 days", 7], [days + " days", days]].filter(([, back], at) => !at || at === 2 || back < days);
    const bys = [["model", "by model"], ["source", "by source"], ["tool", "by tool"]];
    if (me.value?.role === "operator") bys.splice(1, 0, ["person", "by person"]);
    return html`<${Page} title="Usage" said=${said}>
      <div class="tiles">${tiles.map(([title, back]) => { const sums = since(back); return html`<div class="card tile" key=${title}><span class="quiet">${title}</span><b>${dollars(sums.cost)}</b>${short(sums.tokens)} tokens · ${plural(sums.messages, "message")}</div>`; })}</div>
      <div class="chips">${by === "tool" ? null : html`<${Choice} label="Measure" options=${Object.entries(MEASURES).map(([one, [text]]) => [one, text])} value=${measure} choose=${(one) => this.setState({ measure: one, day: null })} />`}
        <${Choice} label="Days" options=${DAYS.map((number) => [number, number + " d"])} value=${days} choose=${(number) => this.load({ days: number })} />
        <${Choice} label="By" options=${bys} value=${by} choose=${(one) => this.load({ by: one })} /></div>
      <h2>${word} per day</h2><${Bars} days=${all} groups=${groups} name=${name} value=${value} format=${format} label=${word + " per day"} chosen=${day} open=${(one, group) => this.setState({ day: { day: one, group } })} />
      <${Table} label=${word + " per day"} head=${["Day", ...groups.map(name)]} rows=${all.map((one) => [one, ...groups.map((group) => format(value(one, group)))]).reverse()} />
      ${day ? html`<${Behind} key=${day.day + by + day.group} day=${day.day} by=${by} group=${day.group} name=${name} />` : null}
      <div class="two"><section><h2>Tools</h2><${Rows} head=${["Tool", "Uses", "Median", "Lost"]} rows=${found.tools.map((tool) => [tool.name, tool.uses, tool.seconds == null ? "" : lasting(tool.seconds), tool.unknown || ""])} /></section>
      <section><h2>Sources</h2><${Rows} head=${["Source", "Messages"]} rows=${found.sources.map((source) => [source.name, source.messages])} /></section></div>
      <h2>When people write</h2><${Hours} times=${found.times} /><${Table} label="Messages by weekday and hour" head=${["Weekday", "Hour", "Messages"]} rows=${found.times.map((one) => [WEEKDAYS[one.weekday], one.hour + ":00", one.messages])} /><//>`;
  }
}
const sum = (parts, from, name) => parts.filter((part) => part.day >= from).reduce((total, part) => total + part[name], 0);
/** Groups with the largest first, so that their colours are the clearest. */
function mostFirst(parts, name) {
  const sums = new Map();
  for (const part of parts) sums.set(part.group, (sums.get(part.group) || 0) + part[name]);
  return [...sums.keys()].sort((one, other) => sums.get(other) - sums.get(one));
}
const Rows = ({ rows, head }) => (rows.length ? html`<table><thead><tr>${head.map((cell, at) => html`<th scope="col" key=${cell} class=${at ? "to-right" : undefined}>${cell}</th>`)}</tr></thead><tbody>${rows.map((row) => html`<tr key=${row[0]}>${row.map((cell, at) => html`<td key=${at} class=${at ? "to-right" : undefined}>${at ? cell : written(cell)}</td>`)}</tr>`)}</tbody></table>` : html`<p class="quiet">None.</p>`);

/** The conversations behind a bar. */
class Behind extends Component {
  componentDidMount() {
    const { day, by, group } = this.props;
    read("insights.day", { day, by, ...(group == null ? {} : { group }) }).then(({ conversations }) => this.setState({ rows: conversations }), (error) => this.setState({ said: error.message }));
    this.base?.scrollIntoView?.({ block: "nearest" });
  }
  render({ day, group, name }, { rows, said }) {
    return html`<section class="behind card" aria-live="polite" aria-label="Behind the bar"><h2>${day}${group == null ? "" : ", " + written(name(group))}</h2>
      ${!rows ? html`<p class="quiet">${said || "…"}</p>` : !rows.length ? html`<p class="quiet">No conversation that is still there.</p>` : html`<div class="wide" tabindex="0" role="region" aria-label="Conversations of the day"><table><thead><tr><th scope="col">Conversation</th><th scope="col" class="to-right">Cost</th><th scope="col" class="to-right">Tokens</th><th scope="col" class="to-right">Messages</th><th scope="col" class="to-right">Tools</th></tr></thead><tbody>${rows.map((row) =>
        html`<tr key=${row.id}><td><${Link} to=${"/c/" + encodeURIComponent(row.id)}>${written(row.title || "Untitled")}<//> <span class="quiet">${row.source}</span></td><td class="to-right">${dollars(row.cost_usd)}</td><td class="to-right">${short(row.tokens)}</td><td class="to-right">${row.messages}</td><td class="to-right">${row.tools}</td></tr>`)}</tbody></table></div>`}</section>`;
  }
}
